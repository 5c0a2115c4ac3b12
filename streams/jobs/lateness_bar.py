"""How far above its peers a rank's median excess has to be, for each part that is judged.

Rule of this file: pure arithmetic over arrays of shares of the step. NaN is what was not heard.
"""

import numpy as np

from ..robust import MAD_SIGMA, Array, known_or_zero, nanmedian, peers_median, peers_spread
from .straggler_config import StragglerConfig

#: A median's standard error over a mean's, and allowance for ticks that are not independent of each other.
_MEDIAN_ERROR = 1.2533
_DEPENDENCE = 1.5
#: Quiet parts differ less between healthy ranks than whole steps do: no device is faster at them than another.
_QUIET_FLOOR = 0.5
#: The ninth decile of normal noise, in standard deviations.
_NORMAL_90 = 1.2816
#: Parts of the excess that are judged on their own, and the parts of a tick that they sum.
QUIET: dict[str, tuple[str, ...]] = {"input": ("data", "prepare"), "gc": ("gc",), "outside": ("other",)}
#: What is judged: the whole without waiting for processors, its quiet parts, and what is judged apart.
JUDGED = ("work", *QUIET, "starved", "unshared", "served")
#: Those that hold all phases, the noisy ones with them.
_WHOLE = ("work", "unshared", "served")


def floor(name: str, config: StragglerConfig) -> float:
    """The least spread between healthy ranks in the part ``name``."""
    return config.floor if name in _WHOLE else _QUIET_FLOOR * config.floor


def least(config: StragglerConfig, contended: float) -> Array:
    """The least excess worth a word, for each of ``JUDGED``."""
    starved = min(config.least_cpu_wait, config.least_excess + config.cpu_wait_slope * contended)
    return np.array([starved if name == "starved" else config.least_excess for name in JUDGED])


def bar(excess: Array, median: Array, steadiness: Array, least: tuple[Array, float], config: StragglerConfig) -> Array:
    """What each rank's median excess has to reach, shape (windows, ranks).

    Args:
        excess: what is judged, shape (windows, ranks, ticks), NaN where not heard.
        median: its median, shape (windows, ranks).
        steadiness: the typical rank's, over the whole history of each window: a handful of ticks may look steady by
            chance, so a rank counts as no steadier than that.
        least: the least excess worth a word in each window, and the least spread between healthy ranks.
    """
    # Ranks may be numbered with gaps.
    ticks, ranks = excess.shape[-1], (~np.isnan(median)).sum(axis=1)
    error = _DEPENDENCE * _MEDIAN_ERROR * np.fmax(_jitter(excess), steadiness[:, None]) / np.sqrt(ticks)
    spread = np.sqrt(np.maximum(peers_spread(median), least[1]) ** 2 + error**2)
    sigmas = config.sigmas + np.sqrt(2 * np.log(np.maximum(ranks, 2)))
    return np.asarray(np.maximum(least[0][:, None], sigmas[:, None] * spread))


def margin(excess: Array, median: Array, bar: Array, config: StragglerConfig) -> Array:
    """How many times over its bar each rank's median excess is; 0 where it was not late in nearly all ticks."""
    ticks = excess.shape[-1]
    share = config.late_share if ticks <= config.confirm_ticks else config.late_share_longer
    often = (excess > bar[..., None] / 2).sum(axis=-1) / ticks >= share
    standing = median - np.fmax(peers_median(median), 0.0)
    return np.where(often, standing / bar, 0.0)


def steadiness(history: Array) -> Array:
    """How much the typical rank varies from tick to tick, for each history: shape (histories, ranks, ticks)."""
    jitter = nanmedian(_jitter(history), axis=1).astype(np.float64)
    return np.asarray(np.fmax(jitter, _tail(history)), dtype=history.dtype)


def _tail(history: Array) -> Array:
    """The upper tail of the typical rank's excess, as the standard deviation that normal noise would have with it.

    Work that is cut unevenly falls hard on one rank and then on another: it is far more one-sided than its median
    deviation tells.
    """
    ticks = history.shape[-1]
    ordered = np.sort(history, axis=-1)  # NaN comes last
    at = min(int(0.9 * ticks), ticks - 1)
    upper = ordered[..., at] - ordered[..., ticks // 2]
    return known_or_zero(nanmedian(upper, axis=1).astype(np.float64) / _NORMAL_90)


def _jitter(excess: Array) -> Array:
    """Each rank's robust standard deviation from tick to tick, the last axis."""
    axis = excess.ndim - 1
    return MAD_SIGMA * nanmedian(np.abs(excess - nanmedian(excess, axis=axis)[..., None]), axis=axis)
