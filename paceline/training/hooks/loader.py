"""Fetching data, by way of the iterator that every ``DataLoader`` hands out."""

import functools
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
            probe.batch_size = getattr(getattr(self, "_index_sampler", None), "batch_size", None)
        if probe.stepping:
            settle(probe, sys._getframe())
        kind = marks.DATA if training() else marks.EVALUATION
        probe.mark(kind)
        try:
            return original(self)
        finally:
            probe.mark(marks.LEAVE + kind)

    skip_frame(fetch)
    iterator.__next__ = fetch
