"""Fetching data, by way of the iterator that every ``DataLoader`` hands out."""

import functools
import operator
import sys
import threading
from typing import Any

from paceline.training import marks
from paceline.training.hooks.optimizer import settle
from paceline.training.probe import Probe, skip_frame


def install(probe: Probe, torch: Any) -> None:
    """Time the fetches of the training thread; those without gradients belong to an evaluation."""
    iterator = torch.utils.data.dataloader._BaseDataLoaderIter
    original = iterator.__next__
    tracing, ident = torch.compiler.is_dynamo_compiling, threading.get_ident
    training = torch.is_grad_enabled

    @functools.wraps(original)
    def fetch(self: Any) -> Any:
        if tracing() or probe.off or ident() != probe.thread:
            return original(self)
        if probe.batch_size is None:
            probe.batch_size = _batch_size(self)
        if probe.stepping:
            settle(probe, sys._getframe())
        kind = marks.DATA if training() else marks.EVALUATION
        probe.mark(kind)
        try:
            return original(self)
        finally:
            probe.mark(marks.LEAVE + kind)
            probe.trim()

    for function in (fetch, _batch_size):
        skip_frame(function)
    iterator.__next__ = fetch


def _batch_size(fetching: Any) -> "int | None":
    """What the sampler, which may be the script's own, calls its batch size, where that can be one."""
    try:
        found = fetching._index_sampler.batch_size
        size = 0 if isinstance(found, bool) else operator.index(found)
    except Exception:
        return None
    return size if 0 < size < 2**53 else None
