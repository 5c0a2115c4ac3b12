"""Optimizer steps, by way of PyTorch's global step hooks.

A compiled optimizer runs no hooks; that one was compiled is written down, and its steps end where gradients do. One
that autograd runs within a backward, on whichever thread, is only noted: there may be hundreds, and what they do is
part of the backward that ends the step. No hook tells of a step that raised: it ends where something is heard next.
"""

import sys
import threading
from importlib import import_module
from types import FrameType
from typing import Any

from paceline.training import marks
from paceline.training.probe import Probe, skip_frame


def install(probe: Probe, torch: Any) -> None:
    """Time every optimizer step of the training thread; the first one makes an undistributed process a rank."""
    module = import_module("torch.optim.optimizer")  # no attribute of torch.optim
    module.register_optimizer_step_pre_hook(_before(probe, torch))
    module.register_optimizer_step_post_hook(_after(probe, torch))
    for function in (begins, ends, settle):
        skip_frame(function)


def begins(probe: Probe, frame: FrameType) -> None:
    """A step begins in ``frame``, on the training thread. Some optimizers call others: the outermost counts."""
    if probe.off or (probe.step_frame and not settle(probe, frame.f_back)):
        return
    probe.in_forward = None
    probe.step_frame, probe.step_code = id(frame), frame.f_code
    probe.mark(marks.OPTIMIZER)


def ends(probe: Probe, frame: FrameType | None) -> None:
    """The step of ``frame`` has ended; with None, the one under way, however it did."""
    if not probe.off:
        if not probe.step_frame or (frame is not None and id(frame) != probe.step_frame):
            return
        probe.step_frame, probe.step_code = 0, None
        probe.mark(marks.LEAVE + marks.OPTIMIZER)
    probe.optimizer_stepped()


def settle(probe: Probe, frame: FrameType | None) -> bool:
    """Where a step is under way that is none of ``frame``'s callers, it has raised: it ends now. Whether none is left.

    It counts as a step, as one does that a gradient scaler skips: the other ranks have made theirs.
    """
    code = probe.step_code
    while frame is not None:
        if frame.f_code is code:
            return False
        frame = frame.f_back
    ends(probe, None)
    return True


def _before(probe: Probe, torch: Any) -> Any:
    tracing, ident, within = torch.compiler.is_dynamo_compiling, threading.get_ident, probe.graph_task

    def compiled() -> bool:
        """Dynamo calls this while it traces, as a function whose result is constant."""
        alternation = probe.alternation
        if alternation is not None:
            alternation.optimizer_compiled()
        if not probe.foreign():
            probe.mark(marks.COMPILED)
        return True

    compiled._dynamo_marked_constant = True  # type: ignore[attr-defined]

    def before(optimizer: Any, args: Any, kwargs: Any) -> None:
        if tracing():
            compiled()
            return
        if within() != -1:
            probe.stepped = True
            return
        if probe.idle:
            probe.begin()
        if ident() == probe.thread:
            begins(probe, sys._getframe(1))

    skip_frame(before)
    return before


def _after(probe: Probe, torch: Any) -> Any:
    tracing, ident, within = torch.compiler.is_dynamo_compiling, threading.get_ident, probe.graph_task

    def after(optimizer: Any, args: Any, kwargs: Any) -> None:
        if tracing() or ident() != probe.thread or within() != -1:
            return
        ends(probe, sys._getframe(1))

    skip_frame(after)
    return after
