"""A change that a visitor asked control for.

Rule of this file: pure.
"""

from dataclasses import dataclass


@dataclass(frozen=True)
class Change:
    """What was asked for at ``at_s``, and what control said; ``said`` is empty while it is on its way.

    ``command`` is the id of the command that control gave because of it, if any.
    """

    number: int
    words: str
    at_s: float
    said: str = ""
    failed: bool = False
    command: str = ""
