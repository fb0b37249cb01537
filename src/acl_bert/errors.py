"""The one error a user is meant to read."""


class InputError(Exception):
    """Something the user gave is wrong: the message names the place, the fault and the remedy."""


def first_line(error: BaseException) -> str:
    """What a library's error says first, for a message of one line."""
    lines = str(error).splitlines() or [type(error).__name__]
    return lines[0][:200]
