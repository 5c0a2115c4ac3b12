"""What keeps a case from being read."""


class NotPossibleError(Exception):
    """This machine cannot show it: why, on one line."""


class RunError(Exception):
    """A run that had to end well did not: how it ended, on one line."""
