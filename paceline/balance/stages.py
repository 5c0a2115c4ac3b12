"""Which pipeline stage holds which layers, and whether it is worth moving them.

Rule of this file: pure, and only +, -, * and / on floats. Layers keep their order and every stage holds at least one.
"""

from __future__ import annotations

import math
from bisect import bisect_right
from collections.abc import Sequence
from itertools import accumulate
from typing import NamedTuple

from .worker import LEAST_SAMPLE_S, MOST_S, SplitError

#: Bytes that move with a parameter under Adam in mixed precision; 18 where gradients are kept in full precision.
PARAMETER_BYTES = 16
#: Part of a time that bisection leaves open; what is better still is then asked for directly.
_OPEN = 1e-6


class Move(NamedTuple):
    """What it costs to go from one cut to another."""

    #: Parameters of the layers whose stage changes.
    parameters: int
    cost_s: float
    #: Steps after which it has paid; infinite where the new cut is no faster.
    break_even_steps: float


def stages(layers_s: Sequence[float], slowness: Sequence[float]) -> list[int]:
    """Cuts layers into stages so that the slowest stage is as fast as can be; no other cut in this order is better.

    Whether all stages can be done within a time is probed, and the least such time is bisected.
    (Pinar & Aykanat, "Fast optimal load balancing algorithms for 1D partitioning", 2004.)

    Args:
        layers_s: seconds a micro-batch that each layer takes on a device of slowness 1, shape (layers,).
        slowness: by which factor a stage's device is slower, shape (stages,).

    Returns:
        layers a stage, shape (stages,).

    Raises:
        SplitError: there are fewer layers than stages, or a number is not one.

    >>> stages([1.0] * 6, [1.0, 2.0, 1.0])
    [2, 1, 3]
    """
    _check(layers_s, slowness)
    ends = [0.0, *accumulate(layers_s)]
    best = [1] * (len(slowness) - 1) + [len(layers_s) - len(slowness) + 1]
    low, high = 0.0, max(stages_s(layers_s, slowness, best))
    while high > 0:
        time = (low + high) / 2 if high - low > _OPEN * high else math.nextafter(high, 0.0)
        found = _probe(ends, slowness, time)
        if found is not None:
            best, high = found, max(stages_s(layers_s, slowness, found))
        elif high - low > _OPEN * high:
            low = time
        else:
            break
    return best


def stages_s(layers_s: Sequence[float], slowness: Sequence[float], counts: Sequence[int]) -> list[float]:
    """Seconds a micro-batch that each stage takes with ``counts`` layers; all shapes (stages,) but the first.

    >>> stages_s([1.0, 2.0, 3.0], [1.0, 2.0], [2, 1])
    [3.0, 6.0]
    """
    ends = [0.0, *accumulate(layers_s)]
    lasts = list(accumulate(counts))
    return [slow * (ends[last] - ends[last - count]) for slow, last, count in zip(slowness, lasts, counts)]


def move(
    parameters: Sequence[int],
    before: Sequence[int],
    after: Sequence[int],
    *,
    step_s: tuple[float, float],
    bytes_per_s: float,
    restart_s: float,
    parameter_bytes: int = PARAMETER_BYTES,
) -> Move:
    """What it costs to go from the cut ``before`` to ``after``, and when it has paid.

    Args:
        parameters: of each layer, shape (layers,).
        before: layers a stage, shape (stages,).
        after: the same of the new cut.
        step_s: a step before and after.
        bytes_per_s: at which weights and the optimizer's state are moved.
        restart_s: from the last step before to the first one after, without the moving.
        parameter_bytes: that move with a parameter.

    >>> move([1000, 1000, 1000], [2, 1], [1, 2], step_s=(3.0, 2.0), bytes_per_s=1600.0, restart_s=5.0)
    Move(parameters=1000, cost_s=15.0, break_even_steps=15.0)
    """
    homes = zip(parameters, _stage_of_layers(before), _stage_of_layers(after))
    moved = sum(count for count, old, new in homes if old != new)
    cost_s = moved * parameter_bytes / bytes_per_s + restart_s if moved else 0.0
    saved_s = step_s[0] - step_s[1]
    return Move(moved, cost_s, cost_s / saved_s if saved_s > 0 else math.inf)


def _stage_of_layers(counts: Sequence[int]) -> list[int]:
    return [stage for stage, count in enumerate(counts) for _ in range(count)]


def _check(layers_s: Sequence[float], slowness: Sequence[float]) -> None:
    if not 1 <= len(slowness) <= len(layers_s):
        raise SplitError(f"{len(layers_s)} layers cannot fill {len(slowness)} stages: it takes one a stage, or more")
    for name, values in (("a layer takes", layers_s), ("a stage's slowness is", slowness)):
        wrong = next((value for value in values if not 0 <= value <= MOST_S), None)
        if wrong is not None:
            raise SplitError(f"{name} {wrong!r}: it takes a number from 0 to {MOST_S}; measure it again")
    if min(slowness) < LEAST_SAMPLE_S:
        raise SplitError(f"a stage's slowness is {min(slowness)!r}: 1 is a device like the others, and 2 a slower one")


def _probe(ends: Sequence[float], slowness: Sequence[float], time: float) -> list[int] | None:
    """Layers a stage with which every stage is done within ``time``; None where there are none.

    Filling each stage as far as it goes can leave a slow one with a layer too large for it, and it must hold one. So
    from the last stage to the first it is found at which places a stage can begin with all behind it still fitting.
    """
    layers = len(ends) - 1
    fits = [False] * layers + [True]
    behind = []
    for slow in reversed(slowness):
        behind.append(fits)
        begins, nearest = [False] * (layers + 1), layers + 1
        for place in range(layers - 1, -1, -1):
            nearest = place + 1 if fits[place + 1] else nearest
            begins[place] = nearest <= _last(ends, place, slow, time)
        fits = begins
    return _even(ends, slowness, time, behind[::-1]) if fits[0] else None


def _even(ends: Sequence[float], slowness: Sequence[float], time: float, fits: Sequence[Sequence[bool]]) -> list[int]:
    """Of the cuts within ``time``, one in which each stage takes as nearly its part of what is left as can be."""
    counts, start = [], 0
    speeds = list(accumulate(1 / slow for slow in reversed(slowness)))[::-1]
    for slow, speed, fit in zip(slowness, speeds, fits):
        target = ends[start] + (ends[-1] - ends[start]) / (slow * speed)
        places = range(start + 1, _last(ends, start, slow, time) + 1)
        end = min((abs(ends[place] - target), place) for place in places if fit[place])[1]
        counts.append(end - start)
        start = end
    return counts


def _last(ends: Sequence[float], start: int, slow: float, time: float) -> int:
    """Where a stage that begins at ``start`` must end at the latest, by the formula of `stages_s` to the last bit."""
    last = bisect_right(ends, ends[start] + time / slow, start) - 1
    while last > start and slow * (ends[last] - ends[start]) > time:
        last -= 1
    while last + 1 < len(ends) and slow * (ends[last + 1] - ends[start]) <= time:
        last += 1
    return last
