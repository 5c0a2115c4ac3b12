"""Rolling back-tests: what the models would have said at earlier moments of the same series, and how wrong.

Rule of this file: pure. A model never sees what came after the moment it is asked at.
"""

from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np

from . import scores
from .context import ForecastContext
from .models.model import Model, each
from .series import Array, Series

#: So many earlier moments; none with less history than this.
MOMENTS, LEAST = 6, 24
#: The oldest of them is at most so many samples ago, if the horizon is short.
FARTHEST = 960


@dataclass(frozen=True)
class Backtest:
    """``forecasts``: model -> moments x steps x levels; ``actual``: moments x steps, NaN where not measured.

    ``losses``: model -> mean pinball loss, of those that could forecast at every moment; ``by_moment``: the same at
    each moment, NaN where nothing was measured after it.
    """

    levels: Array
    actual: Array
    forecasts: Mapping[str, Array]
    losses: Mapping[str, float]
    by_moment: Mapping[str, Array]

    @property
    def moments(self) -> int:
        """How many earlier moments were tried."""
        return len(self.actual)


def moments(samples: int, horizon: int, wanted: int = MOMENTS) -> tuple[list[int], int]:
    """The moments to try, newest first, and how many steps ahead: the horizon or a third of the history.

    They lie two thirds of the steps apart at least, and the farther apart the older they are, back to ``FARTHEST``.
    """
    steps = max(1, min(horizon, (samples - LEAST) // 3))
    # A series much shorter than today's would say which models do well on short ones.
    oldest = max(LEAST, samples // 2)
    room, apart, last = samples - steps - oldest, max(1, (2 * steps) // 3), max(1, wanted - 1)
    stretch = max(0.0, (min(room, FARTHEST) - apart * last) / last**2)
    ends = [samples - steps - round(apart * number + stretch * number**2) for number in range(wanted)]
    return [end for end in ends if end >= oldest], steps


def run(series: Series, horizon: int, levels: Array, models: Mapping[str, Model], wanted: int = MOMENTS) -> Backtest:
    """The back-test of ``models``; without any moment where the history is too short."""
    ends, steps = moments(len(series), horizon, wanted)
    actual = np.array([series.values[end : end + steps] for end in ends]).reshape(len(ends), steps)
    contexts = [ForecastContext(series.until(end), steps, levels) for end in ends]
    forecasts: dict[str, Array] = {}
    for name, model in models.items():
        made = [one for one in each(model, contexts) if one is not None]
        if made and len(made) == len(contexts):
            forecasts[name] = np.sort(series.clipped(np.stack(made)), axis=2)
    counts = np.isfinite(actual).sum(axis=1)
    losses, by_moment = dict[str, float](), dict[str, Array]()
    for name, rows in forecasts.items():
        means = _means(actual, rows, levels)
        value = float(np.nansum(means * counts) / counts.sum()) if counts.sum() else float("nan")
        if np.isfinite(value):
            losses[name], by_moment[name] = value, means
    return Backtest(levels, actual, forecasts, losses, by_moment)


def _means(actual: Array, made: Array, levels: Array) -> Array:
    """The mean pinball loss at each moment; NaN where nothing was measured."""
    each = scores.pinball(actual.ravel(), made.reshape(-1, len(levels)), levels).mean(axis=1).reshape(actual.shape)
    measured = np.isfinite(each)
    total, count = np.where(measured, each, 0.0).sum(axis=1), measured.sum(axis=1)
    return np.asarray(np.where(count > 0, total / np.maximum(count, 1), np.nan))


def loss(actual: Array, made: Array, levels: Array) -> float:
    """The mean pinball loss over moments, steps and levels; NaN where nothing was measured."""
    measured = np.isfinite(actual)
    if not measured.any():
        return float("nan")
    return float(scores.pinball(actual[measured], made[measured], levels).mean())
