"""Captures and replays of CUDA graphs, by way of the classes that every one of PyTorch's own ways goes through.

A graph with a whole backward pass in it is a training step, or most of one: nothing in it is heard when it is replayed.
It counts as a backward pass as a whole, and ends the step where an optimizer is in it. Graphs of a part (a compiled
function's, ``make_graphed_callables``) are replayed inside a pass that is heard, and count as part of that.
"""

import functools
from typing import Any

from paceline.training import marks
from paceline.training.probe import Probe, skip_frame

#: What ends a capture; PyTorch 2.15 has its end in two halves, of which the first ends it. ``reset`` gives one up.
ENDS = ("capture_end_pre", "capture_end", "reset")


def install(probe: Probe, torch: Any) -> None:
    """Note where captures begin and end, of ``torch.cuda.CUDAGraph`` and ``torch.accelerator.Graph`` if it exists."""
    for graph in (getattr(torch.cuda, "CUDAGraph", None), getattr(getattr(torch, "accelerator", None), "Graph", None)):
        if graph is None or not hasattr(graph, "capture_begin"):
            continue
        graph.capture_begin = _beginning(probe, graph.capture_begin)
        if hasattr(graph, "replay"):
            graph.replay = _replaying(probe, graph.replay)
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


def _replaying(probe: Probe, original: Any) -> Any:
    @functools.wraps(original)
    def replay(self: Any) -> Any:
        held = probe.captures.held
        kinds = held.get(self) if held else None
        if not kinds or marks.BACKWARD not in kinds:
            return original(self)
        if not probe.on_thread() or probe.in_backward or probe.in_forward is not None:
            return original(self)
        probe.worked = True
        _mark(probe, marks.BACKWARD)
        try:
            return original(self)
        finally:
            _mark(probe, marks.LEAVE + marks.BACKWARD)
            probe.trim()
            if marks.OPTIMIZER in kinds:
                _mark(probe, marks.OPTIMIZER)
                _mark(probe, marks.LEAVE + marks.OPTIMIZER)
                probe.optimizer_stepped()  # which counts steps while the probe is off, too

    skip_frame(replay)
    skip_frame(_mark)
    return replay


def _mark(probe: Probe, kind: int) -> None:
    if not probe.off:
        probe.mark(kind)
