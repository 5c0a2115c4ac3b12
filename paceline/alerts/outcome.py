"""Why a message did not arrive.

Rule of this file: data only. A line says what was answered, and never the address, which may be secret.
"""


class NotDeliveredError(Exception):
    """It did not arrive; ``asked_s`` is how long the destination asks to be left alone."""

    def __init__(self, line: str, asked_s: float = 0.0) -> None:
        super().__init__(line)
        self.asked_s = asked_s


class RefusedError(Exception):
    """It will never be taken as it is: to send it again is of no use."""
