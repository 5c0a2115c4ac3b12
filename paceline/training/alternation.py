"""Alternation: the probe on and off in windows of steps, so that a run tells what the probe costs it.

Rule of this file: it is on the training thread's hot path, as ``probe`` is. A synchronous job is as fast as its slowest
rank, so all must switch at the same step, and they cannot ask each other: the windows depend on the number of steps
that have ended, never on time. Whoever reads the stamps chooses the windows that lasted long enough; hence short ones
come first, for jobs with long steps, and longer ones later. After the last the probe stays on.

A step ends where its optimizer has finished, once a backward has begun since the last; where ``step()`` is called, that
alone ends it. Off means that the hooks return at once and that nothing is sent. They stay where they are.
"""

from collections.abc import Callable, Iterator
from time import perf_counter_ns
from typing import TYPE_CHECKING, Any, Protocol

from paceline.training import marks

if TYPE_CHECKING:
    from collections import deque

    from paceline.training.messages import Issued

#: The first steps allocate, compile and connect.
WARM_UP = 20
#: Steps of a window, and how many pairs of windows there are of each size.
SIZES = (10, 40, 160, 640)
PAIRS = 20
#: A job whose steps have not ended for so long, and for so many times the longest so far, stands still.
STILL_NS = 10_000_000_000
STILL_TIMES = 5


def windows() -> Iterator[tuple[bool, int]]:
    """Whether the probe is on, and for how many steps: pairs of neighbours, either of which is first in turn.

    >>> [on for on, _ in windows()][:6]
    [False, True, True, False, False, True]
    """
    for steps in SIZES:
        for pair in range(PAIRS):
            yield pair % 2 == 1, steps
            yield pair % 2 == 0, steps


class Switched(Protocol):
    """The probe, as far as it is switched from here: ``off`` and ``worked`` are read and set on the hot path."""

    off: bool
    worked: bool
    ring: "deque[tuple[Any, ...]]"
    alternation: "Alternation | None"

    def pause(self) -> None:
        """Write nothing down until ``go_on``."""

    def go_on(self) -> None:
        """Write down again what happens."""


class Alternation:
    """Counts the steps of this rank and switches ``probe``; ``switched`` is called after every switch.

    ``standing`` tells which collective the training thread is in, while no hook does.
    """

    def __init__(self, probe: Switched, switched: Callable[[], None], standing: "Callable[[], Issued | None]") -> None:
        self._probe = probe
        self._switched = switched
        self._standing = standing
        self._windows = windows()
        self._steps = 0
        self._until = WARM_UP
        self._explicit = False
        self._ended_ns = self._longest_ns = 0
        #: The step in which it has been told that the job stands still.
        self._told = -1

    def optimizer_stepped(self) -> None:
        """An outermost optimizer has finished: the first to do so since a backward ends the step."""
        probe = self._probe
        if probe.worked and not self._explicit:
            probe.worked = False
            self._step_ended()

    def step_called(self) -> None:
        """The script says that a step has ended. From now on nothing else does."""
        self._explicit = True
        self._step_ended()

    def optimizer_compiled(self) -> None:
        """The optimizer will not be heard of: nothing would ever end a window that is off."""
        if self._probe.off:
            self._end()

    def look(self) -> None:
        """On the thread that sends marks, while the probe is off: does the job stand still, and where?

        A hang would go unheard else, for no hook tells who waits for whom.
        """
        steps, due = self._steps, self._ended_ns + self._longest_ns
        still_ns = perf_counter_ns() - self._ended_ns
        if self._told == steps or still_ns < max(STILL_NS, STILL_TIMES * self._longest_ns):
            return
        issued = self._standing()
        if issued is not None and self._steps == steps and self._probe.off:
            self._told = steps
            self._probe.ring.append((due, marks.STANDING, issued))

    def _step_ended(self) -> None:
        self._steps += 1
        now = perf_counter_ns()
        if self._steps > WARM_UP:
            self._probe.ring.append((now, marks.STEPPED, None))
            self._longest_ns = max(self._longest_ns, now - self._ended_ns)
        self._ended_ns = now
        if self._steps == self._until:
            on, steps = next(self._windows, (True, 0))
            self._until += steps
            self._begin(on)
            if not steps:
                self._end()

    def _begin(self, on: bool) -> None:
        probe = self._probe
        was_off = probe.off
        if on:
            probe.go_on()
        else:
            probe.pause()
        probe.ring.append((perf_counter_ns(), marks.WINDOW_ON if on else marks.WINDOW_OFF, self._steps))
        if on == was_off:
            self._switched()

    def _end(self) -> None:
        if self._probe.off:
            self._begin(True)
        self._probe.alternation = None
