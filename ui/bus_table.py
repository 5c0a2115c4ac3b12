"""A job's collectives by operation and size, and who comes last into them.

Rule of this file: pure. Of each collective the shortest time of any rank counts, for who comes last waits for nobody:
that is the transfer itself. Windows do not tell how many ranks a group has, so bus bandwidth is for all of the job's.
"""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

import numpy as np

from paceline.bus_turns import bus_bytes_per_s
from paceline.events import CollectiveLine, JobWindow

from .ratios import quiet_median
from .step_ring import Floats


@dataclass(frozen=True)
class BusLine:
    """One operation on messages of ``least_bytes`` and up to twice that. Times are sums in seconds.

    ``bus_bytes_per_s`` is as nccl-tests count it, were all ranks of the job in it; None where that has no meaning.
    """

    operation: str
    least_bytes: int
    calls: int
    bytes: int
    wait_s: float
    duration_s: float
    bus_bytes_per_s: float | None

    @property
    def bytes_per_s(self) -> float | None:
        """Bytes that a rank put in over the time that it took; None where none was measured."""
        return self.bytes / self.duration_s if self.duration_s > 0 and self.bytes > 0 else None


def chosen_windows(traffic: dict[float, tuple[JobWindow, ...]], stretch: tuple[float, float]) -> tuple[JobWindow, ...]:
    """Windows of one length within ``stretch``: the length that covers most of it, of equal ones the shortest."""
    best: tuple[JobWindow, ...] = ()
    for length_s in sorted(traffic):
        held = tuple(w for w in traffic[length_s] if w.start_s + length_s > stretch[0] and w.start_s < stretch[1])
        if len(held) * length_s > sum(window.length_s for window in best) * 1.5:
            best = held
    return best


def bus_lines(windows: Iterable[JobWindow], ranks: int) -> list[BusLine]:
    """The collectives of ``windows`` together, the most bytes first; ``ranks`` is how many the job has."""
    sums: dict[tuple[str, int], list[CollectiveLine]] = {}
    for window in windows:
        for line in window.collectives:
            sums.setdefault((line.operation, line.least_bytes), []).append(line)
    made = [_line(operation, least_bytes, held, ranks) for (operation, least_bytes), held in sums.items()]
    return sorted(made, key=lambda line: (-line.bytes, line.operation, line.least_bytes))


def _line(operation: str, least_bytes: int, held: Sequence[CollectiveLine], ranks: int) -> BusLine:
    moved, took_s = sum(line.bytes for line in held), sum(line.duration_s for line in held)
    return BusLine(
        operation=operation,
        least_bytes=least_bytes,
        calls=sum(line.calls for line in held),
        bytes=moved,
        wait_s=sum(line.wait_s for line in held),
        duration_s=took_s,
        bus_bytes_per_s=bus_bytes_per_s(operation, moved, took_s, ranks),
    )


def lateness(waiting_s: Floats) -> Floats:
    """How late each rank came into its steps' collectives, the median over steps, in seconds: ranks.

    ``waiting_s`` is ranks x steps. Who waits the shortest came last; in a step that fewer than half told, nobody did.

    >>> lateness(np.array([[3.0, 3.0], [1.0, 1.0], [3.0, 2.0]], np.float32)).tolist()
    [0.0, 2.0, 0.5]
    """
    if waiting_s.size == 0:
        return np.full(waiting_s.shape[0], np.nan, np.float32)
    longest = np.fmax.reduce(waiting_s, axis=0)
    told = np.isfinite(waiting_s).sum(axis=0) * 2 > waiting_s.shape[0]
    return quiet_median(np.where(told, longest - waiting_s, np.float32(np.nan)).astype(np.float32), axis=1)
