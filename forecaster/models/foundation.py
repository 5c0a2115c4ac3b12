"""Large pretrained models of the Chronos kind, where the package and a folder with weights are there.

Rule of this file: nothing is ever downloaded. The folder is told once, at the start.
"""

from typing import Any

import numpy as np

from ..context import Scene
from ..series import Array
from .model import UnsuitedError

NEWEST, FARTHEST = 2048, 480
_pipelines: dict[str, Any] = {}


def load(folder: str) -> None:
    """Load the weights in ``folder`` (as ``save_pretrained`` writes them) for ``chronos``.

    Raises:
        UnsuitedError: the package is not installed, or the folder holds no such weights.
    """
    try:
        from chronos import BaseChronosPipeline
    except ImportError as error:
        raise UnsuitedError("chronos is not installed; pip install chronos-forecasting") from error
    try:
        _pipelines["chronos"] = BaseChronosPipeline.from_pretrained(folder, local_files_only=True)
    except (OSError, ValueError) as error:
        raise UnsuitedError(f"{folder}: {str(error).splitlines()[0][:200]}") from error


def chronos(scene: Scene) -> Array:
    """The loaded model's quantiles; the last one is held beyond ``FARTHEST`` steps.

    Raises:
        UnsuitedError: none was loaded, or fewer than 16 samples.
    """
    if "chronos" not in _pipelines:
        raise UnsuitedError("no weights were loaded; start the service with --chronos FOLDER")
    if len(scene.past) < 16:
        raise UnsuitedError("needs 16 samples")
    import torch

    context = torch.tensor(scene.past.values[-NEWEST:], dtype=torch.float32)
    steps = min(scene.horizon, FARTHEST)
    asked = np.clip(scene.levels, 0.1, 0.9)  # it was trained inside these
    found, _ = _pipelines["chronos"].predict_quantiles(
        context, prediction_length=steps, quantile_levels=[float(level) for level in asked]
    )
    rows = np.asarray(found[0], dtype=np.float64)
    return np.concatenate([rows, np.repeat(rows[-1:], scene.horizon - steps, axis=0)])
