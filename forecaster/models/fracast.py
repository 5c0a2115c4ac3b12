"""The pretrained fracast network: 85 thousand weights, inside its wheel, that have seen many kinds of series."""

from functools import cache
from typing import Any

import numpy as np

from ..context import Scene
from ..series import Array
from .model import UnsuitedError
from .network import at_levels

#: It answers 48 steps at a time and feeds itself its median: beyond so many the last answer is held.
FARTHEST = 480


@cache
def _loaded() -> Any:
    try:
        from fracast import FracastModel
    except ImportError as error:
        raise UnsuitedError("fracast is not installed; pip install 'paceline[pretrained]'") from error
    return FracastModel.from_pretrained(weights="fp32")


def fracast(scene: Scene) -> Array:
    """Its quantiles, between and beyond its nine levels by straight lines.

    Raises:
        UnsuitedError: fewer than 60 samples, or the package is not installed.
    """
    values = scene.past.values
    if np.isfinite(values[-2048:]).sum() < 60:
        raise UnsuitedError("needs 60 samples")
    model = _loaded()
    rows = np.asarray(model.forecast(values, horizon=min(scene.horizon, FARTHEST)), dtype=np.float64)
    rows = np.concatenate([rows, np.repeat(rows[-1:], scene.horizon - len(rows), axis=0)])
    return at_levels(np.sort(rows, axis=1), scene.levels)
