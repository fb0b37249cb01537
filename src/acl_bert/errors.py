"""Errors for users: the message names the file or setting, the fault and the remedy."""

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
    """A library's error in one line, for a message; of a long one its end too, often the cause."""
    line = (str(error).splitlines() or [type(error).__name__])[0]
    return line if len(line) <= 240 else f"{line[:120]} … {line[-117:]}"
