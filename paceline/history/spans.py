"""Lengths of time and moments as people write them: ``7d``, ``90m``, ``2026-11-25``, ``2026-11-25T08:00``.

Rule of this file: pure. A date without a time zone is in UTC, as all days of an archive are.
"""

import datetime
import re

_UNITS = {"s": 1.0, "m": 60.0, "h": 3600.0, "d": 86_400.0, "w": 7 * 86_400.0}
#: Nobody asks for more than a century.
_MOST_S = 100 * 365 * 86_400.0


def seconds(raw: str) -> float:
    """A length of time.

    Raises:
        ValueError: it is none, or longer than a century.

    >>> seconds("7d"), seconds("90m"), seconds("1.5h")
    (604800.0, 5400.0, 5400.0)
    """
    match = re.fullmatch(r"([0-9]{1,9}(?:\.[0-9]{1,6})?)([smhdw])", raw)
    if match is None:
        raise ValueError(f"{raw[:40]!r} is no length of time; allowed: a number and s, m, h, d or w, as 7d")
    value = float(match[1]) * _UNITS[match[2]]
    if value > _MOST_S:
        raise ValueError(f"{raw[:40]!r} is longer than a century")
    return value


def moment(raw: str, now_s: float) -> float:
    """A Unix time: so long before ``now_s``, or a date with or without a time.

    Raises:
        ValueError: it is neither.

    >>> moment("1d", 86_400.0), moment("1970-01-02", 0.0), moment("1970-01-02T01:00+01:00", 0.0)
    (0.0, 86400.0, 86400.0)
    """
    if re.fullmatch(r"[0-9]{4}-.*", raw):
        try:
            told = datetime.datetime.fromisoformat(raw)
        except ValueError:
            raise ValueError(f"{raw[:40]!r} is no date; allowed: 2026-11-25 or 2026-11-25T08:00") from None
        return max(0.0, (told if told.tzinfo else told.replace(tzinfo=datetime.UTC)).timestamp())
    try:
        return max(0.0, now_s - seconds(raw))
    except ValueError as error:
        raise ValueError(f"{error}; or a date as 2026-11-25") from None
