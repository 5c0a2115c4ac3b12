"""A state space model by statsmodels: a damped local level, a season of a few harmonics, gaps left to the filter."""

import warnings
from statistics import NormalDist

import numpy as np

from ..context import ForecastContext
from ..series import Array
from .model import UnsuitedError

#: More samples make the fit slower, not better.
NEWEST, HARMONICS = 300, 2


def statespace(context: ForecastContext) -> Array:
    """Normal quantiles around the model's mean.

    Raises:
        UnsuitedError: fewer than 20 samples, or the fit did not end in finite numbers.

    Source: Harvey, Forecasting, Structural Time Series Models and the Kalman Filter, 1989.
    """
    series = context.series.last(max(NEWEST, 3 * context.series.season if context.series.season <= NEWEST else 0))
    if np.isfinite(series.values).sum() < 20:
        raise UnsuitedError("needs 20 samples")
    from statsmodels.tsa.statespace.structural import UnobservedComponents

    centre, scale = float(np.nanmean(series.values)), float(np.nanstd(series.values)) or 1.0
    seasonal = 1 < series.season <= len(series) // 2
    cycles = [{"period": series.season, "harmonics": min(HARMONICS, series.season // 2)}] if seasonal else None
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # about starting values and convergence: the result is checked below
        model = UnobservedComponents((series.values - centre) / scale, "llevel", freq_seasonal=cycles, autoregressive=1)
        fitted = model.fit(disp=False, maxiter=25)
        forecast = fitted.get_forecast(context.horizon)
        mean, deviation = (
            np.asarray(forecast.predicted_mean),
            np.sqrt(np.maximum(np.asarray(forecast.var_pred_mean), 0.0)),
        )
    deviates = [NormalDist().inv_cdf(level) for level in context.levels.tolist()]
    rows = mean[:, None] + deviation[:, None] * np.array(deviates)
    if not np.isfinite(rows).all():
        raise UnsuitedError("the fit did not end in finite numbers")
    return np.asarray(centre + scale * rows)
