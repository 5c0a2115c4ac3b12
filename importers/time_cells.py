"""Times as tables write them: in the unit of the column's own name, with a unit in the cell, as dates or differences.

Rule of this file: pure. Commas are decimal commas or thousands by what the whole column shows; where it shows neither,
nothing is guessed. What is no time is NaN.
"""

import re
from collections.abc import Iterable, Sequence
from datetime import UTC, datetime, timedelta
from decimal import Decimal as Exact
from typing import Any, Literal

import numpy as np
from numpy.typing import NDArray

#: Units by the words that stand for them, in seconds.
_WORDS = {
    1.0: ("s", "sec", "secs", "second", "seconds"),
    1e-3: ("ms", "msec", "msecs", "milli", "millis", "millisec", "millisecs", "millisecond", "milliseconds"),
    1e-6: ("us", "usec", "usecs", "micro", "micros", "microsec", "microsecs", "microsecond", "microseconds"),
    1e-9: ("ns", "nsec", "nsecs", "nano", "nanos", "nanosec", "nanosecs", "nanosecond", "nanoseconds"),
    60.0: ("mins", "minute", "minutes"),
    3600.0: ("hrs", "hour", "hours"),
}
UNIT_S = {word: unit_s for unit_s, words in _WORDS.items() for word in words}
#: In a cell, where it stands behind a number, a letter is clear.
_CELL_S = {
    **UNIT_S,
    "m": 60.0,
    "min": 60.0,
    "h": 3600.0,
    "hr": 3600.0,
    "d": 86_400.0,
    "day": 86_400.0,
    "days": 86_400.0,
}
_MICRO = str.maketrans("µμ", "uu")
#: Blanks and signs between thousands: no-break and thin ones, Swiss apostrophes.
_BLANKS = str.maketrans("", "", "\u00a0\u202f\u2009'\u2019_")
_PART = re.compile(r"\s*([+-]?[\d.,'\u2019_\u00a0\u202f\u2009]{1,40}(?:[eE][+-]?\d{1,3})?)\s*([A-Za-z]{1,12})\s*")
_CLOCK = re.compile(r"(-)?(?:(\d{1,6}) ?days?,? ?)?\+?(\d{1,4}):([0-5]?\d):([0-5]?\d(?:[.,]\d{1,9})?)", re.ASCII)
_ISO_DURATION = re.compile(r"P(?:(\d{1,6})D)?T(?:(\d{1,6})H)?(?:(\d{1,6})M)?(?:(\d{1,12}(?:[.,]\d{1,9})?)S)?", re.ASCII)
_THOUSANDS = re.compile(r"[+-]?[1-9]\d{0,2}(?:,\d{3})+", re.ASCII)
#: What a cell writes where it has no value.
MISSING = frozenset(("", "nan", "na", "n/a", "null", "none", "nat", "-", "inf", "-inf"))

#: Which sign is the decimal one.
Decimal = Literal[".", ","]


class AmbiguousError(ValueError):
    """A number that is one of two: the cell."""


def words(name: str) -> list[str]:
    """The words of a column's name, in small letters: camel case comes apart, but an abbreviation stays together.

    >>> words("Duration (µs)"), words("startMs")
    (['duration', 'us'], ['start', 'ms'])
    """
    return re.findall(r"[a-z0-9]+", re.sub(r"(?<=[a-z0-9])(?=[A-Z])", "-", name.translate(_MICRO)).lower())


def unit_of(column: str) -> float | None:
    """The unit, in seconds, that a column's name ends with; None where it names none.

    >>> unit_of("start_us"), unit_of("Duration [ms]"), unit_of("duration"), unit_of("s")
    (1e-06, 0.001, None, None)
    """
    said = words(column)
    return UNIT_S.get(said[-1]) if len(said) > 1 else None


def decimal_of(texts: Iterable[str]) -> Decimal | None:
    """The decimal sign that ``texts`` show; None where they show none.

    >>> decimal_of(["0,5"]), decimal_of(["1,234,567"]), decimal_of(["1.234,5"]), decimal_of(["120,500"])
    (',', '.', ',', None)
    """
    for text in texts:
        if "," not in text or ":" in text:
            continue
        number = text.strip().translate(_BLANKS).partition(" ")[0].rstrip("smunhdµμ")
        if number.count(",") > 1:
            return "."
        if "." in number:
            return "," if number.rindex(",") > number.rindex(".") else "."
        if not _THOUSANDS.fullmatch(number):
            return ","
    return None


def number(text: str, decimal: Decimal | None) -> float:
    """The number that ``text`` writes; NaN where it is none.

    >>> number("1,234,567", "."), number("0,5", ","), number("1.234,5", ","), number("1 234", None)
    (1234567.0, 0.5, 1234.5, 1234.0)

    Raises:
        AmbiguousError: a comma that may be either.
    """
    plain = text.strip().translate(_BLANKS)
    if re.fullmatch(r"[+-]?\d{1,3}(?: \d{3})+(?:[.,]\d+)?", plain):
        plain = plain.replace(" ", "")
    if "," in plain:
        if decimal is None:
            if _THOUSANDS.fullmatch(plain):
                raise AmbiguousError(text)
            return float("nan")
        plain = plain.replace(".", "").replace(",", ".") if decimal == "," else plain.replace(",", "")
    elif decimal == "," and _THOUSANDS.fullmatch(plain.replace(".", ",")):
        plain = plain.replace(".", "")
    try:
        return float(plain)
    except ValueError:
        return float("nan")


def seconds(cell: Any, unit_s: float, decimal: Decimal | None) -> float:
    """The seconds in ``cell``; a bare number is in ``unit_s``, a date is Unix time, in UTC where it names no zone.

    >>> [seconds(cell, 1e-3, None) for cell in (120, "120", "0.12 s", "0 days 00:00:00.120000", "PT0.12S", "1m 2s")]
    [0.12, 0.12, 0.12, 0.12, 0.12, 62.0]

    Raises:
        AmbiguousError: a comma that may be either.
    """
    if isinstance(cell, timedelta):
        return cell.total_seconds()
    if isinstance(cell, datetime):
        return _moment(cell)
    if isinstance(cell, int | float | Exact) and not isinstance(cell, bool):
        return float(cell) * unit_s
    if not isinstance(cell, str) or cell.strip().lower() in MISSING:
        return float("nan")
    text = cell.strip()
    plain = number(text, decimal)
    if plain == plain:
        return plain * unit_s
    for read in (_with_units, _difference, _iso_duration, _date):
        value = read(text, decimal)
        if value is not None:
            return value
    return float("nan")


def _with_units(text: str, decimal: Decimal | None) -> float | None:
    """``120 ms``, ``1m 2.5s``."""
    total, at, text = 0.0, 0, text.translate(_MICRO)
    while at < len(text):
        part = _PART.match(text, at)
        unit_s = _CELL_S.get(part[2].lower()) if part else None
        if part is None or unit_s is None:
            return None
        value = number(part[1], decimal)
        if value != value:
            return None
        total, at = total + value * unit_s, part.end()
    return round(total, 12)


def _difference(text: str, _: Decimal | None) -> float | None:
    """``0 days 00:00:00.120000`` of pandas, ``1 day, 2:03:04`` of Python, ``00:00:00.12``."""
    found = _CLOCK.fullmatch(text)
    if found is None:
        return None
    days = int(found[2] or 0) * (-1 if found[1] else 1)
    clock_s = int(found[3]) * 3600 + int(found[4]) * 60 + float(found[5].replace(",", "."))
    return days * 86_400.0 + (-clock_s if found[1] and not found[2] else clock_s)


def _iso_duration(text: str, _: Decimal | None) -> float | None:
    """``PT0.12S``."""
    found = _ISO_DURATION.fullmatch(text)
    if found is None or not any(found.groups()):
        return None
    days, hours, minutes = (int(part or 0) for part in found.groups()[:3])
    return days * 86_400.0 + hours * 3600.0 + minutes * 60.0 + float((found[4] or "0").replace(",", "."))


def _date(text: str, _: Decimal | None) -> float | None:
    try:
        return _moment(datetime.fromisoformat(text.removesuffix(" UTC")))
    except (ValueError, OverflowError):  # The latter of a time in the first or the last year that there is.
        return None


def _moment(when: datetime) -> float:
    try:
        return (when if when.tzinfo else when.replace(tzinfo=UTC)).timestamp()
    except (ValueError, OverflowError):
        return float("nan")


def column_seconds(values: Sequence[Any], unit_s: float, decimal: Decimal | None) -> NDArray[np.float64]:
    """All of a column.

    Raises:
        AmbiguousError: a comma that may be either; its ``args`` are the cell and its place.
    """
    told = np.empty(len(values), dtype=np.float64)
    for place, cell in enumerate(values):
        try:
            told[place] = seconds(cell, unit_s, decimal)
        except AmbiguousError:
            raise AmbiguousError(cell, place) from None
    return told
