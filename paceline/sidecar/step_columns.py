"""The rows of one message: a row a rank and step, and one a micro-batch where a step has several.

Rule of this file: pure. Times are Unix seconds until the message is closed, then offsets from its ``t0_s``. A row that
cannot travel is refused whole.
"""

import math
from typing import Any

from paceline import columns
from paceline.events import LATEST_S, Microbatches
from paceline.sidecar.columns import LARGEST, MOST_ROWS
from paceline.sidecar.rank_rows import PARTS, StepRow
from paceline.training.marks import MOST_MICROBATCHES


class StepColumns:
    """The steps of one StepTimings; it is as long as they are many."""

    def __init__(self) -> None:
        self._rows: list[tuple[int, int, float, float, tuple[float, ...], int]] = []
        self._microbatches: list[tuple[int, int, int, float, float]] = []

    def __len__(self) -> int:
        return len(self._rows)

    def append(self, rank: int, row: StepRow) -> bool:
        """One more row, of ``rank``; whether it can travel."""
        step, start_s, step_s, seconds, microbatches, left_out = row
        if not (-1 <= step <= LARGEST and 0.0 <= start_s <= LATEST_S and -LATEST_S <= step_s <= LATEST_S):
            return False
        if not _measured(seconds):
            return False
        self._rows.append((rank, step, start_s, step_s, seconds, left_out))
        if microbatches:
            told = [one for one in microbatches[:MOST_MICROBATCHES] if -1 <= one[0] <= LARGEST and _measured(one[1:])]
            self._microbatches += [(rank, step, *one) for one in told]
        return True

    def full(self) -> bool:
        """Whether the next row belongs into another message."""
        return len(self._rows) >= MOST_ROWS or len(self._microbatches) > MOST_ROWS - MOST_MICROBATCHES

    def ranks(self) -> set[int]:
        """Those that have a row."""
        return {row[0] for row in self._rows}

    def first_s(self) -> float | None:
        """When the earliest of these steps began."""
        return min((row[2] for row in self._rows), default=None)

    def fields(self, t0_s: float) -> dict[str, Any]:
        """The event's fields that the rows fill."""
        ranks, steps, starts, lengths, seconds, left_out = zip(*self._rows, strict=True) if self._rows else ((),) * 6
        measured = zip(PARTS, zip(*seconds, strict=True), strict=True) if seconds else ()
        return {
            "rank": columns.whole(ranks),
            "step": columns.whole(steps),
            "start_s": columns.offsets([start_s - t0_s for start_s in starts]),
            "step_s": columns.durations(lengths),
            "phases": {
                name: columns.durations(column) for name, column in measured if column.count(math.nan) < len(column)
            },
            "microbatches": self._split(),
            "left_out": columns.whole(left_out) if any(left_out) else None,
        }

    def _split(self) -> Microbatches | None:
        if not self._microbatches:
            return None
        rank, step, microbatch, forward_s, backward_s = zip(*self._microbatches, strict=True)
        return Microbatches(
            rank=columns.whole(rank),
            step=columns.whole(step),
            microbatch=columns.whole(microbatch),
            forward_s=columns.durations(forward_s),
            backward_s=columns.durations(backward_s),
        )


def _measured(seconds: tuple[float, ...]) -> bool:
    """Whether these can travel: NaN is *not measured*."""
    for second in seconds:  # noqa: SIM110 - runs for every step of every rank, and a generator takes twice as long
        if second > LATEST_S or second < -LATEST_S:
            return False
    return True
