"""What a rank says of the exception that ends it.

Rule of this file: as of ``messages``: data, by the standard library alone.
"""

from __future__ import annotations

import json
from dataclasses import asdict, dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from paceline.events import Time

#: The first byte of the message.
FAILED = b"x"
#: Characters of an exception's text; as ``paceline.events.LONGEST_MESSAGE``.
LONGEST_TEXT = 400


@dataclass(frozen=True)
class Failed:
    """The exception that ends the process, noted at ``raised_s``; the rest is as in ``RankEnd``.

    ``handled``: the script's own code runs while it is handled, and may yet go on: the exit status decides.
    """

    raised_s: Time
    error: str
    message: str
    first: str = ""
    line: str = ""
    thread: str = ""
    handled: bool = False


def encode_failed(failed: Failed) -> bytes:
    """``failed`` as it travels."""
    return FAILED + json.dumps(asdict(failed), separators=(",", ":")).encode("utf-8", "replace")
