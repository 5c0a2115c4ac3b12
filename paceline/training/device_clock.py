"""Device time: marks on a GPU are events on its stream, read later, never waited for.

Rule of this file: pure but for the events it is given. The training thread records; the shipping thread asks whether an
event has been reached, never while a graph is being captured, and leaves those that have not for its next round. Device
time becomes host time by two bounds: an event is reached no earlier than it was recorded, or was last found not to be,
and no later than it was seen reached. Elapsed times are taken from event to event, for CUDA tells them as 32-bit
floats, which an hour would make coarse.

What the bounds leave open: between elapsed times the best of them so far counts, so a device that is idle now and then,
or waits for its host, is told to within the time in which a launch arrives. One that never is, is told early by no more
than passed from a question to the next mark that was reached, the least of the last minutes. That holds from the first
question on, a turn or two after the first mark: until then it is early by how far the host was ahead.

A mark is recorded on the current stream of the device trained on, whichever device the thread stands on. The stream on
which forward, backward and optimizer begin is the one that computes; time on another one is nobody's waiting.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable
from time import perf_counter_ns
from typing import Any

from paceline.training import marks
from paceline.training.accelerator import Accelerator
from paceline.training.host_bound import HostBound
from paceline.training.probe import Mark, Probe

#: Elapsed device time is taken this much short, so that the lower bound, not a drift, decides in the long run.
LEAK = 1 - 6e-5
#: Events on their way; more means that the device hangs, and the oldest are given up.
MOST_HELD = 50_000
#: What begins on the stream that computes.
_COMPUTES = frozenset((marks.FORWARD, marks.BACKWARD, marks.OPTIMIZER))


class DeviceClock:
    """Stamps marks with events of ``accelerator``, and by the host's clock alone while a graph is being captured.

    ``arrivals`` says whether an event also tells when a collective is reached. With one hardware queue
    (CUDA_DEVICE_MAX_CONNECTIONS=1) it would stand between communication and computing and put one behind the other.
    """

    def __init__(
        self,
        probe: Probe,
        accelerator: Accelerator,
        *,
        arrivals: bool = True,
        now: Callable[[], int] = perf_counter_ns,
    ) -> None:
        self._probe = probe
        self._accelerator = accelerator
        self._arrivals = arrivals
        self._now = now
        self._adopted = False
        #: The stream that computes, once anything has.
        self._computes: Any = None
        self._pool: list[Any] = []
        self._held: deque[Mark] = deque()
        self._reached: Any = None
        self._reached_ns = 0
        #: When the oldest mark held back was last found unreached; 0 where nobody has asked.
        self._unreached_ns = 0
        self._host_bound = HostBound()

    def mark(self, kind: int, payload: Any = None) -> None:
        """Write down that the device's current stream gets to ``kind``."""
        stamped = self.stamp(kind, payload)
        if stamped is not None:
            self._probe.ring.append(stamped)

    def stamp(self, kind: int, payload: Any = None) -> Mark | None:
        """The mark that ``mark`` would write down; None where the device is lost."""
        probe = self._probe
        try:
            if probe.captures.graphs:
                probe.captures.kinds.add(kind)
                return (self._now(), kind, payload)
            if self._accelerator.capturing():
                return (self._now(), kind, payload)
            stream = self._accelerator.current_stream()
            if kind in _COMPUTES:
                self._computes = stream
            try:
                event = self._pool.pop()
            except IndexError:
                event = self._accelerator.new_event()
            event.record(stream)
        except Exception as error:  # the device is lost: the script will hear of it by itself
            probe.fail(error)
            return None
        return (self._now(), kind, payload, event)

    def arrival(self, payload: Any) -> None:
        """Write down that a collective is issued, and when the stream that issues it gets there."""
        self._mark_beside(marks.ISSUED, payload)

    def ended(self, work: int) -> None:
        """Write down that the collective issued last answers to ``work``, and when the current stream is through it."""
        self._mark_beside(marks.BOUND, work)

    def _mark_beside(self, kind: int, payload: Any) -> None:
        """A mark that stands between communication and computing: of the host's time where no event may."""
        if self._arrivals:
            self.mark(kind, payload)
        else:
            self._probe.ring.append((self._now(), kind, payload))

    def side(self) -> int | None:
        """The calling thread's current stream by its number, where it is another than the one that computes."""
        if self._computes is None or self._probe.captures.graphs:
            return None
        stream = self._accelerator.current_stream()
        return None if stream == self._computes else int(stream.stream_id)

    def computes_on(self, stream: Any) -> bool:
        """Whether ``stream`` (None: the current one) is the calling thread's current one and the one that computes."""
        if self._computes is None or self._probe.captures.graphs:
            return False
        current = self._accelerator.current_stream()
        return bool(current == self._computes and (stream is None or stream == current))

    def adopt_thread(self) -> None:
        """The calling thread will ask after events. Until no graph is being captured it must not."""
        captures = self._probe.captures
        if not self._adopted:
            with captures.asking:
                if not captures.graphs:
                    self._accelerator.adopt_thread()
                    self._adopted = True

    @property
    def waiting(self) -> bool:
        """Whether marks are held back until the device gets to them."""
        return bool(self._held)

    def translate(self, new: list[Mark]) -> list[Mark]:
        """The marks that are due, in order, on the host's clock; ``new`` have just been written down."""
        held = self._held
        held.extend(new)
        due: list[Mark] = []
        while held:
            mark = held[0]
            if len(mark) == 4:
                recorded_ns, kind, payload, event = mark
                reached_ns = self._ask(event, recorded_ns)
                if reached_ns is None:
                    break
                waited_ns = self._host_bound.reached(kind, recorded_ns, reached_ns)
                mark = (reached_ns, kind, payload)
            else:
                waited_ns = self._host_bound.noted(mark[1])
                if mark[1] == marks.ISSUED:  # by a host that may be far ahead: the device has only got to here
                    mark = (max(mark[0], self._reached_ns), *mark[1:])
            if waited_ns is not None:
                due.append((mark[0], marks.HOST_BOUND, waited_ns))
            due.append(mark)
            held.popleft()
            self._unreached_ns = 0
        while len(held) > MOST_HELD:
            held.popleft()
            self._unreached_ns = 0
            self._host_bound.gap()
            self._probe.lost += 1
        return due

    def _ask(self, event: Any, recorded_ns: int) -> int | None:
        """When the oldest event on its way was reached; None where it was not, or nobody may ask."""
        captures = self._probe.captures
        with captures.asking:
            if captures.graphs:
                return None
            asked_ns = self._now()
            if not event.query():
                self._unreached_ns = asked_ns
                return None
            return self._host_time(event, max(recorded_ns, self._unreached_ns))

    def _host_time(self, event: Any, earliest_ns: int) -> int:
        """When ``event``, just seen reached, was: no earlier than ``earliest_ns``, on the host's clock."""
        if self._reached is not None:
            try:
                elapsed_ns = self._reached.elapsed_time(event) * 1e6
            except RuntimeError:  # another device: start again from the bounds
                elapsed_ns = 0.0
            self._reached_ns += int(elapsed_ns * LEAK)
            self._pool.append(self._reached)
        self._reached = event
        self._reached_ns = min(max(self._reached_ns, earliest_ns), max(self._now(), earliest_ns))
        return self._reached_ns
