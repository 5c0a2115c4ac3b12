"""Simple exponential smoothing with the errors that its level would have made."""

from functools import partial

import numpy as np

from ..context import ForecastContext, spread
from ..series import Array

#: Shares of the newest value in the level; the one with the smallest errors is taken.
RATES = (0.02, 0.06, 0.2, 0.5)
#: So many samples are smoothed in one pass.
_BLOCK = 64


def _weights(rate: float) -> tuple[Array, Array]:
    """What each value of a block adds to the level after each (value, level), and what is left of the level before."""
    left = np.float64(1.0 - rate) ** np.arange(1, _BLOCK + 1)
    behind = np.arange(_BLOCK) - np.arange(_BLOCK)[:, None]
    return np.where(behind >= 0, rate * (1.0 - rate) ** np.maximum(behind, 0), 0.0), left


_WEIGHTS = {rate: _weights(rate) for rate in RATES}


def level(filled: Array, rate: float) -> Array:
    """The smoothed level after each sample, begun at the first value. Source: Brown, 1956.

    In blocks: what a block's own values add to its levels is one product for all blocks, and only the level before
    each is carried on. (pandas' ``ewm`` takes two to four times as long, and pandas 45
    MiB of an idle service.)

    >>> level(np.array([8.0, 0.0, 4.0]), 0.5).tolist()
    [8.0, 4.0, 4.0]
    """
    added, left = _WEIGHTS.get(rate) or _weights(rate)
    blocks = -(-len(filled) // _BLOCK)
    values = np.zeros((blocks, _BLOCK))
    values.reshape(-1)[: len(filled)] = filled
    own = values @ added
    before, now = np.empty(blocks), float(filled[0])
    for block, last in enumerate(own[:, -1].tolist()):
        before[block] = now
        now = now * left[-1] + last
    return np.asarray((own + before[:, None] * left).reshape(-1)[: len(filled)])


def smoothing(context: ForecastContext) -> Array:
    """The level, spread by its errors after each number of steps."""
    best, chosen, now = np.inf, None, 0.0
    for rate in RATES:
        levels = context.series.causal(f"level {rate}", partial(level, rate=rate))
        errors = context.followers - levels[context.origins][:, None]
        size = float(np.nanmean(np.abs(errors))) if errors.size else 0.0
        if size < best:
            best, chosen, now = size, errors, float(levels[-1])
    assert chosen is not None  # the mean of finite errors is below infinity
    return np.asarray(now + context.across(spread(chosen, context.levels)))
