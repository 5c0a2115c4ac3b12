"""Pipelines of ``torch.distributed.pipelining``: the passes of each micro-batch through this rank's stages.

A schedule runs them in an order of its own, so each says which micro-batch it is of. A backward that is reported in two
parts, for the input and for the weights, calls autograd once for each group of parameters; it is one pass here. The
time between passes, in which a rank waits for its neighbours, is told by the collectives.
"""

from __future__ import annotations

import functools
import sys
from typing import Any

from paceline.training import marks
from paceline.training.hooks.autograd import Backward
from paceline.training.hooks.optimizer import settle
from paceline.training.probe import Probe, skip_frame


def install(probe: Probe, torch: Any, module: Any) -> None:
    """Time the passes of the stages of ``torch.distributed.pipelining.stage`` (``module``)."""
    stage = getattr(module, "_PipelineStageBase", None)
    if stage is None or not hasattr(stage, "forward_one_chunk"):
        return
    stage.forward_one_chunk = _forward(probe, torch, stage.forward_one_chunk)
    timed = Backward(probe, torch)
    for name in ("backward_one_chunk", "backward_weight_one_chunk"):
        if hasattr(stage, name):
            setattr(stage, name, _backward(timed, getattr(stage, name)))


def _forward(probe: Probe, torch: Any, original: Any) -> Any:
    tracing, training = torch.compiler.is_dynamo_compiling, torch.is_grad_enabled

    @functools.wraps(original)
    def forward_one_chunk(self: Any, *args: Any, **kwargs: Any) -> Any:
        if tracing() or probe.in_backward or probe.in_forward is not None or probe.foreign():
            return original(self, *args, **kwargs)
        if probe.stepping:
            settle(probe, sys._getframe())
        if probe.stage is None:
            probe.stage = getattr(self, "group_rank", None)
        kind = marks.FORWARD if training() else marks.EVALUATION
        probe.trim()
        probe.in_forward = self
        probe.mark(kind, _microbatch(args, kwargs, "fwd_chunk_id") if kind == marks.FORWARD else None)
        try:
            return original(self, *args, **kwargs)
        finally:
            if probe.in_forward is self:
                probe.in_forward = None
            if not probe.off:
                probe.mark(marks.LEAVE + kind)

    skip_frame(forward_one_chunk)
    return forward_one_chunk


def _backward(timed: Backward, original: Any) -> Any:
    probe, tracing = timed.probe, timed.tracing

    @functools.wraps(original)
    def backward_one_chunk(self: Any, *args: Any, **kwargs: Any) -> Any:
        if tracing() or not getattr(self, "has_backward", True):
            return original(self, *args, **kwargs)
        if probe.device is None:
            probe.wrapper, probe.device = probe.wrapper or "pipeline", getattr(self, "device", None)
            probe.device_found()
        if not timed.enter((), _microbatch(args, kwargs, "bwd_chunk_id")):
            return original(self, *args, **kwargs)
        return timed.run(original, self, *args, **kwargs)

    skip_frame(backward_one_chunk)
    return backward_one_chunk


def _microbatch(args: tuple[Any, ...], kwargs: Any, name: str) -> int | None:
    number = args[0] if args else kwargs.get(name)
    return number if isinstance(number, int) and 0 <= number < marks.MOST_MICROBATCHES else None
