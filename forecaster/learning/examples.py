"""Examples for the network: a past drawn from a recorded series, steps ahead, and what came.

Rule of this file: pure; chance is a generator that is handed in.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import NDArray

from ..models import features, season
from ..series import Array, Series

#: Steps asked of each past; lengths of a past; farthest steps ahead; how many samples are made into one.
STEPS = 12
LENGTHS, LENGTH_ODDS = (240, 480, 1440, 2016), (0.1, 0.2, 0.5, 0.2)
FARTHEST = (30, 60, 120, 288, 480)
THINNED = (1, 1, 1, 2, 3, 5)
#: How often an example is turned upside down, or laid over another series: more series than there are.
MIRRORED, MIXED = 0.2, 0.2
LEAST = 80
#: What a model sees of a past: a row of numbers, and the centre and the scale of its values.
View = Callable[[Series], tuple[Array, float, float]]


@dataclass(frozen=True)
class Recorded:
    """A series on a regular grid, NaN where nothing was measured."""

    values: Array
    interval_s: float
    low: float | None = None
    high: float | None = None


@dataclass(frozen=True)
class Examples:
    """``past``: examples x features; ``steps``: examples x STEPS x features; ``came``: examples x STEPS, normalised."""

    past: NDArray[np.float32]
    steps: NDArray[np.float32]
    came: NDArray[np.float32]


def joined(parts: Sequence[Examples]) -> Examples:
    """All examples of ``parts``, in their order."""
    return Examples(
        np.concatenate([part.past for part in parts]),
        np.concatenate([part.steps for part in parts]),
        np.concatenate([part.came for part in parts]),
    )


def drawn(
    series: Sequence[Recorded], count: int, rng: np.random.Generator, view: View = features.past_features
) -> Examples:
    """``count`` examples from ``series``, each series as likely as the next, as ``view`` shows them.

    Raises:
        ValueError: no series is long enough.
    """
    usable = [one for one in series if len(one.values) > 2 * LEAST + 40 and np.isfinite(one.values).mean() > 0.3]
    if not usable:
        raise ValueError(f"no series of more than {2 * LEAST + 40} samples")
    examples: list[tuple[Array, Array, Array]] = []
    for _ in range(60 * count):
        example = _one(_varied(usable, rng), rng, view)
        if example is not None:
            examples.append(example)
        if len(examples) == count:
            break
    pasts, steps, came = zip(*examples, strict=True)
    return Examples(np.array(pasts, np.float32), np.array(steps, np.float32), np.array(came, np.float32))


def _varied(series: Sequence[Recorded], rng: np.random.Generator) -> Recorded:
    """One of the series: thinned, mirrored or mixed with another now and then."""
    one = series[int(rng.integers(len(series)))]
    factor = int(rng.choice(THINNED))
    if factor > 1 and len(one.values) // factor > 300:
        table = one.values[: len(one.values) // factor * factor].reshape(-1, factor)
        one = Recorded(table.mean(axis=1) if rng.random() < 0.7 else table[:, 0], one.interval_s * factor)
    if rng.random() < MIRRORED:
        middle = 2.0 * float(np.nanmean(one.values))
        low = None if one.high is None else middle - one.high
        one = Recorded(middle - one.values, one.interval_s, low, None if one.low is None else middle - one.low)
    if rng.random() < MIXED:
        other = series[int(rng.integers(len(series)))].values
        size = min(len(one.values), len(other))
        if size > 2 * LEAST + 40:
            start = int(rng.integers(len(other) - size + 1))
            weight = rng.uniform(0.1, 1.0) * np.nanstd(one.values) / max(float(np.nanstd(other)), 1e-9)
            one = Recorded(one.values[-size:] + weight * other[start : start + size], one.interval_s)
    return one


def _one(series: Recorded, rng: np.random.Generator, view: View) -> tuple[Array, Array, Array] | None:
    values = series.values
    if len(values) < LEAST + 60:
        return None
    now = int(rng.integers(LEAST, len(values) - 20))
    length = int(rng.choice(LENGTHS, p=LENGTH_ODDS))
    context = values[max(0, now - length) : now]
    measured = np.flatnonzero(np.isfinite(context))
    if measured.size < 60 or measured[-1] < len(context) - 3:
        return None
    farthest = min(len(values) - now, int(rng.choice(FARTHEST)))
    steps = np.exp(rng.uniform(0.0, np.log(farthest + 0.99), size=STEPS)).astype(np.intp)
    came = values[now + steps - 1]
    if not np.isfinite(came).any():
        return None
    past = Series.of(context, series.interval_s, 0, series.low, series.high)
    past = replace(past, season=season.of_clock(series.interval_s, len(context)) or season.of_values(past.filled))
    gap = len(context) - 1 - int(measured[-1])
    row, centre, scale = view(past)
    asked = features.step_features(past, (steps + gap).astype(np.float64), centre, scale)
    return row, asked, (came - centre) / scale
