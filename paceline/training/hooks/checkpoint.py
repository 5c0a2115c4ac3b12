"""Saving: ``torch.save`` and the savers of ``torch.distributed.checkpoint``."""

import functools
import sys
from typing import Any

from paceline.training import marks
from paceline.training.probe import Probe, skip_frame


def install(probe: Probe, torch: Any) -> None:
    """Time ``torch.save``."""
    _wrap(probe, torch, torch, "save")


def install_distributed(probe: Probe, torch: Any, module: Any) -> None:
    """Time the savers of ``torch.distributed.checkpoint`` (``module``)."""
    for name in ("save", "async_save"):
        if hasattr(module, name):
            _wrap(probe, torch, module, name)


def _wrap(probe: Probe, torch: Any, module: Any, name: str) -> None:
    original = getattr(module, name)
    tracing = torch.compiler.is_dynamo_compiling

    @functools.wraps(original)
    def save(*args: Any, **kwargs: Any) -> Any:
        if tracing() or probe.foreign():
            return original(*args, **kwargs)
        probe.mark(marks.CHECKPOINT)
        try:
            return original(*args, **kwargs)
        finally:
            probe.mark(marks.LEAVE + marks.CHECKPOINT)
            probe.trim()

    skip_frame(save)
    # Pickle takes a function only where it is the one in the module that it names as its own.
    for place in (module, sys.modules.get(original.__module__)):
        if getattr(place, name, None) is original:
            setattr(place, name, save)
