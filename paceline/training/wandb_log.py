"""Weights & Biases: what is told goes into the run that the script has open, from inside its process, as it must be.

Rule of this file: the script's own step axis is never moved. A row of W&B's is written when its step ends, and whoever
ends it moves the axis; so what is logged here joins the row that the script's next ``log`` ends, under a step of its
own. Called from a thread beside training alone.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from paceline.training.open_runs import wandb_run
from paceline.training.tracking_words import STEP, Told

#: Longer tags are refused by W&B, which would fail the whole change.
LONGEST_TAG = 64


class WandbLog:
    """Logs to the open run; ``modules`` are those imported."""

    def __init__(self, modules: Mapping[str, Any]) -> None:
        self._modules = modules
        self._defined = ""

    def log(self, told: Told) -> None:
        """Log ``told``, where a run is open."""
        run = wandb_run(self._modules)
        if run is None:
            return
        if self._defined != run.id:
            run.define_metric(STEP, hidden=True)
            run.define_metric("paceline/*", step_metric=STEP)
            self._defined = run.id
        if told.values:
            run.log(dict(told.values), commit=False)
        for name, text in told.texts.items():
            run.summary[name] = text
        new = [tag for tag in told.tags if len(tag) <= LONGEST_TAG and tag not in (run.tags or ())]
        if new:
            run.tags = (*(run.tags or ()), *new)
