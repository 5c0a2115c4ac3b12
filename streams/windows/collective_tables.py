"""What the collectives of a job's steps amount to, by operation and size.

Rule of this file: pure and bounded. Nodes tell the same collective each for its own ranks: it counts once, with the
shortest wait and time of any of them, for who comes last waits for nobody. Their sums of a step come with the rows of
the step after it, so that once every rank has told a step, all collectives of those before it are known.
"""

from collections.abc import Sequence
from typing import NamedTuple

from paceline.events import CollectiveLine

from ..ingest.collective_batch import CollectiveBatch
from ..stored import Kept, Stored

#: Collectives (steps x groups x operations x sizes) that are held at most; the oldest go first.
MOST_HELD = 200_000
#: Lines of a window at most: those of the most bytes.
MOST_LINES = 64


class _Told(NamedTuple):
    """Collectives of one step, group, operation and size: how many, their bytes, shortest waits and times, summed."""

    calls: int
    bytes: int
    wait_s: float
    took_s: float


#: Operation, power of two of the bytes (-1 for none), calls, bytes, seconds waited, seconds taken.
Line = tuple[str, int, int, int, float, float]


class CollectiveTables(Stored):
    """The collectives of steps that no window has told yet."""

    steps: Kept[dict[int, dict[tuple[str, str, int], _Told]]]
    told: Kept[int]

    def __init__(self) -> None:
        self.steps = {}
        self.held = 0
        #: The latest step whose collectives were told.
        self.told = -1

    def update(self, batch: CollectiveBatch) -> None:
        """Take in what a few messages sum."""
        sums, groups, operations = batch.sums, batch.groups, batch.operations
        columns = (sums.step, sums.group, sums.operation, sums.calls, sums.bytes, sums.wait_s, sums.duration_s)
        for step, group, operation, calls, moved, wait_s, took_s in zip(*(c.tolist() for c in columns), strict=True):
            if step <= self.told:
                continue
            of_step = self.steps.setdefault(step, {})
            key = (groups[group], operations[operation], (moved // calls).bit_length() - 1)
            before = of_step.get(key)
            if before is None:
                self.held += 1
                of_step[key] = _Told(calls, moved, wait_s, took_s)
            else:
                of_step[key] = _Told(*map(max, before[:2], (calls, moved)), *map(min, before[2:], (wait_s, took_s)))
        while self.held > MOST_HELD:
            self.held -= len(self.steps.pop(min(self.steps)))

    def take(self, last_step: int) -> list[Line]:
        """The lines of the collectives up to ``last_step`` that were not told yet."""
        lines: dict[tuple[str, int], Line] = {}
        for step in sorted(step for step in self.steps if step <= last_step):
            of_step = self.steps.pop(step)
            self.held -= len(of_step)
            for (_, operation, power), one in of_step.items():
                _add(lines, (operation, power, *one))
        self.told = max(self.told, last_step)
        return list(lines.values())

    def loaded(self) -> None:
        """Work out again what follows from the state."""
        self.held = sum(map(len, self.steps.values()))


def merged(left: Sequence[Line], right: Sequence[Line]) -> list[Line]:
    """The lines of both, those of one operation and size as one."""
    lines: dict[tuple[str, int], Line] = {}
    for line in (*left, *right):
        _add(lines, line)
    return list(lines.values())


def _add(lines: dict[tuple[str, int], Line], line: Line) -> None:
    operation, power, calls, moved, wait_s, took_s = line
    _, _, calls_before, moved_before, wait_before_s, took_before_s = lines.get(
        (operation, power), (operation, power, 0, 0, 0.0, 0.0)
    )
    lines[operation, power] = (
        operation,
        power,
        calls_before + calls,
        moved_before + moved,
        wait_before_s + wait_s,
        took_before_s + took_s,
    )


def told(lines: Sequence[Line]) -> list[CollectiveLine]:
    """The lines as a window has them: the most bytes first."""
    order = sorted(lines, key=lambda line: (-line[3], line[0], line[1]))[:MOST_LINES]
    return [
        CollectiveLine(
            operation=operation,
            least_bytes=0 if power < 0 else 1 << power,
            calls=calls,
            bytes=min(moved, 2**63 - 1),
            wait_s=round(wait_s, 6),
            duration_s=round(took_s, 6),
        )
        for operation, power, calls, moved, wait_s, took_s in order
    ]
