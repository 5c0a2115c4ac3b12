"""Optimizer steps, by way of PyTorch's global step hooks.

A compiled optimizer runs no hooks; that one was compiled is written down, and its steps end where gradients do. One
that autograd runs within a backward, on whichever thread, is only noted: there may be hundreds, and what they do is
part of the backward that ends the step. No hook tells of a step that raised: it ends where something is heard next.
"""

from __future__ import annotations

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
    probe.steps.add(module.Optimizer.profile_hook_step(install).__code__)  # what runs the hooks, whatever it wraps
    for function in (begins, ends, settle):
        skip_frame(function)


def begins(probe: Probe) -> None:
    """A step begins in the caller's caller, on the training thread: the outermost counts, for some call others."""
    if probe.off:
        return
    if probe.stepping:
        frame = sys._getframe(2)
        if not settle(probe, frame.f_back):
            probe.nested.append(id(frame))
            return
    probe.in_forward = None
    probe.stepping = True
    probe.mark(marks.OPTIMIZER)


def ends(probe: Probe) -> None:
    """The step of the caller's caller has ended: the outermost, unless it is known to be another."""
    if not probe.off:
        if not probe.stepping:
            return
        nested = probe.nested
        if nested:
            frame = id(sys._getframe(2))
            if frame in nested:
                del nested[nested.index(frame) :]
                return
            nested.clear()
        probe.stepping = False
        probe.mark(marks.LEAVE + marks.OPTIMIZER)
    probe.optimizer_stepped()


def settle(probe: Probe, frame: FrameType | None) -> bool:
    """End a step that is none of ``frame`` and its callers, for it has raised; whether none is under way.

    It counts as a step, as one does that a gradient scaler skips: the other ranks have made theirs.
    """
    while frame is not None:
        if frame.f_code in probe.steps:
            return False
        frame = frame.f_back
    probe.nested.clear()
    ends(probe)
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
        if tracing():  # Dynamo goes no further, and is not asked to trace what follows.
            compiled()
            return
        try:
            if probe.in_backward and within() != -1:
                probe.stepped = True
                return
            if probe.idle:
                probe.begin()
            if ident() == probe.thread:
                begins(probe)
        except Exception as error:
            probe.fail(error)

    skip_frame(before)
    return before


def _after(probe: Probe, torch: Any) -> Any:
    tracing, ident, within = torch.compiler.is_dynamo_compiling, threading.get_ident, probe.graph_task

    def after(optimizer: Any, args: Any, kwargs: Any) -> None:
        if tracing():
            return
        try:
            if ident() == probe.thread and not (probe.in_backward and within() != -1):
                ends(probe)
        except Exception as error:
            probe.fail(error)

    skip_frame(after)
    return after
