"""A cycle from events: steps, collectives, evaluations. Exact, and first choice.

Rule of this file: a decision. Events may jitter, drift, be missed, or come in between; arrivals at random have no
period.
"""

import math
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from .cycle import Cycle, no_cycle
from .tempo import drift

FEWEST = 4
#: Only the latest events count: an old cycle is not the job's cycle now, and work stays bounded.
MOST = 2000
#: An event supports a period T when another follows after T, give or take one of these shares of T.
TOLERANCES = (0.03, 0.08, 0.15, 0.3)
#: Share of supporting events above what chance gives, at least; …
LIFT = 0.25
#: … and how unlikely that is by chance, in nats. Arrivals at random stay below it 19 times of 20.
EVIDENCE = 5.0
#: A gap near 2, 3, … periods is missed events when it is this near, as a share of the period.
MULTIPLE = 0.2
#: The next event is due after the median of this many cycles.
RECENT = 7
SHORTEST_SHARE = 0.85
MOST_CANDIDATES = 60


@dataclass(frozen=True)
class Support:
    """How a period fares: share of events with a follower in time, what that is above chance, and how unlikely."""

    period: float
    tolerance: float
    share: float
    lift: float
    evidence: float


def from_events(times_s: Sequence[float]) -> Cycle:
    """The cycle of events at ``times_s`` (seconds, any order; one that is not finite is an error).

    ``next_s`` counts from the last event.

    Raises:
        ValueError: a time is not finite.

    >>> from_events([0.0, 2.5, 5.0, 7.5, 12.5, 15.0, 17.5]).period_s
    2.5
    """
    times = np.sort(np.asarray(times_s, dtype=np.float64))
    if not np.all(np.isfinite(times)):
        raise ValueError("times_s: finite times are needed")
    times = np.unique(times[-MOST:])
    if len(times) < FEWEST:
        return no_cycle(f"too few events: {len(times)}, at least {FEWEST} are needed")
    tried = [_support(times, period) for period in _candidates(times)]
    enough = SHORTEST_SHARE * max(one.lift for one in tried)
    best = min((one for one in tried if one.lift >= enough), key=lambda one: one.period)
    if best.lift < LIFT or best.evidence < EVIDENCE:
        return no_cycle(f"no stable period: {len(times)} events, too few follow one period beyond chance")
    lengths = _lengths(times, best.period)
    period = float(np.median(lengths))
    recent = float(np.median(lengths[-RECENT:]))
    return Cycle(
        period_s=period,
        confidence=best.share * len(lengths) / (len(lengths) + 2),
        next_s=_until_next(times, recent),
        drift_ratio=drift(lengths),
        note=f"{len(times)} events; {100 * best.share:.0f} % follow the period within {100 * best.tolerance:.0f} %",
    )


def _candidates(times: NDArray[np.float64]) -> NDArray[np.float64]:
    """Lengths from an event to its first four followers, thinned to their quantiles."""
    spans = np.concatenate([times[k:] - times[:-k] for k in range(1, min(5, len(times)))])
    spans = spans[spans <= (times[-1] - times[0]) / 2]
    if not len(spans):
        spans = np.diff(times)
    return np.unique(np.quantile(spans, np.linspace(0, 1, MOST_CANDIDATES)))


def _support(times: NDArray[np.float64], period: float) -> Support:
    """The tolerance at which ``period`` stands out most from arrivals at random with this density of events."""
    due = times[times + period <= times[-1] + TOLERANCES[0] * period] + period
    after = np.clip(np.searchsorted(times, due), 1, len(times) - 1)
    miss = np.minimum(np.abs(times[after] - due), np.abs(times[after - 1] - due)) / period
    density = (len(times) - 1) / (times[-1] - times[0])
    supports = []
    for tolerance in TOLERANCES:
        share = float(np.mean(miss <= tolerance)) if len(due) else 0.0
        chance = 1 - math.exp(-2 * tolerance * period * density)
        supports.append(Support(period, tolerance, share, share - chance, len(due) * _divergence(share, chance)))
    return max(supports, key=lambda one: one.lift)


def _divergence(share: float, chance: float) -> float:
    """Kullback-Leibler divergence of two coins, in nats; 0 where ``share`` is no more than ``chance``.

    Chernoff: n trials of ``chance`` reach ``share`` with a probability of at most exp(-n x divergence).
    """
    if share <= chance:
        return 0.0
    tails = (1 - share) * math.log((1 - share) / (1 - chance)) if share < 1 else 0.0
    return share * math.log(share / max(chance, 1e-12)) + tails


def _lengths(times: NDArray[np.float64], rough: float) -> NDArray[np.float64]:
    """Lengths of cycles, oldest first: from each event to the follower nearest to ``rough`` or a multiple of it.

    An event in between is passed over, a missed one divides its gap.
    """
    lengths: list[float] = []
    for start in range(len(times) - 1):
        spans = times[start + 1 : start + 9] - times[start]
        nearest = float(spans[np.argmin(np.abs(spans - rough))])
        missed = max(1.0, round(nearest / rough))
        if abs(nearest / missed - rough) <= (0.5 if missed == 1 else MULTIPLE) * rough:
            lengths.append(nearest / missed)
    return np.asarray(lengths)


def _until_next(times: NDArray[np.float64], period: float) -> float:
    """Seconds from the last event to the next that is due; the latest five vote, so no stray event moves it."""
    phases = (times[-1] - times[-5:]) % period
    apart = np.abs(phases[:, None] - phases)
    apart = np.minimum(apart, period - apart)
    phase = float(phases[np.argmin(apart.sum(axis=1))])
    due = (period - phase) % period
    return due if due > 0.05 * period else due + period
