"""What the user is told in one line instead of a traceback."""


class Unusable(Exception):
    """What was asked for cannot be done here; the text says why, in one line, without secrets."""
