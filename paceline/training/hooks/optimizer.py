"""Optimizer steps, by way of PyTorch's global step hooks.

A compiled optimizer runs no hooks; that one was compiled is written down, and its steps end where gradients do.
"""

from importlib import import_module
from typing import Any

from paceline.training import marks
from paceline.training.probe import Probe, skip_frame


def install(probe: Probe, torch: Any) -> None:
    """Time every optimizer step of the training thread; the first one makes an undistributed process a rank."""
    tracing = torch.compiler.is_dynamo_compiling
    steps = _Steps(probe)

    def compiled() -> bool:
        """Dynamo calls this while it traces, as a function whose result is constant."""
        steps.compiled()
        return True

    compiled._dynamo_marked_constant = True  # type: ignore[attr-defined]

    def before(optimizer: Any, args: Any, kwargs: Any) -> None:
        if tracing():
            compiled()
        else:
            steps.begin()

    def after(optimizer: Any, args: Any, kwargs: Any) -> None:
        if not tracing():
            steps.end()

    for function in (before, after, _Steps):
        skip_frame(function)
    module = import_module("torch.optim.optimizer")  # no attribute of torch.optim
    module.register_optimizer_step_pre_hook(before)
    module.register_optimizer_step_post_hook(after)


class _Steps:
    """Only the outermost step counts: some optimizers call others."""

    def __init__(self, probe: Probe) -> None:
        self._probe = probe
        self._depth = 0

    def compiled(self) -> None:
        if not self._probe.foreign():
            self._probe.mark(marks.COMPILED)

    def begin(self) -> None:
        probe = self._probe
        if probe.off:
            return
        probe.begin()
        if not probe.foreign():
            self._depth += 1
            probe.in_forward = None
            if self._depth == 1:
                probe.mark(marks.OPTIMIZER)

    def end(self) -> None:
        probe = self._probe
        if probe.foreign() or not self._depth:
            return
        self._depth -= 1
        if not self._depth:
            probe.mark(marks.LEAVE + marks.OPTIMIZER)
            probe.read_queue()
