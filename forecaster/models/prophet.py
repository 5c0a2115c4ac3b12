"""Prophet: a piecewise line with daily and weekly seasons, for weeks of history."""

import logging
import warnings

import numpy as np

from ..context import Scene
from ..series import Array
from .model import UnsuitedError

NEWEST, SAMPLES = 20_160, 300


def prophet(scene: Scene) -> Array:
    """Quantiles of Prophet's simulated futures.

    Raises:
        UnsuitedError: fewer than 20 samples, or the package is not installed.

    Source: Taylor and Letham, Forecasting at Scale, 2018.
    """
    past = scene.past.last(NEWEST)
    if np.isfinite(past.values).sum() < 20:
        raise UnsuitedError("needs 20 samples")
    try:
        import pandas
        from prophet import Prophet
    except ImportError as error:
        raise UnsuitedError("prophet is not installed; pip install 'paceline[forecaster]'") from error
    logging.getLogger("cmdstanpy").disabled = True
    logging.getLogger("prophet").setLevel(logging.ERROR)
    known = np.flatnonzero(np.isfinite(past.values))
    begin = pandas.Timestamp(2024, 1, 1)
    centre, scale = float(np.nanmean(past.values)), float(np.nanstd(past.values)) or 1.0
    steps = pandas.to_timedelta(np.concatenate([known, len(past) + np.arange(scene.horizon)]) * past.interval_s, "s")
    table = pandas.DataFrame({"ds": begin + steps[: len(known)], "y": (past.values[known] - centre) / scale})
    model = Prophet(uncertainty_samples=SAMPLES)
    state = np.random.get_state()
    np.random.seed(0)
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # Prophet's own use of pandas
            model.fit(table, seed=0)
            draws = model.predictive_samples(pandas.DataFrame({"ds": begin + steps[len(known) :]}))["yhat"]
    finally:
        np.random.set_state(state)
    return np.asarray(centre + scale * np.quantile(draws, scene.levels, axis=1).T)
