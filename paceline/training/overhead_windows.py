"""Windows of steps with the probe off and on in turn, so that a run tells what the probe costs it.

Rule of this file: it is on the training thread's hot path. A synchronous job is as fast as its slowest rank, so all
must switch at the same step, and they cannot ask each other: the windows depend on the number of steps that have ended,
never on time. Whoever reads the stamps chooses the windows that lasted long enough; hence short ones come first, for
jobs with long steps, and longer ones later. After the last the probe stays on.
"""

from collections.abc import Callable, Iterator
from time import perf_counter_ns
from typing import TYPE_CHECKING

from paceline.training import marks

if TYPE_CHECKING:
    from paceline.training.switched import Switched


def windows() -> Iterator[tuple[bool, int]]:
    """Whether the probe is on, and for how many steps: pairs of neighbours, either of which is first in turn.

    >>> [on for on, _ in windows()][:6]
    [False, True, True, False, False, True]
    """
    for steps in marks.SIZES:
        for pair in range(marks.PAIRS):
            yield pair % 2 == 1, steps
            yield pair % 2 == 0, steps


class OverheadWindows:
    """Switches ``probe`` by ``windows``; ``switched`` is called after every switch."""

    #: While the probe is off, the thread that sends marks sleeps, too.
    rests = True

    def __init__(self, probe: "Switched", switched: Callable[[], None]) -> None:
        self._probe = probe
        self._switched = switched
        self._windows = windows()
        self._until = marks.WARM_UP

    def tells_end(self, steps: int) -> bool:
        """Whether the end of the step that makes it ``steps`` is written down."""
        return steps > marks.WARM_UP

    def step_ended(self, steps: int, took_ns: int, explicit: bool) -> bool:
        """So many ``steps`` have ended; whether there are more windows."""
        if steps < self._until:
            return True
        on, more = next(self._windows, (True, 0))
        self._until += more
        self._begin(on, steps)
        if not more:
            self.end(steps)
        return bool(more)

    def end(self, steps: int) -> None:
        """The probe is on from now on."""
        if self._probe.off:
            self._begin(True, steps)

    def _begin(self, on: bool, steps: int) -> None:
        probe = self._probe
        was_off = probe.off
        if on:
            probe.go_on()
        else:
            probe.pause()
        probe.ring.append((perf_counter_ns(), marks.WINDOW_ON if on else marks.WINDOW_OFF, steps))
        if on == was_off:
            self._switched()
