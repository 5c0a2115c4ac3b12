"""How the sidecar of a node asks a rank where its code is, and what the rank answers.

Rule of this file: as of ``messages``: data, by the standard library alone. A rank of an earlier version ignores the
request; what the sidecar then knows of it comes from the kernel.
"""

from __future__ import annotations

import json
from dataclasses import asdict, dataclass, field
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from paceline.events import Count, Whole

#: The first byte of an answer, and the word under which a sidecar asks.
LOOKED = b"w"
LOOK = "look"
#: Frames of the stack in an answer, others that the thread came through, and characters of one.
MOST_FRAMES, MOST_OTHERS, LONGEST_FRAME = 12, 24, 200


@dataclass(frozen=True)
class Looked:
    """Where the thread that trains is: ``frames`` (file:line function), the innermost first, and of them ``line``,
    the innermost in the user's own code, "" where there is none. ``task`` is the thread as the kernel knows it;
    ``timed`` is false while the probe is off. ``others`` are functions that it was in within the next fifth of a second
    and that are not in ``frames``."""

    number: Count
    task: Whole
    timed: bool
    line: str
    frames: list[str] = field(default_factory=list)
    others: list[str] = field(default_factory=list)


def encode_look(number: int) -> bytes:
    """The request for look ``number`` as it travels."""
    return json.dumps({LOOK: number}).encode()


def decode_look(data: bytes) -> int | None:
    """The number of the look that a sidecar asks for; None where that is another message.

    >>> decode_look(encode_look(3)), decode_look(b'{"look":true}'), decode_look(b'{"look":-1}'), decode_look(b"[")
    (3, None, None, None)
    """
    try:
        number = json.loads(data)[LOOK]
    except (ValueError, TypeError, LookupError, RecursionError):
        return None
    return number if type(number) is int and 0 <= number < 2**53 else None


def encode_looked(looked: Looked) -> bytes:
    """``looked`` as it travels."""
    return LOOKED + json.dumps(asdict(looked), separators=(",", ":")).encode("utf-8", "replace")
