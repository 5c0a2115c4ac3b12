"""Quantities in words: lengths of time, shares, hours, bytes, moments.

Rule of this file: pure; None is said as what it is, not measured.
"""

from collections.abc import Mapping
from datetime import UTC, datetime

from paceline import words

UNKNOWN = "\N{EN DASH}"
#: From here on a length of time is in days.
_DAYS_S = 172_800.0


def seconds(value: float | None) -> str:
    """A length of time as Paceline says it everywhere; of two days and more in days.

    >>> [seconds(one) for one in (0.000005, 0.0004, 0.0634, 0.9996, 1.5, 95.0, 158.4, 7260.0, 200000.0)]
    ['5.00 µs', '400 µs', '63.4 ms', '1.00 s', '1.50 s', '95.0 s', '2 min 38 s', '2 h 1 min', '2 d 7 h']
    """
    if value is None:
        return UNKNOWN
    if value < _DAYS_S:
        return words.seconds(value)
    minutes = round(value / 60)
    return f"{minutes // 1440} d {minutes % 1440 // 60} h"


def hours(value: float | None) -> str:
    """Device-hours.

    >>> hours(0.0379), hours(3.88), hours(1234.5)
    ('0.038', '3.9', '1,234')
    """
    if value is None:
        return UNKNOWN
    if value >= 100:
        return f"{value:,.0f}"
    return f"{value:.2g}" if value < 10 else f"{value:.1f}"


def share(value: float | None, digits: int = 0) -> str:
    """A ratio in percent.

    >>> share(0.397), share(0.0042, 1), share(0.0042), share(None) == UNKNOWN
    ('40 %', '0.4 %', '<1 %', True)
    """
    if value is None:
        return UNKNOWN
    least: float = 10**-digits
    return f"<{least:g} %" if 0 < value * 100 < least / 2 else f"{value * 100:.{digits}f} %"


def count(value: int) -> str:
    """A whole number.

    >>> count(12345)
    '12,345'
    """
    return f"{value:,}"


def gib(value: float | None) -> str:
    """Bytes."""
    return UNKNOWN if value is None else f"{value / 2**30:.3g} GiB"


def kwh(joules: float) -> str:
    """Energy.

    >>> kwh(3.6e6), kwh(7200.0)
    ('1.00 kWh', '2.00 Wh')
    """
    return f"{joules / 3.6e6:,.2f} kWh" if joules >= 1e5 else f"{joules / 3600:.2f} Wh"


def amount(value: float | None, unit: str) -> str:
    """A number in ``unit``, rounded."""
    return UNKNOWN if value is None else f"{value:,.3g} {unit}".replace("e+", "e").strip()


def moment(time_s: float | None) -> str:
    """When, in UTC.

    >>> moment(1_700_000_000.0)
    '2023-11-14 22:13:20 UTC'
    """
    if time_s is None:
        return UNKNOWN
    return f"{datetime.fromtimestamp(min(max(time_s, 0.0), 253_402_300_799.0), UTC):%Y-%m-%d %H:%M:%S} UTC"


def period(from_s: float | None, to_s: float | None) -> str:
    """From when to when, in UTC; the date once where it is the same.

    >>> period(1_700_000_000.0, 1_700_000_060.0)
    '2023-11-14 22:13:20 to 22:14:20 UTC'
    >>> period(1_700_000_000.0, 1_700_010_000.0)
    '2023-11-14 22:13:20 UTC to 2023-11-15 01:00:00 UTC'
    """
    first, last = moment(from_s), moment(to_s)
    day, _, time = last.partition(" ")
    if time and first.startswith(f"{day} "):
        return f"{first.removesuffix(' UTC')} to {time}"
    return f"{first} to {last}"


def clock(time_s: float, length_s: float) -> str:
    """When, as short as a picture of ``length_s`` seconds asks for."""
    when = datetime.fromtimestamp(min(max(time_s, 0.0), 253_402_300_799.0), UTC)
    if length_s > 3 * 86400:
        return f"{when:%d %b}"
    return f"{when:%d %b %H:%M}" if length_s > 86400 else f"{when:%H:%M:%S}" if length_s < 600 else f"{when:%H:%M}"


def left_out_lines(left_out: Mapping[str, int]) -> list[str]:
    """What is beyond a report's limits, a line each.

    >>> left_out_lines({"suggestions": 3, "devices": 1200})
    ['Left out, for a report has limits: 1,200 devices.', 'Left out, for a report has limits: 3 suggestions.']
    """
    return [f"Left out, for a report has limits: {number:,} {what}." for what, number in sorted(left_out.items())]
