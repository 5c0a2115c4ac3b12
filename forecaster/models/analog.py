"""What followed the moments most like now: for series that jump between states."""

import numpy as np
from scipy.signal import lfilter

from ..past import Array
from ..scene import Scene, spread
from .model import UnsuitedError

#: A moment is described by its value and the means of so many samples up to it.
MEANS = (4, 16, 60)
#: The share of moments that count as like now, and their least number.
SHARE, LEAST = 0.2, 30


def _like_now(scene: Scene) -> np.ndarray[tuple[int], np.dtype[np.intp]]:
    if len(scene.origins) < 2 * LEAST:
        raise UnsuitedError(f"needs {2 * LEAST} samples")
    filled = scene.past.filled
    columns = [filled]
    for window in MEANS:
        if window * 4 <= len(filled):
            mean, _ = lfilter(np.full(window, 1.0 / window), [1.0], filled, zi=_begun(window, float(filled[0])))
            columns.append(mean)
    features = np.stack(columns)
    scale = np.maximum(features.std(axis=1, keepdims=True), 1e-12)
    distance = (((features[:, scene.origins] - features[:, -1:]) / scale) ** 2).sum(axis=0)
    count = max(LEAST, int(SHARE * len(distance)))
    return np.argpartition(distance, count - 1)[:count]


def _begun(window: int, first: float) -> Array:
    """The filter's state after an endless run of ``first``."""
    return np.arange(window - 1, 0, -1) / window * first


def analog(scene: Scene) -> Array:
    """Quantiles of the values that followed.

    Raises:
        UnsuitedError: fewer than 60 samples.
    """
    chosen = _like_now(scene)
    return scene.across(spread(scene.followers[chosen], scene.levels))


def analog_change(scene: Scene) -> Array:
    """The last value and quantiles of the changes that followed.

    Raises:
        UnsuitedError: fewer than 60 samples.
    """
    chosen = _like_now(scene)
    changes = scene.followers[chosen] - scene.past.filled[scene.origins[chosen]][:, None]
    return np.asarray(scene.past.filled[-1] + scene.across(spread(changes, scene.levels)))
