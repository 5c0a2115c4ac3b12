"""Whether a document is to be written again, and the text of it.

Rule of this file: pure. Numbers move all the time: a document is written anew when something in it has changed by more
than it is worth, and then with all its numbers. What the object holds may be anybody's text.
"""

import json
from typing import Any

import msgspec

from .documents import MOST_BYTES, SCHEMA_VERSION, Document, moment

#: By how a number's name ends: what it may differ by, and what share of itself, before that is news.
TOLERANCES = {
    "_ratio": (0.02, 0.0),
    "confidence": (0.05, 0.0),
    "_w": (5.0, 0.03),
    "_bytes": (0.0, 0.01),
    "_s": (0.0, 0.05),
}
#: When something was written or seen: no reason to write.
AT, TIMES = "at", frozenset(("at", "seen"))


def news(held: str | None, document: Document, now_s: float) -> str | None:
    """The text to write where ``held`` is there now; None where it says the same.

    >>> text = news(None, {"power_mean_w": 300}, 0.0)
    >>> text
    '{"power_mean_w":300,"at":"1970-01-01T00:00:00Z"}'
    >>> news(text, {"power_mean_w": 304}, 60.0), news(text, {"power_mean_w": 320}, 60.0) is None
    (None, False)
    """
    before = None if held is None else read(held)
    # Most of the time nothing has moved at all, and that is seen at once.
    if isinstance(before, dict) and (before == {**document, AT: before.get(AT)} or same(before, document)):
        return None
    told = _fitting(document, now_s)
    # What had to be cut is held as it was cut.
    return None if isinstance(before, dict) and same(before, told) else _compact(told)


def read(text: str) -> Any:
    """What an annotation holds; None where that is no JSON."""
    try:
        return msgspec.json.decode(text)
    except (msgspec.DecodeError, UnicodeError, RecursionError):
        return None


def same(before: Any, now: Any, name: str = "") -> bool:
    """Whether nothing that matters is different."""
    if isinstance(now, dict):
        return (
            isinstance(before, dict)
            and before.keys() - TIMES == now.keys() - TIMES
            and all(same(before[key], now[key], name if key == "value" else key) for key in now.keys() - TIMES)
        )
    if isinstance(now, list):
        return (
            isinstance(before, list)
            and len(before) == len(now)
            and all(same(one, other, name) for one, other in zip(before, now, strict=True))
        )
    if isinstance(now, bool) or isinstance(before, bool) or not isinstance(now, int | float):
        return type(before) is type(now) and bool(before == now)
    if not isinstance(before, int | float):
        return False
    fixed, share = next((bound for ending, bound in TOLERANCES.items() if name.endswith(ending)), (0.0, 0.0))
    return bool(abs(before - now) <= max(fixed, share * abs(now)) + 1e-9)


def _fitting(document: Document, now_s: float) -> Document:
    """What to write, never longer than an annotation may be: lists are cut, the longest first, and said to be."""
    told = {**document, AT: moment(now_s)}
    while len(_compact(told).encode()) > MOST_BYTES:
        lists = [key for key, value in told.items() if isinstance(value, list) and value]
        if not lists:
            return {"schema_version": SCHEMA_VERSION, "too_long": True, AT: moment(now_s)}
        key = max(lists, key=lambda one: len(told[one]))
        told = {**told, key: told[key][:-1], "left_out": told.get("left_out", 0) + 1}
    return told


def _compact(told: Document) -> str:
    return json.dumps(told, separators=(",", ":"), ensure_ascii=False)
