"""Lengths of time and moments as people write them: ``90s``, ``1h30m``, ``2d``; ``2026-01-05T08:00:00Z``.

Rule of this file: text to numbers. A bare number is seconds; a moment without a zone is UTC.
"""

import re
from datetime import UTC, datetime

#: The longest length of time that is read.
LONGEST_S = 1000 * 366 * 86_400.0
_UNITS = {"ms": 1e-3, "s": 1.0, "m": 60.0, "h": 3600.0, "d": 86_400.0}
_PART = re.compile(r"(\d+(?:\.\d+)?)(ms|s|m|h|d)", re.ASCII)
_NUMBER = re.compile(r"\d+(\.\d+)?", re.ASCII)


def seconds(text: str) -> float:
    """Seconds that ``text`` says.

    >>> seconds("90s"), seconds("1h30m"), seconds("250ms"), seconds("12")
    (90.0, 5400.0, 0.25, 12.0)

    Raises:
        ValueError: it says no length of time.
    """
    text = text.strip()
    parts = [(text, "s")] if _NUMBER.fullmatch(text) else _PART.findall(text)
    if not parts or text not in ("".join(map("".join, parts)), parts[0][0]):
        raise ValueError(f"{text[:40]!r} is no length of time; write 90s, 1h30m or 2d")
    length_s = sum(float(number) * _UNITS[unit] for number, unit in parts)
    if length_s > LONGEST_S:
        raise ValueError(f"{text[:40]!r} is longer than a thousand years")
    return length_s


class Length(float):
    """Seconds, written as ``90s`` or ``2h``."""


class Moment:
    """A moment: ``after_s`` seconds after a start, or of itself ``unix_s`` (Unix time)."""

    def __init__(self, after_s: float = 0.0, unix_s: float | None = None) -> None:
        self.after_s = after_s
        self.unix_s = unix_s

    def since(self, start_s: float) -> float:
        """Seconds from ``start_s`` (Unix time) to it."""
        return self.after_s if self.unix_s is None else self.unix_s - start_s


def unix(text: str) -> float:
    """The Unix time of an ISO 8601 moment.

    >>> unix("2026-01-05T00:00:00Z")
    1767571200.0

    Raises:
        ValueError: it is none.
    """
    try:
        moment = datetime.fromisoformat(text.strip())
        return (moment if moment.tzinfo else moment.replace(tzinfo=UTC)).timestamp()
    except (ValueError, OverflowError):
        raise ValueError(f"{text[:40]!r} is no moment; write 2026-01-05T08:00:00Z") from None


def moment(text: str) -> Moment:
    """The moment that ``text`` says: a length of time after the start, or ISO 8601.

    Raises:
        ValueError: it says none.
    """
    if re.match(r"\s*\d{4}-\d", text):
        return Moment(unix_s=unix(text))
    return Moment(after_s=seconds(text))
