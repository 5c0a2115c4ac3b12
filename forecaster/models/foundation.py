"""Large pretrained models of the Chronos kind, where the package and a folder with weights are there.

Rule of this file: nothing is ever downloaded, and nothing is kept: the loaded pipeline is an argument.
"""

from typing import Any

import numpy as np

from ..context import ForecastContext
from ..series import Array
from .model import UnsuitedError

NEWEST, FARTHEST = 2048, 480
#: What the package makes of a folder; it has no type of its own where the package is missing.
Pipeline = Any


def load(folder: str) -> Pipeline:
    """Load the weights in ``folder`` (as ``save_pretrained`` writes them) for ``chronos``.

    Raises:
        UnsuitedError: the package is not installed, or the folder holds no such weights.
    """
    try:
        from chronos import BaseChronosPipeline
    except ImportError as error:
        raise UnsuitedError("chronos is not installed; pip install chronos-forecasting") from error
    try:
        return BaseChronosPipeline.from_pretrained(folder, local_files_only=True)
    except (OSError, ValueError) as error:
        raise UnsuitedError(f"{folder}: {str(error).splitlines()[0][:200]}") from error


def chronos(pipeline: Pipeline | None, context: ForecastContext) -> Array:
    """The loaded model's quantiles; the last one is held beyond ``FARTHEST`` steps.

    Raises:
        UnsuitedError: there is no pipeline, or fewer than 16 samples.
    """
    if pipeline is None:
        raise UnsuitedError("no weights were loaded; start the service with --chronos FOLDER")
    if len(context.series) < 16:
        raise UnsuitedError("needs 16 samples")
    import torch

    values = torch.tensor(context.series.values[-NEWEST:], dtype=torch.float32)
    steps = min(context.horizon, FARTHEST)
    levels = np.clip(context.levels, 0.1, 0.9)  # it was trained inside these
    quantiles, _ = pipeline.predict_quantiles(
        values, prediction_length=steps, quantile_levels=[float(level) for level in levels]
    )
    rows = np.asarray(quantiles[0], dtype=np.float64)
    return np.concatenate([rows, np.repeat(rows[-1:], context.horizon - steps, axis=0)])
