"""Why a message did not arrive.

Rule of this file: data only. A line says what was answered, and never the address, which may be secret.
"""


class NotDeliveredError(Exception):
    """It did not arrive; ``asked_s`` is how long the destination asks to be left alone.

    ``reached`` says that the message got there: it may be this message alone that is not taken.
    """

    def __init__(self, line: str, asked_s: float = 0.0, reached: bool = False) -> None:
        super().__init__(line)
        self.asked_s, self.reached = asked_s, reached


class RefusedError(Exception):
    """It will never be taken as it is: only a part of it may be."""
