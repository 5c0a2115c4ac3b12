"""Quantiles of the newest values: what a series without memory will do next."""

import numpy as np

from ..context import Scene, spread
from ..series import Array


def _newest(scene: Scene, samples: int) -> Array:
    row = spread(scene.past.values[-samples:][:, None], scene.levels)
    return np.repeat(row, scene.horizon, axis=0)


def last_60(scene: Scene) -> Array:
    """Quantiles of the last 60 samples."""
    return _newest(scene, 60)


def last_240(scene: Scene) -> Array:
    """Quantiles of the last 240 samples."""
    return _newest(scene, 240)
