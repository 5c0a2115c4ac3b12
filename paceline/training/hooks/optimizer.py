"""Optimizer steps, by way of PyTorch's global step hooks.

A compiled optimizer runs no hooks; that one was compiled is written down, and its steps end where gradients do.
"""

import threading
from importlib import import_module
from typing import Any

from paceline.training import marks
from paceline.training.probe import Probe, skip_frame


def install(probe: Probe, torch: Any) -> None:
    """Time every optimizer step of the training thread; the first one makes an undistributed process a rank."""
    depth = [0]  # some optimizers call others: the outermost counts
    module = import_module("torch.optim.optimizer")  # no attribute of torch.optim
    module.register_optimizer_step_pre_hook(_before(probe, torch, depth))
    module.register_optimizer_step_post_hook(_after(probe, torch, depth))


def _before(probe: Probe, torch: Any, depth: list[int]) -> Any:
    tracing, ident = torch.compiler.is_dynamo_compiling, threading.get_ident

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
        if probe.idle:
            probe.begin()
        if probe.off or ident() != probe.thread:
            return
        depth[0] += 1
        probe.in_forward = None
        if depth[0] == 1:
            probe.mark(marks.OPTIMIZER)

    skip_frame(before)
    return before


def _after(probe: Probe, torch: Any, depth: list[int]) -> Any:
    tracing, ident = torch.compiler.is_dynamo_compiling, threading.get_ident

    def after(optimizer: Any, args: Any, kwargs: Any) -> None:
        if tracing() or ident() != probe.thread:
            return
        if not probe.off:
            if not depth[0]:
                return
            depth[0] -= 1
            if depth[0]:
                return
            probe.mark(marks.LEAVE + marks.OPTIMIZER)
        probe.optimizer_stepped()

    skip_frame(after)
    return after
