"""Moments in words: the time of day where the reader is, and how far off it is.

Rule of this file: pure. The reader's time zone is an argument; clocks that are hours apart, and times that no calendar
has, are reported as they are.
"""

from datetime import UTC, datetime, timezone, tzinfo
from zoneinfo import ZoneInfo

from paceline.words import age, is_undated, seconds

DAY_S = 86_400.0
#: No calendar goes further.
LAST_DATE_S = 250_000_000_000.0
#: Clocks differ by less than this without a word.
AHEAD_S = 30.0


def zone_of(name: str | None) -> tzinfo:
    """The time zone called ``name``, as browsers tell theirs; UTC where it is none that is known here."""
    try:
        return ZoneInfo(name) if name else UTC
    except (KeyError, ValueError, OSError):
        return UTC


def local(time_s: float, zone: tzinfo) -> datetime | None:
    """``time_s`` as it stands on a clock in ``zone``, without a zone of its own; None of a time that is none.

    >>> local(0.0, UTC)
    datetime.datetime(1970, 1, 1, 0, 0)
    """
    if not 0.0 <= time_s <= LAST_DATE_S:
        return None
    return datetime.fromtimestamp(time_s, zone).replace(tzinfo=None)


def drawn_in(zone: tzinfo, first_s: float, last_s: float) -> tzinfo:
    """``zone``, or where its clocks change in this span, the offset at its begin: no two hours are drawn at one place.

    >>> str(drawn_in(ZoneInfo("Europe/Berlin"), 1792879200.0, 1792893600.0))  # the night of 24 October 2026
    'UTC+02:00'
    >>> str(drawn_in(ZoneInfo("Europe/Berlin"), 1792879200.0, 1792880000.0)), str(drawn_in(UTC, 0.0, 1.0))
    ('Europe/Berlin', 'UTC')
    """
    if not 0.0 <= first_s <= last_s <= LAST_DATE_S:
        return zone
    first, last = (datetime.fromtimestamp(at_s, zone).utcoffset() for at_s in (first_s, last_s))
    return zone if first is None or first == last else timezone(first)


def clock(time_s: float | None, now_s: float, zone: tzinfo) -> str:
    """The time of day, with the date where it is another day than now, and the zone where that hour comes twice.

    >>> clock(90_000.0, 86_400.0, UTC), clock(200_000.0, 86_400.0, UTC), clock(None, 0.0, UTC)
    ('01:00', '3 Jan 07:33', 'unknown')
    >>> clock(1792890000.0, 1792890000.0, ZoneInfo("Europe/Berlin"))
    '02:00 CET'
    """
    there = None if time_s is None or is_undated(time_s, now_s) else local(time_s, zone)
    if there is None or time_s is None:
        return "unknown"
    here = local(now_s, zone)
    hours = f"{there:%H:%M}"
    if there.replace(tzinfo=zone, fold=0).utcoffset() != there.replace(tzinfo=zone, fold=1).utcoffset():
        hours += f" {datetime.fromtimestamp(time_s, zone):%Z}"
    if here is not None and there.date() == here.date():
        return hours
    year = "" if here is not None and there.year == here.year else f" {there.year}"
    return f"{there.day} {there:%b}{year} {hours}"


def ahead(time_s: float, now_s: float) -> str:
    """How far ``time_s`` is from now: in 12 min 4 s, 3 h 5 min ago.

    >>> ahead(1.8e9 + 60.0, 1.8e9), ahead(0.0, 1.8e9)
    ('in 60 s', 'unknown')
    """
    if is_undated(time_s, now_s):
        return "unknown"
    apart = time_s - now_s
    if abs(apart) < 1.5:
        return "now"
    return f"in {length(apart)}" if apart > 0 else f"{length(-apart)} ago"


def as_of(time_s: float, now_s: float) -> str:
    """How old a measurement is. That of a clock that is ahead, or runs faster, is not in the future.

    >>> as_of(1.8e9 - 42.0, 1.8e9), as_of(1.8e9 + 210.0, 1.8e9), as_of(1.8e9 + 5.0, 1.8e9)
    ('42 s ago', 'a time 3 min 30 s ahead of this page', 'just now')
    >>> as_of(7.5, 1.8e9)
    'an unknown time'
    """
    if is_undated(time_s, now_s):
        return "an unknown time"
    early_s = time_s - now_s
    return f"a time {length(early_s)} ahead of this page" if early_s >= AHEAD_S else age(now_s, time_s)


def length(span_s: float) -> str:
    """A span as people say it: in days from two on, and without parts that are nothing.

    >>> length(0.0124), length(60.0), length(900.0), length(312.0), length(7260.0), length(200_000.0)
    ('12.4 ms', '60 s', '15 min', '5 min 12 s', '2 h 1 min', '2.3 days')
    """
    if span_s >= 2 * DAY_S:
        return f"{span_s / DAY_S:,.1f} days"
    if span_s < 10:
        return seconds(span_s)
    if span_s < 120:
        return f"{span_s:.0f} s"
    return seconds(round(span_s)).removesuffix(" 0 s").removesuffix(" 0 min")
