"""Backward passes, by way of ``torch.autograd.backward``, which ``Tensor.backward`` calls."""

import functools
import sys
from typing import Any

from paceline.training import marks
from paceline.training.probe import Probe, skip_frame


def install(probe: Probe, torch: Any) -> None:
    """Time the outermost backward of the training thread."""
    original = torch.autograd.backward
    tracing = torch.compiler.is_dynamo_compiling

    @functools.wraps(original)
    def backward(*args: Any, **kwargs: Any) -> Any:
        if tracing() or probe.in_backward or probe.foreign():
            return original(*args, **kwargs)
        enter(probe, args)
        try:
            return original(*args, **kwargs)
        finally:
            leave(probe)

    for function in (backward, enter, leave):
        skip_frame(function)
    torch.autograd.backward = backward


def enter(probe: Probe, args: tuple[Any, ...]) -> None:
    """Backward begins."""
    if probe.device is None and args:
        probe.device = getattr(args[0], "device", None)
    probe.in_backward, probe.ready_queued = True, False
    probe.in_forward = None
    probe.mark(marks.BACKWARD)


def leave(probe: Probe) -> None:
    """Backward has returned, or raised."""
    probe.mark(marks.LEAVE + marks.BACKWARD)
    probe.in_backward = probe.waiting = probe.reducing = False
    probe.read_queue()


def queue_ready(probe: Probe, torch: Any) -> None:
    """Be told when the last gradient is computed: before the reducer, which asks later, waits for the other ranks."""
    probe.ready_queued = True
    compiled = sys.modules.get("torch._dynamo.compiled_autograd")
    if compiled is not None and getattr(compiled, "in_compiled_autograd_region", False):
        return

    def ready() -> None:
        probe.read_queue()
        probe.mark(marks.READY)

    try:
        torch.autograd.Variable._execution_engine.queue_callback(ready)
    except RuntimeError:
        return  # Not inside the engine: the reducer's last collective then stands for the last gradient.
