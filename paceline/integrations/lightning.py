"""PyTorch Lightning: ``Trainer(callbacks=[PacelineCallback()])``.

Rule of this file: points go to the loggers that the Trainer has, at its own step; ``paceline/step`` tells ours.
"""

from __future__ import annotations

from typing import Any

from paceline.integrations.inside import begin, end, harmless, taken

try:
    from lightning.pytorch import Callback
except ImportError:
    from pytorch_lightning import Callback  # type: ignore[import-not-found]


class PacelineCallback(Callback):  # type: ignore[misc]
    """Times the training and logs where a step's time goes, once a second at most."""

    def setup(self, trainer: Any, pl_module: Any, stage: str) -> None:
        """Before the model is wrapped, so that its exchange is timed too."""
        if stage == "fit":
            begin()

    def on_train_batch_end(self, trainer: Any, pl_module: Any, outputs: Any, batch: Any, batch_idx: int) -> None:
        """Log what has come."""
        values = taken()
        if values and trainer.is_global_zero:
            with harmless():
                for logger in trainer.loggers:
                    logger.log_metrics(values, step=trainer.global_step)

    def teardown(self, trainer: Any, pl_module: Any, stage: str) -> None:
        """The end of training."""
        if stage == "fit":
            end()
