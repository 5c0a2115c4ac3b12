"""The ensemble: members' quantiles averaged by how each did in the back-test, then widened or narrowed to be true.

Rule of this file: pure. Weights rest on the series' own back-test and on a prior that was set on other series.
"""

from collections.abc import Container, Iterable, Mapping

import numpy as np

from . import backtest
from .backtest import Backtest
from .scores import coverage
from .series import Array

#: How much a member counts before any back-test; 1 where it is not named, and for a series that often rests on its
#: minimum: what was learned on other series knows less of when this one moves than its own samples do.
PRIOR: Mapping[str, float] = {"network": 10.0, "pretrained": 40.0, "fracast": 40.0}
#: A member's weight falls with this power of its loss.
POWER = 3.0
#: For a series that often rests on its minimum only these speak: averages with the others would blur the two states.
STATES = ("last_30", "last_60", "last_120", "last_240", "analog", "network", "pretrained")
#: What the ensemble is compared with, and what answers where it loses; they do not speak in it.
BASELINES = ("naive", "seasonal_naive")
#: Members that are weighed against all the others together, not beside them: they know something else. Where one is as
#: good as they are it has half.
APART = ("calendar",)
#: Without a back-test only these speak, which need little history.
UNTESTED = ("changes", "last_60", "smoothing", "network", "pretrained")
#: Shares of the naive forecast that are tried before it answers alone.
NAIVE_SHARES = (0.25, 0.5, 0.75)
#: Interval widths that are tried on the back-test, and how far the best of them is trusted: with so many values.
WIDTHS = np.array([0.6, 0.7, 0.8, 0.9, 1.0, 1.1, 1.25, 1.4, 1.6, 1.8])
TRUSTED = 1000.0


def speaking(forecasts: Iterable[str], losses: Mapping[str, float], rests: bool) -> tuple[str, ...]:
    """Of those that can forecast the members that speak for such a series; all of them where none of those can.

    ``rests``: the series often rests on its minimum. Where there was a back-test, a member that could not take part in
    it does not speak.
    """
    names = tuple(name for name in forecasts if name not in APART and (not losses or name in losses))
    members = tuple(name for name in names if name not in BASELINES)
    return tuple(name for name in members if name in STATES or not rests) or members or names


def weights(names: Iterable[str], losses: Mapping[str, float], rests: bool = False) -> dict[str, float]:
    """Member -> its share by its loss and a prior, summing to 1; of ``names`` those with a loss, if one has any.

    ``rests``: the series often rests on its minimum.
    """
    names, prior = list(names), {} if rests else PRIOR
    tried = {name: losses[name] for name in names if name in losses}
    if not tried:
        chosen = [name for name in names if name in UNTESTED] or names
        total = sum(prior.get(name, 1.0) for name in chosen)
        return {name: prior.get(name, 1.0) / total for name in chosen}
    best, worst = min(tried.values()), max(tried.values())
    floor = max(best * 1e-3, worst * 1e-9, 1e-300)
    raw = {name: prior.get(name, 1.0) * ((best + floor) / (value + floor)) ** POWER for name, value in tried.items()}
    total = sum(raw.values())
    return {name: value / total for name, value in raw.items()}


def with_apart(shares: Mapping[str, float], test: Backtest, able: Container[str]) -> dict[str, float]:
    """``shares`` beside those of ``APART`` that are ``able`` to forecast: by their losses, as of two members."""
    others = loss(test, hindcast(test, shares))
    for name in APART:
        if others is not None and name in able and name in test.losses:
            own = weights((name, ""), {name: test.losses[name], "": others})[name]
            shares = {other: (1.0 - own) * share for other, share in shares.items()} | {name: own}
    return dict(shares)


def averaged(forecasts: Mapping[str, Array], shares: Mapping[str, float]) -> Array:
    """The members' quantiles, averaged level by level and put in order."""
    total = sum(share * forecasts[name] for name, share in shares.items())
    return np.sort(np.asarray(total), axis=-1)


def hindcast(test: Backtest, shares: Mapping[str, float]) -> Array:
    """What the ensemble would have said at the back-test's moments: moments x steps x levels."""
    return averaged(test.forecasts, shares)


def width(test: Backtest, made: Array) -> float:
    """The factor by which intervals around the median should be wider so that 80 % of values fall in the 80 % one.

    Near 1 where the back-test holds few values. Source: split conformal prediction, Vovk et al., 2005, with the
    distance to the median in units of the interval as score.
    """
    measured = np.isfinite(test.actual)
    count = int(measured.sum())
    if not count:
        return 1.0
    low, middle, high = (made[..., int(np.argmin(np.abs(test.levels - level)))] for level in (0.1, 0.5, 0.9))
    actual, low, middle, high = test.actual[measured], low[measured], middle[measured], high[measured]
    shares = np.array(
        [coverage(actual, middle - factor * (middle - low), middle + factor * (high - middle)) for factor in WIDTHS],
        dtype=np.float64,
    )
    best = float(WIDTHS[int(np.argmin(np.abs(shares - 0.8) + 1e-6 * np.abs(WIDTHS - 1.0)))])
    return float(1.0 + (best - 1.0) * count / (count + TRUSTED))


def widened(quantiles: Array, levels: Array, factor: Array | float) -> Array:
    """``quantiles`` (… x steps x levels) moved away from the median by ``factor``, one number or one a step."""
    middle = quantiles[..., int(np.argmin(np.abs(levels - 0.5)))][..., None]
    return np.asarray(middle + np.asarray(factor)[..., None] * (quantiles - middle))


def mixed(made: Array, naive: Array, share: float) -> Array:
    """``made`` with a share of the naive forecast in it."""
    return np.asarray(naive if share == 1.0 else (1.0 - share) * made + share * naive)


def naive_share(test: Backtest, made: Array, naive: str) -> float:
    """The smallest share of the naive forecast with which ``made`` does not lose to it in the back-test."""
    for share in NAIVE_SHARES:
        mixed_loss = loss(test, mixed(made, test.forecasts[naive], share))
        if mixed_loss is not None and mixed_loss <= test.losses[naive]:
            return share
    return 1.0


def loss(test: Backtest, made: Array) -> float | None:
    """The mean pinball loss of ``made`` in the back-test, or None where nothing was measured."""
    mean = backtest.loss(test.actual, made, test.levels)
    return mean if np.isfinite(mean) else None
