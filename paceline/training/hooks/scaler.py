"""Gradient scalers: ``scaler.step(optimizer)`` is an optimizer step, also where it skips the optimizer.

Where gradients overflow, and in the first steps they do, the optimizer is not called; the iteration is over all the
same, on every rank. Its time is the optimizer's: unscaling, the look for what overflowed, and the update.
"""

import functools
import threading
from typing import Any

from paceline.training.hooks.optimizer import begins, ends
from paceline.training.probe import Probe, skip_frame


def install(probe: Probe, torch: Any) -> None:
    """Time the steps of ``torch.amp.GradScaler``, which FSDP's and ``torch.cuda.amp``'s derive from."""
    scaler = getattr(torch.amp, "GradScaler", None) or torch.cuda.amp.GradScaler  # PyTorch before 2.3
    original = scaler.step
    tracing, ident, within = torch.compiler.is_dynamo_compiling, threading.get_ident, probe.graph_task

    def begin() -> None:
        try:
            begins(probe)
        except Exception as error:
            probe.fail(error)

    def end() -> None:
        try:
            ends(probe)
        except Exception as error:
            probe.fail(error)

    @functools.wraps(original)
    def step(self: Any, *args: Any, **kwargs: Any) -> Any:
        if tracing() or (probe.in_backward and within() != -1):
            return original(self, *args, **kwargs)
        if probe.idle:
            probe.begin()
        if ident() != probe.thread:
            return original(self, *args, **kwargs)
        begin()
        try:
            return original(self, *args, **kwargs)
        finally:
            end()

    for function in (begin, end, step):
        skip_frame(function)
    probe.steps.add(step.__code__)  # type: ignore[attr-defined]
    scaler.step = step
