"""Waits of the stream that computes for collectives on streams beside it, by way of ``torch.cuda.Event``.

FSDP, ``fully_shard`` and DeepSpeed issue collectives on streams of their own. What such a stream does delays nobody;
what counts is where the stream that computes waits for it, and all of PyTorch's ways to do so (``Event.wait``,
``Stream.wait_event``, ``Stream.wait_stream``) end in ``Event.wait``. An event recorded on such a stream remembers the
latest collective there; events recorded elsewhere (copies of data, say) are left alone.
"""

import functools
from typing import Any

from paceline.training import marks
from paceline.training.probe import Probe, skip_frame

#: The attribute of an event that was recorded behind a collective.
_BEHIND = "_paceline_behind"


def install(probe: Probe, torch: Any) -> None:
    """Time the waits of the stream that computes."""
    event = getattr(torch.cuda, "Event", None)
    if event is None or not hasattr(event, "wait"):
        return
    event.record = _recording(probe, torch, event.record)
    event.wait = _waiting(probe, torch, event.wait)


def _recording(probe: Probe, torch: Any, original: Any) -> Any:
    tracing = torch.compiler.is_dynamo_compiling

    @functools.wraps(original)
    def record(self: Any, stream: Any = None) -> Any:
        result = original(self, stream)
        if not probe.sides or tracing():
            return result
        on = stream if stream is not None else torch.cuda.current_stream()
        behind = probe.sides.get(getattr(on, "stream_id", -1))
        if behind is not None:
            setattr(self, _BEHIND, behind)
        elif hasattr(self, _BEHIND):
            delattr(self, _BEHIND)
        return result

    skip_frame(record)
    return record


def _waiting(probe: Probe, torch: Any, original: Any) -> Any:
    tracing = torch.compiler.is_dynamo_compiling

    @functools.wraps(original)
    def wait(self: Any, stream: Any = None) -> Any:
        if not probe.sides or tracing():
            return original(self, stream)
        behind = getattr(self, _BEHIND, None)
        if behind is None or probe.waiting or probe.foreign() or not probe.computes_on(stream):
            return original(self, stream)
        probe.waiting = True
        probe.mark(marks.COMMUNICATION, behind)
        try:
            return original(self, stream)
        finally:
            probe.mark(marks.LEAVE + marks.COMMUNICATION)
            probe.waiting = False

    skip_frame(wait)
    probe.waits_in(wait)
    return wait
