"""Captures of CUDA graphs, by way of the classes that every one of PyTorch's own ways to capture goes through."""

import functools
from typing import Any

from paceline.training.probe import Probe, skip_frame

#: What ends a capture; PyTorch 2.15 has its end in two halves, of which the first ends it. ``reset`` gives one up.
ENDS = ("capture_end_pre", "capture_end", "reset")


def install(probe: Probe, torch: Any) -> None:
    """Note where captures begin and end, of ``torch.cuda.CUDAGraph`` and ``torch.accelerator.Graph`` if it exists."""
    for graph in (getattr(torch.cuda, "CUDAGraph", None), getattr(getattr(torch, "accelerator", None), "Graph", None)):
        if graph is None or not hasattr(graph, "capture_begin"):
            continue
        graph.capture_begin = _beginning(probe, graph.capture_begin)
        for name in ENDS:
            if hasattr(graph, name):
                setattr(graph, name, _ending(probe, getattr(graph, name)))


def _beginning(probe: Probe, original: Any) -> Any:
    @functools.wraps(original)
    def capture_begin(self: Any, *args: Any, **kwargs: Any) -> Any:
        news = probe.captures.begins(self)
        try:
            return original(self, *args, **kwargs)
        except BaseException:
            if news:
                probe.captures.ended(self)
            raise

    skip_frame(capture_begin)
    return capture_begin


def _ending(probe: Probe, original: Any) -> Any:
    @functools.wraps(original)
    def ending(self: Any, *args: Any, **kwargs: Any) -> Any:
        try:
            return original(self, *args, **kwargs)
        finally:
            probe.captures.ended(self)

    skip_frame(ending)
    return ending
