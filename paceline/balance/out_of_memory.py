"""Memory: what becomes of a step that one rank has no memory for.

Rule of this file: the rank gives back what the failed pass held, and brings zeros for the gradients that others wait
for, so that nobody hangs. Where that cannot be done the error says so, and the next start of the run begins lower.
"""

from __future__ import annotations

import os
import traceback
import warnings
from typing import Any

import torch

from . import reducer_round
from .caps import Caps, folder, lowered, name_of
from .wrapping import Wrapping

#: What PyTorch raises where an accelerator has no memory left.
OUT_OF_MEMORY: type[RuntimeError] = getattr(torch, "OutOfMemoryError", torch.cuda.OutOfMemoryError)


class Memory:
    """One rank's."""

    def __init__(self, wrapping: Wrapping, rank: int, world: int) -> None:
        self.rank = rank
        self._wrapping = wrapping
        self._parameters = wrapping.parameters()
        self._caps = Caps(folder(os.environ) / name_of(wrapping.model, world, rank))

    def mark(self) -> list[Any] | None:
        """To be taken before a pass back, for ``finish_backward``; None where that could not be finished."""
        return reducer_round.marks(self._parameters)

    def release(self, error: BaseException, loss: torch.Tensor | None = None) -> None:
        """Give back what the failed pass holds: what its frames refer to, and the graph of ``loss``."""
        traceback.clear_frames(error.__traceback__)
        if loss is not None and not loss._is_view() and loss.grad_fn is not None:
            loss.detach_()
        if torch.cuda.is_available():
            torch.cuda.empty_cache()

    def finish_backward(self, marked: list[Any]) -> None:
        """Bring what is missing since ``marked``."""
        ddp = self._wrapping.ddp
        if ddp is not None:
            reducer_round.finish(ddp, reducer_round.missing(self._parameters, marked), forward=False)

    def left_forward(self, *, syncs: bool) -> None:
        """The wrapper's call ended early; of its own end it needs which exchange the next call begins with."""
        if self._wrapping.ddp is not None:
            self._wrapping.ddp.require_forward_param_sync = syncs

    def finish_forward(self, *, entered: bool) -> None:
        """Bring every gradient; ``entered``: the model was called."""
        ddp = self._wrapping.ddp
        if ddp is None:
            return
        if not entered:
            reducer_round.begin(ddp)
            self.left_forward(syncs=True)
        reducer_round.finish(ddp, self._parameters, forward=True)

    def keep(self, share: int) -> None:
        """So many samples were too many: keep that for the next start."""
        most = lowered(share, 1)
        if most:
            self._caps.write(most)

    def tell(self, most: int | None, share: int, *, skipped: bool) -> None:
        """This rank's cap is lower now; ``skipped``: all ranks skipped the step, for they exchanged in it."""
        became = "all ranks skipped that step" if skipped else "they counted as zeros in that step"
        warnings.warn(
            f"rank {self.rank} ran out of memory with {share} samples: {became}, and it takes {most} at most "
            "from now on",
            RuntimeWarning,
            stacklevel=2,
        )

    def fatal(self, error: BaseException, share: int) -> RuntimeError:
        """The same error in a sentence that says what happens now."""
        most = lowered(share, 1)
        kept = self._caps.write(most) if most else False
        then = (
            f"The next start gives it {most} at most" if kept else "Start it with a smaller global_batch or max_batch"
        )
        return OUT_OF_MEMORY(
            f"rank {self.rank} ran out of memory with {share} samples, where a step cannot be skipped by all ranks "
            "together (that takes DDP, mode='adaptive', a step before it, and no gradient_as_bucket_view with "
            f"set_to_none=False). {then}. ({error})"
        )
