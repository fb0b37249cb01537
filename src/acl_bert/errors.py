"""Errors that a user is meant to read: the message names the place, the fault and the remedy."""


class AclBertError(Exception):
    """Any of them; the command line prints it without a traceback."""


class InputError(AclBertError):
    """Something the user gave is wrong; raised before work starts."""


class TrainingError(AclBertError):
    """A training that cannot go on."""


def first_line(error: BaseException) -> str:
    """What a library's error says first, for a message of one line."""
    lines = str(error).splitlines() or [type(error).__name__]
    return lines[0][:200]
