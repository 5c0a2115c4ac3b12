"""What NVML answers, made fit to publish: sentinels dropped, units as in the events.

Rule of this file: pure functions from a raw answer to a value or None. Which numbers are blanks, and what a fact can
be, is the table in ``limits``.
"""

from paceline.gpu.limits import RATIO, blank
from paceline.wire import finite

Value = int | float | None


def whole(raw: int | None) -> int | None:
    """A count or size; blanks and negative numbers are no answer.

    >>> whole(0), whole(7), whole(0xFFFFFFFF), whole(-1)
    (0, 7, None, None)
    """
    if raw is None or raw < 0 or blank(raw):
        return None
    return int(raw)


def scaled(raw: float | None, factor: float) -> float | None:
    """A measure in the event's unit, ``raw * factor``; blanks and what is no number are no answer.

    >>> scaled(350_000, 1e-3), scaled(0xFFFFFFFF, 1e-3), scaled(0x7FFFFFF1, 1e-3)
    (350.0, None, None)
    """
    if raw is None or raw < 0 or blank(raw):
        return None
    value = finite(float(raw) * factor)
    return None if value is None else round(value, 6)


def ratio(percent: float | None) -> float | None:
    """A share of 0 to 1 from percent. A hair over 100 is rounding; far over is no answer.

    >>> ratio(42), ratio(100.2), ratio(4294967295), ratio(None)
    (0.42, 1.0, None, None)
    """
    if percent is None or not RATIO.low <= percent / 100 <= RATIO.high:
        return None
    return round(min(float(percent), 100.0) / 100.0, 6)


def field(value: object) -> int | float | None:
    """The number in one of NVML's field values, by its type tag; None where NVML refused the field."""
    if value.nvmlReturn != 0:  # type: ignore[attr-defined]
        return None
    kinds = ("dVal", "uiVal", "ulVal", "ullVal", "sllVal", "siVal", "usVal")
    kind = value.valueType  # type: ignore[attr-defined]
    if not 0 <= kind < len(kinds):
        return None
    number = getattr(value.value, kinds[kind])  # type: ignore[attr-defined]
    return number if kind == 0 else whole(number)
