"""A CUDA device that is none: streams, events, capture modes and forks, by the rules that CUDA documents.

Rule of this file: it knows nothing of Paceline, takes no time of its own and forgives nothing. Device time stands still
until ``advance``. What it obeys, and where that is written:

- Work on a stream runs in order; an event is reached once all before it is done; one never recorded counts as reached,
  and has no elapsed time (CUDA Runtime API, Event Management).
- While a stream is captured, work on it becomes the graph's. Asking after an event (query, elapsed time, synchronise)
  is then unsafe: forbidden to a thread by its own capture mode (``cudaThreadExchangeStreamCaptureMode``), and what is
  forbidden fails **and invalidates the capture**, whose end then fails too (CUDA Programming Guide, CUDA Graphs).
- An event recorded into a graph may not be asked after, and the legacy default stream cannot be captured.
- A child forked after initialisation has no CUDA: each call fails there, and an event that was made in the parent
  aborts the child from its destructor, which is not allowed to throw.

The names are those of ``torch.cuda``; ``install`` puts them in their place.
"""

import os
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from types import SimpleNamespace
from typing import Any

GLOBAL, THREAD_LOCAL, RELAXED = "global", "thread_local", "relaxed"
FORBIDDEN = "CUDA error: operation not permitted when stream is capturing"
INVALIDATED = "CUDA error: operation failed due to a previous error during capture"


class Stream:
    """Work in order; ``done_ms`` is when the device will have done all of it."""

    def __init__(self, cuda: "FakeCuda", *, legacy: bool = False) -> None:
        self.cuda, self.legacy = cuda, legacy
        self.done_ms = 0.0
        self.capture: Capture | None = None

    def launch(self, milliseconds: float) -> None:
        """A kernel that takes this long."""
        self.cuda.call()
        if self.capture is None:
            self.done_ms = max(self.done_ms, self.cuda.now_ms) + milliseconds
        else:
            self.capture.work_ms += milliseconds

    def wait_event(self, event: "Event") -> None:
        """What is launched from now on waits for ``event``."""
        self.cuda.call()
        if self.capture is None and event.at_ms is not None:
            self.done_ms = max(self.done_ms, event.at_ms)


class Capture:
    """A capture under way on ``stream``, begun by ``thread``."""

    def __init__(self, stream: Stream, mode: str) -> None:
        self.stream, self.mode, self.thread = stream, mode, threading.get_ident()
        self.valid, self.work_ms = True, 0.0


class FakeCuda:
    """One device and this process's use of it: what ``torch.cuda`` offers, as far as timing needs it."""

    def __init__(self) -> None:
        self.now_ms = 0.0
        self.default = Stream(self, legacy=True)
        self.captures: list[Capture] = []
        self.events_made = 0
        self.asked = 0
        #: Threads that asked after an event, by name.
        self.askers: set[str] = set()
        self._pid = os.getpid()
        self._initialised = False
        self._thread = threading.local()
        self._lock = threading.RLock()

    def Event(self, *, enable_timing: bool = False) -> "Event":  # noqa: N802 - torch's name
        """An event; CUDA makes it when it is first recorded."""
        return Event(self, timed=enable_timing)

    def CUDAGraph(self) -> "CUDAGraph":  # noqa: N802 - torch's name
        """A graph with nothing in it yet."""
        return CUDAGraph(self)

    def advance(self, milliseconds: float) -> None:
        """Device time passes."""
        self.now_ms += milliseconds

    def call(self) -> None:
        """What every call does first: initialise, or fail in a forked child."""
        if self.in_bad_fork:
            raise RuntimeError("CUDA error: initialization error")
        self._initialised = True

    @property
    def in_bad_fork(self) -> bool:
        """Whether this is a forked child of a process that had initialised CUDA."""
        return self._initialised and os.getpid() != self._pid

    def is_initialized(self) -> bool:
        return self._initialised and not self.in_bad_fork

    def is_available(self) -> bool:
        return True

    def current_device(self) -> int:
        self.call()
        return 0

    def get_device_properties(self, index: int) -> SimpleNamespace:
        self.call()
        return SimpleNamespace(uuid=f"00000000-fake-{index}")

    def current_stream(self) -> Stream:
        return getattr(self._thread, "stream", self.default)

    @contextmanager
    def stream(self, stream: Stream) -> Iterator[None]:
        """``stream`` is this thread's current stream meanwhile."""
        before, self._thread.stream = self.current_stream(), stream
        try:
            yield
        finally:
            self._thread.stream = before

    def is_current_stream_capturing(self) -> bool:
        self.call()
        return self.current_stream().capture is not None

    def thread_exchange_stream_capture_mode(self, mode: str) -> str:
        """``cudaThreadExchangeStreamCaptureMode``: this thread's mode from now on; what it was before."""
        before, self._thread.mode = getattr(self._thread, "mode", GLOBAL), mode
        return before

    def unsafe_call(self) -> None:
        """A call that captures may forbid: it fails and invalidates those that forbid it."""
        self.call()
        with self._lock:
            self.asked += 1
            self.askers.add(threading.current_thread().name)
            mode = getattr(self._thread, "mode", GLOBAL)
            own = [c for c in self.captures if c.thread == threading.get_ident() and c.mode != RELAXED]
            everyone = [c for c in self.captures if c.mode == GLOBAL]
            against = [] if mode == RELAXED else own if mode == THREAD_LOCAL else own + everyone
            for capture in against:
                capture.valid = False
            if against:
                raise RuntimeError(FORBIDDEN)

    def begin_capture(self, mode: str) -> None:
        self.call()
        with self._lock:
            stream = self.current_stream()
            if stream.legacy or stream.capture is not None:
                raise RuntimeError(FORBIDDEN)
            stream.capture = Capture(stream, mode)
            self.captures.append(stream.capture)

    def end_capture(self) -> float:
        """Milliseconds of work captured."""
        self.call()
        with self._lock:
            stream = self.current_stream()
            capture, stream.capture = stream.capture, None
            if capture is None:
                raise RuntimeError("CUDA error: invalid argument")
            self.captures.remove(capture)
            if not capture.valid:
                raise RuntimeError(INVALIDATED)
            return capture.work_ms

    @contextmanager
    def graph(self, graph: "CUDAGraph", capture_error_mode: str = GLOBAL) -> Iterator[None]:
        """``torch.cuda.graph``: what runs inside is captured, on a stream of its own."""
        with self.stream(Stream(self)):
            graph.capture_begin(capture_error_mode=capture_error_mode)
            try:
                yield
            finally:
                graph.capture_end()

    def install(self, torch: Any) -> None:
        """Be ``torch.cuda`` in what is offered here. Graphs get a class of their own, as torch's cannot be made."""
        for name in ("Event", "is_current_stream_capturing", "is_initialized", "current_device"):
            setattr(torch.cuda, name, getattr(self, name))
        torch.cuda.get_device_properties, torch.cuda.CUDAGraph = self.get_device_properties, CUDAGraph


class Event:
    """``torch.cuda.Event``."""

    def __init__(self, cuda: FakeCuda, *, timed: bool) -> None:
        self.cuda, self.timed = cuda, timed
        self.at_ms: float | None = None
        self.made = self.captured = False

    def record(self, stream: Stream | None = None) -> None:
        self.cuda.call()
        if not self.made:
            self.made = True
            self.cuda.events_made += 1
        stream = stream if stream is not None else self.cuda.current_stream()
        self.captured = stream.capture is not None
        self.at_ms = None if self.captured else max(stream.done_ms, self.cuda.now_ms)

    def query(self) -> bool:
        self._ask()
        return self.at_ms is None or self.at_ms <= self.cuda.now_ms

    def elapsed_time(self, end: "Event") -> float:
        self._ask()
        end._ask()
        if self.at_ms is None or end.at_ms is None or not (self.timed and end.timed):
            raise RuntimeError("CUDA error: invalid resource handle")
        if max(self.at_ms, end.at_ms) > self.cuda.now_ms:
            raise RuntimeError("CUDA error: device not ready")
        return end.at_ms - self.at_ms

    def synchronize(self) -> None:
        self._ask()
        if self.at_ms is not None:
            self.cuda.now_ms = max(self.cuda.now_ms, self.at_ms)

    def _ask(self) -> None:
        self.cuda.unsafe_call()
        if self.captured:
            raise RuntimeError("CUDA error: operation not permitted on an event last recorded in a capturing stream")

    def __del__(self) -> None:
        if self.made and self.cuda.in_bad_fork:
            os.write(2, b"terminate called after throwing an instance of 'c10::AcceleratorError'\n")
            os.abort()


class CUDAGraph:
    """``torch.cuda.CUDAGraph``, its end in two halves as from PyTorch 2.15 on."""

    def __init__(self, cuda: FakeCuda) -> None:
        self.cuda, self.work_ms = cuda, 0.0

    def capture_begin(self, pool: Any = None, capture_error_mode: str = GLOBAL) -> None:
        self.cuda.begin_capture(capture_error_mode)

    def capture_end_pre(self) -> None:
        self.work_ms = self.cuda.end_capture()

    def capture_end(self) -> None:
        self.capture_end_pre()

    def replay(self) -> None:
        self.cuda.current_stream().launch(self.work_ms)

    def reset(self) -> None:
        self.work_ms = 0.0
