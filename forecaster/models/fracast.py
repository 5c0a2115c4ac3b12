"""The pretrained fracast network: 85 thousand weights, inside its wheel, that have seen many kinds of series."""

from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np

from paceline.install import install

from ..context import ForecastContext
from ..series import Array
from .model import UnsuitedError
from .network import at_levels

#: It answers 48 steps at a time and feeds itself its median: beyond so many the last answer is held.
FARTHEST = 480


@dataclass(frozen=True)
class Fracast:
    """The network, loaded when it is first asked."""

    def __call__(self, context: ForecastContext) -> Array:
        """Its quantiles, between and beyond its nine levels by straight lines.

        Raises:
            UnsuitedError: fewer than 60 samples, or the package is not installed.
        """
        values = context.series.values
        if np.isfinite(values[-2048:]).sum() < 60:
            raise UnsuitedError("needs 60 samples")
        rows = np.asarray(self._model.forecast(values, horizon=min(context.horizon, FARTHEST)), dtype=np.float64)
        rows = np.concatenate([rows, np.repeat(rows[-1:], context.horizon - len(rows), axis=0)])
        return at_levels(np.sort(rows, axis=1), context.levels)

    @cached_property
    def _model(self) -> Any:
        try:
            from fracast import FracastModel
        except ImportError as error:
            raise UnsuitedError(f"fracast is not installed; {install('pretrained')}") from error
        return FracastModel.from_pretrained(weights="fp32")
