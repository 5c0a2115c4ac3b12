"""Waits of the stream that computes for collectives on streams beside it, by way of ``torch.cuda.Event``.

FSDP, ``fully_shard`` and DeepSpeed issue collectives on streams of their own. What such a stream does delays nobody;
what counts is where the stream that computes waits for it, and all of PyTorch's ways to do so (``Event.wait``,
``Stream.wait_event``, ``Stream.wait_stream``) end in ``Event.wait``. An event recorded on such a stream remembers the
latest collective there; events recorded elsewhere (copies of data, say) are left alone.
"""

import functools
from typing import Any
from weakref import WeakKeyDictionary

from paceline.training.probe import Probe, skip_frame

#: The work behind which an event was recorded.
Behind = WeakKeyDictionary[Any, int]


def install(probe: Probe, torch: Any) -> None:
    """Time the waits of the stream that computes."""
    event = getattr(torch.cuda, "Event", None)
    if event is None or not hasattr(event, "wait"):
        return
    behind: Behind = WeakKeyDictionary()
    event.record = _recording(probe, torch, behind, event.record)
    event.wait = _waiting(probe, torch, behind, event.wait)


def _recording(probe: Probe, torch: Any, behind: Behind, original: Any) -> Any:
    tracing = torch.compiler.is_dynamo_compiling

    @functools.wraps(original)
    def record(self: Any, stream: Any = None) -> Any:
        result = original(self, stream)
        if not probe.sides or tracing():
            return result
        on = stream if stream is not None else torch.cuda.current_stream()
        work = probe.sides.get(getattr(on, "stream_id", -1))
        if work is not None:
            behind[self] = work
        else:
            behind.pop(self, None)
        return result

    skip_frame(record)
    return record


def _waiting(probe: Probe, torch: Any, behind: Behind, original: Any) -> Any:
    tracing = torch.compiler.is_dynamo_compiling

    @functools.wraps(original)
    def wait(self: Any, stream: Any = None) -> Any:
        if not probe.sides or tracing():
            return original(self, stream)
        work = behind.get(self)
        if work is None or probe.waiting or probe.foreign() or not probe.computes_on(stream):
            return original(self, stream)
        return probe.waited(work, original, self, stream)

    skip_frame(wait)
    probe.waits_in(wait)
    return wait
