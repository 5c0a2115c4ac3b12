"""How good a forecast was: pinball loss, weighted quantile loss, MASE, coverage.

Rule of this file: pure formulas over arrays; a value that was not measured (NaN) does not count.
"""

import numpy as np
from numpy.typing import NDArray

Array = NDArray[np.float64]


def pinball(actual: Array, quantiles: Array, levels: Array) -> Array:
    """Pinball loss of each step and level, doubled so that the median's is the absolute error.

    Args:
        actual: steps.
        quantiles: steps x levels.
        levels: the probabilities, in (0, 1).

    >>> pinball(np.array([1.0]), np.array([[0.0, 3.0]]), np.array([0.5, 0.9])).round(3).tolist()
    [[1.0, 0.4]]

    Source: Koenker and Bassett, Regression Quantiles, 1978.
    """
    below = actual[:, None] - quantiles
    return np.asarray(2.0 * np.maximum(levels * below, (levels - 1.0) * below))


def weighted_quantile_loss(actual: Array, quantiles: Array, levels: Array) -> float | None:
    """wQL: the pinball loss summed over steps, over the sum of absolute values; the mean over levels.

    None where nothing was measured or all of it is 0.
    """
    measured = np.isfinite(actual)
    weight = float(np.abs(actual[measured]).sum())
    if weight == 0.0:
        return None
    loss = pinball(actual[measured], quantiles[measured], levels)
    return float(loss.sum(axis=0).mean() / weight)


def naive_scale(past: Array, season: int) -> float | None:
    """MASE's denominator: the mean absolute difference of samples one season (at least 1) apart; None where it is 0."""
    lag = max(1, season)
    if len(past) <= lag:
        return None
    differences = np.abs(past[lag:] - past[:-lag])
    differences = differences[np.isfinite(differences)]
    scale = float(differences.mean()) if differences.size else 0.0
    return scale if scale > 0.0 else None


def scaled_error(actual: Array, median: Array, scale: float | None) -> float | None:
    """MASE: the mean absolute error of the median over ``scale``. Source: Hyndman and Koehler, 2006."""
    error = np.abs(actual - median)
    error = error[np.isfinite(error)]
    return float(error.mean() / scale) if scale and error.size else None


def coverage(actual: Array, low: Array, high: Array) -> float | None:
    """The share of measured values inside [low, high]."""
    measured = np.isfinite(actual)
    if not measured.any():
        return None
    return float(np.mean((actual[measured] >= low[measured]) & (actual[measured] <= high[measured])))
