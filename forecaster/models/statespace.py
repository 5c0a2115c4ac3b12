"""A state space model by statsmodels: a damped local level, a season of a few harmonics, gaps left to the filter."""

import warnings

import numpy as np
from scipy.stats import norm

from ..context import Scene
from ..series import Array
from .model import UnsuitedError

#: More samples make the fit slower, not better.
NEWEST, HARMONICS = 300, 2


def statespace(scene: Scene) -> Array:
    """Normal quantiles around the model's mean.

    Raises:
        UnsuitedError: fewer than 20 samples, or the fit did not end in finite numbers.

    Source: Harvey, Forecasting, Structural Time Series Models and the Kalman Filter, 1989.
    """
    past = scene.past.last(max(NEWEST, 3 * scene.past.season if scene.past.season <= NEWEST else 0))
    if np.isfinite(past.values).sum() < 20:
        raise UnsuitedError("needs 20 samples")
    from statsmodels.tsa.statespace.structural import UnobservedComponents

    centre, scale = float(np.nanmean(past.values)), float(np.nanstd(past.values)) or 1.0
    seasonal = 1 < past.season <= len(past) // 2
    cycles = [{"period": past.season, "harmonics": min(HARMONICS, past.season // 2)}] if seasonal else None
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # about starting values and convergence: the result is checked below
        model = UnobservedComponents((past.values - centre) / scale, "llevel", freq_seasonal=cycles, autoregressive=1)
        fitted = model.fit(disp=False, maxiter=25)
        found = fitted.get_forecast(scene.horizon)
        mean, deviation = np.asarray(found.predicted_mean), np.sqrt(np.maximum(np.asarray(found.var_pred_mean), 0.0))
    rows = mean[:, None] + deviation[:, None] * norm.ppf(scene.levels)
    if not np.isfinite(rows).all():
        raise UnsuitedError("the fit did not end in finite numbers")
    return np.asarray(centre + scale * rows)
