"""The one error a user is meant to read."""


class InputError(Exception):
    """Something the user gave is wrong: the message names the place, the fault and the remedy."""
