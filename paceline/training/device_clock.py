"""Device time: marks on a GPU are events on its stream, read later, never waited for.

Rule of this file: pure but for the events it is given. The training thread records; the shipping thread asks whether an
event has been reached, never while a graph is being captured, and leaves those that have not for its next round. Device
time becomes host time by two bounds: an event is reached no earlier than it was recorded and no later than it was seen
reached. Elapsed times are taken from event to event, for CUDA tells them as 32-bit floats, which an hour would make
coarse.
"""

from collections import deque
from collections.abc import Callable
from time import perf_counter_ns
from typing import Any

from paceline.training.probe import Mark, Probe

#: Elapsed device time is taken this much short, so that the lower bound, not a drift, decides in the long run.
LEAK = 1 - 2e-5
#: Events on their way; more means that the device hangs, and the oldest are given up.
MOST_HELD = 50_000


class DeviceClock:
    """Stamps marks with events made by ``new_event``, and by the host's clock alone while a graph is being captured."""

    def __init__(
        self,
        probe: Probe,
        new_event: Callable[[], Any],
        capturing: Callable[[], bool],
        now: Callable[[], int] = perf_counter_ns,
    ) -> None:
        self._probe = probe
        self._new_event = new_event
        self._capturing = capturing
        self._now = now
        self._pool: list[Any] = []
        self._held: deque[Mark] = deque()
        self._reached: Any = None
        self._reached_ns = 0

    def mark(self, kind: int, payload: Any = None) -> None:
        """Write down that the device's current stream gets to ``kind``."""
        probe = self._probe
        try:
            if probe.captures.graphs or self._capturing():
                probe.ring.append((self._now(), kind, payload))
                return
            event = self._pool.pop() if self._pool else self._new_event()
            event.record()
        except RuntimeError as error:  # the device is lost: the script will hear of it by itself
            probe.fail(error)
            return
        probe.ring.append((self._now(), kind, payload, event))

    @property
    def waiting(self) -> bool:
        """Whether marks are held back until the device gets to them."""
        return bool(self._held)

    def translate(self, new: list[Mark]) -> list[Mark]:
        """The marks that are due, in order, on the host's clock; ``new`` have just been written down."""
        held, captures = self._held, self._probe.captures
        held.extend(new)
        due: list[Mark] = []
        while held:
            mark = held[0]
            if len(mark) == 4:
                with captures.asking:
                    if captures.graphs or not mark[3].query():
                        break
                    mark = (self._host_time(mark[3], mark[0]), mark[1], mark[2])
            due.append(mark)
            held.popleft()
        while len(held) > MOST_HELD:
            held.popleft()
            self._probe.lost += 1
        return due

    def _host_time(self, event: Any, recorded_ns: int) -> int:
        if self._reached is not None:
            try:
                elapsed_ns = self._reached.elapsed_time(event) * 1e6
            except RuntimeError:  # another device: start again from the bounds
                elapsed_ns = 0.0
            self._reached_ns += int(elapsed_ns * LEAK)
            self._pool.append(self._reached)
        self._reached = event
        self._reached_ns = min(max(self._reached_ns, recorded_ns), max(self._now(), recorded_ns))
        return self._reached_ns
