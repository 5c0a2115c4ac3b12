"""Rolling back-tests: what the models would have said at earlier moments of the same series, and how wrong.

Rule of this file: pure. A model never sees what came after the moment it is asked at.
"""

from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np

from . import scores
from .context import ForecastContext
from .models.model import Model, UnsuitedError
from .series import Array, Series

#: So many earlier moments; none with less history than this.
MOMENTS, LEAST = 4, 24


@dataclass(frozen=True)
class Backtest:
    """``forecasts``: model -> moments x steps x levels; ``actual``: moments x steps, NaN where not measured.

    ``losses``: model -> mean pinball loss, of those that could forecast at every moment.
    """

    levels: Array
    actual: Array
    forecasts: Mapping[str, Array]
    losses: Mapping[str, float]

    @property
    def moments(self) -> int:
        """How many earlier moments were tried."""
        return len(self.actual)


def moments(samples: int, horizon: int, wanted: int = MOMENTS) -> tuple[list[int], int]:
    """The moments to try, newest first, and how many steps ahead: the horizon or a third of the history."""
    steps = max(1, min(horizon, (samples - LEAST) // 3))
    ends = [samples - steps - number * max(1, (2 * steps) // 3) for number in range(wanted)]
    # A series much shorter than today's would say which models do well on short ones.
    return [end for end in ends if end >= max(LEAST, samples // 2)], steps


def run(series: Series, horizon: int, levels: Array, models: Mapping[str, Model], wanted: int = MOMENTS) -> Backtest:
    """The back-test of ``models``; without any moment where the history is too short."""
    ends, steps = moments(len(series), horizon, wanted)
    actual = np.array([series.values[end : end + steps] for end in ends]).reshape(len(ends), steps)
    contexts = [ForecastContext(series.until(end), steps, levels) for end in ends]
    forecasts: dict[str, Array] = {}
    for name, model in models.items():
        try:
            quantiles = [np.sort(context.series.clipped(model(context)), axis=1) for context in contexts]
        except UnsuitedError:
            continue
        if quantiles:
            forecasts[name] = np.stack(quantiles)
    losses = {name: loss(actual, made, levels) for name, made in forecasts.items()}
    return Backtest(levels, actual, forecasts, {name: value for name, value in losses.items() if np.isfinite(value)})


def loss(actual: Array, made: Array, levels: Array) -> float:
    """The mean pinball loss over moments, steps and levels; NaN where nothing was measured."""
    measured = np.isfinite(actual)
    if not measured.any():
        return float("nan")
    return float(scores.pinball(actual[measured], made[measured], levels).mean())
