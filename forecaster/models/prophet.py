"""Prophet: a piecewise line with daily and weekly seasons, for weeks of history."""

import logging
import warnings

import numpy as np

from paceline.install import install

from ..context import ForecastContext
from ..series import Array
from .model import UnsuitedError

NEWEST, SAMPLES = 20_160, 300


def prophet(context: ForecastContext) -> Array:
    """Quantiles of Prophet's simulated futures.

    Raises:
        UnsuitedError: fewer than 20 samples, or the package is not installed.

    Source: Taylor and Letham, Forecasting at Scale, 2018.
    """
    series = context.series.last(NEWEST)
    if np.isfinite(series.values).sum() < 20:
        raise UnsuitedError("needs 20 samples")
    try:
        import pandas
        from prophet import Prophet
    except ImportError as error:
        raise UnsuitedError(f"prophet is not installed; {install('forecaster')}") from error
    logging.getLogger("cmdstanpy").disabled = True
    logging.getLogger("prophet").setLevel(logging.ERROR)
    measured = np.flatnonzero(np.isfinite(series.values))
    begin = pandas.Timestamp(2024, 1, 1)
    centre, scale = float(np.nanmean(series.values)), float(np.nanstd(series.values)) or 1.0
    steps = pandas.to_timedelta(
        np.concatenate([measured, len(series) + np.arange(context.horizon)]) * series.interval_s, "s"
    )
    table = pandas.DataFrame({"ds": begin + steps[: len(measured)], "y": (series.values[measured] - centre) / scale})
    model = Prophet(uncertainty_samples=SAMPLES)
    state = np.random.get_state()
    np.random.seed(0)
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # Prophet's own use of pandas
            model.fit(table, seed=0)
            draws = model.predictive_samples(pandas.DataFrame({"ds": begin + steps[len(measured) :]}))["yhat"]
    finally:
        np.random.set_state(state)
    return np.asarray(centre + scale * np.quantile(draws, context.levels, axis=1).T)
