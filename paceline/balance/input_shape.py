"""Which batch a loss is of: batches come in order, and the model's input says how many samples it has.

Rule of this file: a script that skips or repeats a batch is told so before its gradients are weighted wrongly. Where
the input does not begin with samples, order alone counts.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import torch

from .errors import BalanceError
from .handout import Piece


class InputShape:
    """The shape of what the model was called with since the last pass back."""

    def __init__(self) -> None:
        self._shape: tuple[int, ...] | None = None
        #: Whether the leading dimension is the number of samples; None while no input was compared.
        self._leads: bool | None = None

    def see(self, args: tuple[Any, ...], kwargs: dict[str, Any]) -> None:
        """The model is called; of several calls before one loss the first counts."""
        if self._shape is None and self._leads is not False:
            first = next(_tensors([*args, *kwargs.values()]), None)
            self._shape = tuple(first.shape) if first is not None and first.dim() else None

    def forget(self) -> None:
        """What the model was called with came to nothing."""
        self._shape = None

    def check(self, piece: Piece, *, guess: bool) -> None:
        """``piece`` is what the loss should be of; ``guess``: the script did not say how many samples it took.

        Raises:
            BalanceError: the model's input was another batch, or a part of this one.
        """
        shape, self._shape = self._shape, None
        if shape is None or self._leads is False:
            return
        if shape[0] == piece.samples:
            self._leads = True
        elif self._leads and piece.samples not in shape[1:]:
            raise BalanceError(
                f"the loss should be of batch {piece.batch.number}, of which this rank has {piece.samples} samples, "
                f"and the model's input had {shape[0]}. Call balancer.backward once for each batch that the loader "
                "gives, in that order, and leave none out"
            )
        elif guess and self._leads is None and _a_slice(shape, piece.samples):
            raise BalanceError(
                f"the model's input has {shape[0]} samples, where this rank's batch has {piece.samples}. If you take a "
                "batch in several passes, say of how many samples each loss is: "
                "balancer.backward(loss, samples=len(x)). If the input does not begin with samples, say it too"
            )
        else:
            self._leads = False


def _a_slice(shape: tuple[int, ...], samples: int) -> bool:
    return 1 < shape[0] < samples and samples % shape[0] == 0 and samples not in shape[1:]


def _tensors(values: Any) -> Iterator[torch.Tensor]:
    """Tensors in ``values``, and in containers there, in order."""
    for value in values:
        if isinstance(value, torch.Tensor):
            yield value
        elif isinstance(value, (list, tuple)):
            yield from _tensors(value)
        elif isinstance(value, dict):
            yield from _tensors(value.values())
