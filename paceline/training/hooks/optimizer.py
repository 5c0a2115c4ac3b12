"""Optimizer steps, by way of PyTorch's global step hooks."""

from importlib import import_module
from typing import Any

from paceline.training import marks
from paceline.training.probe import Probe, skip_frame


def install(probe: Probe, torch: Any) -> None:
    """Time every optimizer step of the training thread; the first one makes an undistributed process a rank."""
    tracing = torch.compiler.is_dynamo_compiling
    depth = [0]

    def before(optimizer: Any, args: Any, kwargs: Any) -> None:
        if tracing() or probe.off:
            return
        probe.begin()
        if not probe.foreign():
            depth[0] += 1
            probe.in_forward = None
            if depth[0] == 1:
                probe.mark(marks.OPTIMIZER)

    def after(optimizer: Any, args: Any, kwargs: Any) -> None:
        if tracing() or probe.foreign() or not depth[0]:
            return
        depth[0] -= 1
        if not depth[0]:
            probe.mark(marks.LEAVE + marks.OPTIMIZER)
            probe.read_queue()

    for function in (before, after):
        skip_frame(function)
    module = import_module("torch.optim.optimizer")  # no attribute of torch.optim
    module.register_optimizer_step_pre_hook(before)
    module.register_optimizer_step_post_hook(after)
