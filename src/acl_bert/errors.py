"""Errors that a user is meant to read: the message names the place, the fault and the remedy."""

import signal


class AclBertError(Exception):
    """Any of them; the command line prints it without a traceback."""


class InputError(AclBertError):
    """Something the user gave is wrong; raised before work starts."""


class TrainingError(AclBertError):
    """A training that cannot go on."""


class Interrupted(AclBertError):
    """A run was told to stop, and goes on from its checkpoint when it is started again."""

    def __init__(self, signal_number: int) -> None:
        name = signal.Signals(signal_number).name
        super().__init__(f"stopped by {name}; started again, the run goes on from its checkpoint")
        self.signal_number = signal_number


def first_line(error: BaseException) -> str:
    """What a library's error says first, for a message of one line."""
    lines = str(error).splitlines() or [type(error).__name__]
    return lines[0][:200]
