"""A cycle from a signal: power, utilisation, traffic. The fallback where no step or collective events are.

Rule of this file: a decision. A random walk, noise, a trend or a single burst has no period, and that is the answer.
"""

import math
from collections.abc import Sequence
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from . import chance, shuffling
from .autocorrelation import Autocorrelation, autocorrelation
from .comb import FEWEST_CYCLES, Tooth, best_period, comb
from .cycle import Cycle, no_cycle
from .samples import Samples, flattened, on_grid, without_ramps
from .tempo import tempo, until_mark

#: Shorter records say nothing about cycles.
FEWEST = 20
#: What repeats may have begun late (evaluations, after a first epoch), so later parts are tried, too.
PARTS = (1.0, 0.66, 0.5)
#: … but what holds in a later part has left a trace of at least so many standard deviations in the longer ones.
TRACE_SIGMAS = 0.7
#: A period this far above chance is one, whatever the noise; a nearer one must not come by shuffling the record, too, …
CERTAIN_SIGMAS = 10.0
#: … unless it is longer than this: chance makes less of many samples, and each other order costs as much as the first.
LONGEST_SHUFFLED = 5000
#: The median of followed cycles replaces the comb's period where this share of the record told its length, …
TOLD = 0.65
#: … neighbours are alike this much, …
LIKENESS = 0.7
#: … and it differs by more than the comb's own error, …
APART = 0.015
#: … unless cycles are too short to be followed sample by sample.
FOLLOWED_SAMPLES = 5.0


def find_cycle(values: NDArray[np.float64], interval_s: float, times_s: NDArray[np.float64] | None = None) -> Cycle:
    """The cycle of a signal.

    Args:
        values: samples, oldest first unless there are times; NaN where nothing was measured.
        interval_s: seconds from sample to sample; only a fallback where ``times_s`` is given.
        times_s: when each sample was taken; gaps stay gaps.

    Raises:
        ValueError: shapes or times that make no sense; the message names the argument.

    >>> wave = np.tile([0.0, 0.0, 1.0, 1.0, 1.0, 1.0, 1.0, 1.0], 30)
    >>> find_cycle(wave, interval_s=2.0).period_s
    16.0
    >>> find_cycle(np.arange(200.0), interval_s=1.0).period_s is None
    True
    """
    samples = on_grid(values, interval_s, times_s)
    if int(samples.measured.sum()) < FEWEST:
        return no_cycle(f"too few samples: {int(samples.measured.sum())}, at least {FEWEST} are needed")
    best = strongest(samples)
    if best is None:
        return no_cycle("no stable period: the signal does not vary, or never resembles itself")
    look, tooth = best
    needed = chance.critical_sigmas(look.whole, look.memory, len(look.part) / tooth.period)
    if tooth.sigmas < needed:
        return no_cycle(
            f"no stable period: the best, {tooth.period * look.part.interval_s:.3g} s, is {tooth.sigmas:.1f} standard "
            f"deviations above chance, {needed:.1f} are needed"
        )
    doubtful = tooth.sigmas < CERTAIN_SIGMAS and len(look.part) <= LONGEST_SHUFFLED
    if doubtful and shuffling.by_chance(look.part, tooth.period, tooth.sigmas, _height):
        return no_cycle(
            f"no stable period: {tooth.period * look.part.interval_s:.3g} s is the best, but in another order the same "
            "samples are as regular"
        )
    return _described(look.part, look.flat, tooth)


class Look(NamedTuple):
    """One part of a record as it was looked at, the samples of the whole record and how each resembles the next."""

    part: Samples
    flat: NDArray[np.float64]
    correlation: Autocorrelation
    whole: int
    memory: float


def strongest(samples: Samples) -> tuple[Look, Tooth] | None:
    """The period that is farthest above chance in any part, and the part; None where nothing repeats."""
    samples = without_ramps(samples)
    looks, best = list[Look](), list[tuple[Look, Tooth]]()
    for share in PARTS:
        look = _look(samples.part(round(len(samples) * (1 - share)), len(samples)), looks)
        tooth = None if look is None else best_period(look.correlation)
        if look is not None and tooth is not None and all(_traced(longer, tooth.period) for longer in looks):
            best.append((look, tooth))
        looks += [] if look is None else [look]
    return max(best, key=lambda one: one[1].sigmas, default=None)


def _height(samples: Samples) -> float:
    best = strongest(samples)
    return best[1].sigmas if best else 0.0


def _look(part: Samples, longer: Sequence[Look]) -> Look | None:
    if int(part.measured.sum()) < FEWEST:
        return None
    longest = len(part) / FEWEST_CYCLES
    flat = flattened(part, 1.5 * longest)
    if float(np.ptp(flat)) <= 1e-9 * max(1e-300, float(np.max(np.abs(part.values)))):
        return None
    flat = flat / np.max(np.abs(flat))
    correlation = autocorrelation(flat, part.measured, int(longest))
    if longer:
        return Look(part, flat, correlation, longer[0].whole, longer[0].memory)
    return Look(part, flat, correlation, int(part.measured.sum()), float(correlation.ratio[1]))


def _traced(longer: Look, period: float) -> bool:
    return all(tooth.sigmas >= TRACE_SIGMAS for tooth in comb(longer.correlation, np.array([period])))


def _described(part: Samples, flat: NDArray[np.float64], tooth: Tooth) -> Cycle:
    """The cycle in seconds, with the length that followed cycles have, where they can be followed."""
    follow = tooth.period >= FOLLOWED_SAMPLES and part.measured.mean() > 0.8
    followed = tempo(flat, tooth.period) if follow else None
    period = tooth.period
    source = "comb of the autocorrelation"
    if followed and followed.told >= TOLD and followed.likeness >= LIKENESS:
        if abs(followed.period / period - 1) > APART:
            period, source = followed.period, "median of the cycles that were followed"
    else:
        followed = None
    return Cycle(
        period_s=period * part.interval_s,
        confidence=1 / (1 + math.exp(-(tooth.sigmas - 3.5) / 1.5)),
        next_s=until_mark(flat, part.measured, period) * part.interval_s,
        drift_ratio=followed.drift_ratio if followed else None,
        note=f"{source}; {len(part) / period:.0f} cycles of {period:.1f} samples",
    )
