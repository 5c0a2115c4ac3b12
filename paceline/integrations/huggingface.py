"""Hugging Face's Trainer: ``PacelineCallback.add_to(trainer)`` before ``trainer.train()``.

Rule of this file: points go by ``trainer.log``, whenever the Trainer logs, so that they reach whatever it reports to.
"""

from __future__ import annotations

from typing import Any

from transformers import TrainerCallback

from paceline.integrations.inside import begin, end, harmless, taken


class PacelineCallback(TrainerCallback):  # type: ignore[misc]
    """Times the training of ``trainer`` and logs where a step's time goes."""

    def __init__(self, trainer: Any) -> None:
        self._trainer = trainer

    @classmethod
    def add_to(cls, trainer: Any) -> PacelineCallback:
        """Let ``trainer`` have it. A Trainer does not tell its callbacks who it is, so it is told here."""
        made = cls(trainer)
        trainer.add_callback(made)
        begin()
        return made

    def on_train_begin(self, args: Any, state: Any, control: Any, **kwargs: Any) -> None:
        """Time this training, too, where the Trainer has ended one before."""
        begin()

    def on_step_end(self, args: Any, state: Any, control: Any, **kwargs: Any) -> None:
        """Log what has come, where the Trainer is about to log."""
        self._log(state, control)

    def on_epoch_end(self, args: Any, state: Any, control: Any, **kwargs: Any) -> None:
        """The same: with ``logging_strategy="epoch"`` the Trainer logs here alone."""
        self._log(state, control)

    def _log(self, state: Any, control: Any) -> None:
        if control.should_log and state.is_world_process_zero:
            values = taken()
            if values:
                with harmless():
                    self._trainer.log(values)
                # That takes the Trainer's own turn, in which all ranks exchange the loss, away from this rank alone.
                control.should_log = True

    def on_train_end(self, args: Any, state: Any, control: Any, **kwargs: Any) -> None:
        """The end of training."""
        end()
