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
- Each thread has a current device, 0 at first; what is asked without a device makes that one's context, some hundreds
  of megabytes on it (CUDA Runtime API, Device Management; Interactions with the Driver API). An event belongs to the
  device of the stream it was recorded on first, and a stream of another device cannot record it (Event Management).

The names are those of ``torch.cuda``; ``install`` puts them in their place.
"""

import itertools
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

    def __init__(self, cuda: "FakeCuda", *, legacy: bool = False, device: int = 0) -> None:
        self.cuda, self.legacy, self.device_index = cuda, legacy, device
        self.stream_id = 0 if legacy else next(cuda.stream_ids)
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
        """What is launched from now on waits for ``event``. As PyTorch's, by way of the event."""
        event.wait(self)

    def wait_stream(self, stream: "Stream") -> None:
        """What is launched from now on waits for all that ``stream`` has to do."""
        self.wait_event(stream.record_event())

    def record_event(self, event: "Event | None" = None) -> "Event":
        """An event behind all that there is to do."""
        event = event if event is not None else self.cuda.Event()
        event.record(self)
        return event


class Capture:
    """A capture under way on ``stream``, begun by ``thread``."""

    def __init__(self, stream: Stream, mode: str) -> None:
        self.stream, self.mode, self.thread = stream, mode, threading.get_ident()
        self.valid, self.work_ms = True, 0.0


class FakeCuda:
    """One device and this process's use of it: what ``torch.cuda`` offers, as far as timing needs it."""

    def __init__(self) -> None:
        self.now_ms = 0.0
        self.stream_ids = itertools.count(1)
        self.default = Stream(self, legacy=True)
        #: The default stream of each device, and the devices that this process has a context on.
        self.defaults = {0: self.default}
        self.contexts: set[int] = set()
        #: The class of its events, so that each device's can be wrapped alone.
        self.events = type("Event", (Event,), {})
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
        return self.events(self, timed=enable_timing)

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

    def on_device(self, index: int) -> None:
        """A call that means the device ``index``, and makes its context."""
        self.call()
        self.contexts.add(index)

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
        return getattr(self._thread, "device", 0)

    def set_device(self, device: Any) -> None:
        index = getattr(device, "index", device)
        self.on_device(index)
        self._thread.device = index

    def get_device_properties(self, device: Any) -> SimpleNamespace:
        self.call()
        return SimpleNamespace(uuid=f"00000000-fake-{getattr(device, 'index', device)}")

    def current_stream(self, device: Any = None) -> Stream:
        index = getattr(device, "index", device)
        index = self.current_device() if index is None else index
        default = self.defaults.setdefault(index, None) or Stream(self, legacy=True, device=index)
        self.defaults[index] = default
        current = getattr(self._thread, "stream", default)
        return current if current.device_index == index else default

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
        self.on_device(self.current_device())
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
        names = ("is_current_stream_capturing", "is_initialized", "current_device", "current_stream", "set_device")
        for name in (*names, "get_device_properties", "stream"):
            setattr(torch.cuda, name, getattr(self, name))
        cuda = self

        class Mine(self.events):  # type: ignore[name-defined,misc]
            def __init__(self, enable_timing: bool = False) -> None:
                super().__init__(cuda, timed=enable_timing)

        self.Event = torch.cuda.Event = Mine  # type: ignore[method-assign,assignment]
        torch.cuda.CUDAGraph = CUDAGraph


class Event:
    """``torch.cuda.Event``."""

    def __init__(self, cuda: FakeCuda, *, timed: bool) -> None:
        self.cuda, self.timed = cuda, timed
        self.at_ms: float | None = None
        self.device_index = -1
        self.made = self.captured = False

    def record(self, stream: Stream | None = None) -> None:
        stream = stream if stream is not None else self.cuda.current_stream()
        self.cuda.on_device(stream.device_index)
        if not self.made:
            self.made, self.device_index = True, stream.device_index
            self.cuda.events_made += 1
        if self.device_index != stream.device_index:
            raise RuntimeError(f"Event device {self.device_index} does not match recording stream's device")
        self.captured = stream.capture is not None
        self.at_ms = None if self.captured else max(stream.done_ms, self.cuda.now_ms)

    def wait(self, stream: Stream | None = None) -> None:
        """What is launched on ``stream`` from now on waits for this."""
        self.cuda.call()
        stream = stream if stream is not None else self.cuda.current_stream()
        if stream.capture is None and self.at_ms is not None:
            stream.done_ms = max(stream.done_ms, self.at_ms)

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
