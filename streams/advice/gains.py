"""What a suggestion should bring, with an interval.

Rule of this file: arithmetic; each formula says how it comes about, also on the wire (``basis``).
"""

import msgspec

from paceline.events.suggestions import Gain
from paceline.words import many

from .config import AdviceConfig

HOURS_A_DAY = 24.0
#: No more than this is believed to be won by another cut of a pipeline.
_MOST_RATIO = 1000.0
#: Beyond this share lost a job nearly stands: by how much it would be faster nobody can tell from what is left.
_MOST_LOST = 0.95

#: Of a job that stood still until it ended.
NOTHING_WAITS = Gain(basis="the job has ended, and no device waits for it; in its next run the same can happen")


def of_lost_time(lost_ratio: float, gpus: int, confidence: float, duty: float, config: AdviceConfig) -> Gain:
    """A job's steps lose ``lost_ratio`` of their time, so it would be ``1 / (1 - lost_ratio)`` times as fast.

    The interval is as wide as the finding is unsure; the low end of the device-hours also takes the trouble to be there
    for no larger share of the time, ``duty``, than so far. What is not known of the throughput is left out: its high
    end, or all of it, where next to nothing of the steps would be left.

    >>> gain = of_lost_time(0.2, gpus=8, confidence=0.9, duty=0.5, config=AdviceConfig())
    >>> gain.throughput_ratio, gain.gpu_hours_per_day, gain.gpu_hours_low, gain.gpu_hours_high
    (0.25, 38.4, 17.28, 42.24)

    Args:
        lost_ratio: share of the time, 0 to 1.
        gpus: that the job has; each waits.
        confidence: of the finding, 0 to 1.
        duty: share of the time watched in which it was there, 0 to 1.
        config: price and currency.
    """
    if lost_ratio >= 1.0:
        a_day = gpus * HOURS_A_DAY
        basis = f"{many(gpus, 'device')} {'waits' if gpus == 1 else 'wait'}, if it continues for a day"
        return _priced(a_day, a_day * confidence * duty, a_day, config, basis)
    lost, sure, share = (min(max(value, 0.0), 1.0) for value in (lost_ratio, confidence, duty))
    a_day = lost * gpus * HOURS_A_DAY
    return _priced(
        a_day,
        a_day * sure * share,
        min(a_day * (2.0 - sure), gpus * HOURS_A_DAY),
        config,
        f"{lost * 100:.3g} % of the time of {many(gpus, 'device')} is lost now. The low estimate assumes "
        f"that the problem exists {share * 100:.0f} % of the time, as so far. Confidence {sure * 100:.0f} %.",
        throughput=(_faster(lost), _faster(lost * sure), _faster(lost * (2.0 - sure))),
    )


def of_freed_gpus(freed: float, low: float, high: float, basis: str, config: AdviceConfig) -> Gain:
    """So many GPUs become free for others, for as long as this goes on."""
    return _priced(freed * HOURS_A_DAY, low * HOURS_A_DAY, high * HOURS_A_DAY, config, basis)


def of_throughput(ratio: float, low: float, high: float, basis: str) -> Gain:
    """A job becomes faster by this share; its GPUs stay as many."""
    return Gain(throughput_ratio=_round(ratio), throughput_low=_round(low), throughput_high=_round(high), basis=basis)


def with_throughput(gain: Gain, ratio: float, low: float, high: float, basis: str) -> Gain:
    """``gain`` with a share of the throughput that was reckoned apart; its device-hours stay what is lost now."""
    low, high = min(low, ratio), max(high, ratio)
    told = {"throughput_ratio": ratio, "throughput_low": low, "throughput_high": high}
    rounded = {name: _round(min(value, _MOST_RATIO)) for name, value in told.items()}
    said = f"steps faster {basis}; device-hours: {gain.basis}"
    return msgspec.structs.replace(gain, basis=said, **rounded)


def added(gains: list[Gain]) -> Gain:
    """The device-hours, and what they cost, of several, which speak of different GPUs."""

    def total(name: str) -> float | None:
        values = [value for one in gains if (value := getattr(one, name)) is not None]
        return _round(sum(values)) if values else None

    names = ("gpu_hours_per_day", "gpu_hours_low", "gpu_hours_high", "money_per_day")
    return Gain(**{name: total(name) for name in names}, currency=gains[0].currency, basis=gains[0].basis)


def _priced(
    a_day: float,
    low: float,
    high: float,
    config: AdviceConfig,
    basis: str,
    throughput: tuple[float | None, float | None, float | None] = (None, None, None),
) -> Gain:
    money = a_day * config.gpu_hour_price if config.gpu_hour_price > 0 else None
    ratio, ratio_low, ratio_high = throughput if throughput[0] is not None else (None, None, None)
    return Gain(
        gpu_hours_per_day=_round(a_day),
        gpu_hours_low=_round(min(low, a_day)),
        gpu_hours_high=_round(max(high, a_day)),
        throughput_ratio=ratio,
        throughput_low=ratio_low,
        throughput_high=ratio_high,
        money_per_day=None if money is None else _round(money),
        currency="" if money is None else config.currency,
        basis=basis,
    )


def _faster(lost: float) -> float | None:
    """By which share a job would be faster without what it loses; None where that is not known."""
    return _round(lost / (1.0 - lost)) if lost <= _MOST_LOST else None


def _round(value: float) -> float:
    return round(value, 4)
