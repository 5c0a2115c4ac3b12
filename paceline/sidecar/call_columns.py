"""The rows of one message: a row a rank and collective.

Rule of this file: pure. Times are Unix seconds until the message is closed, then offsets from its ``t0_s``.
"""

import math
from typing import Any

from paceline import columns
from paceline.sidecar.columns import MOST_ROWS, MOST_WORDS, Groups, Vocabulary
from paceline.sidecar.rank_rows import CollectiveRow


class CallColumns:
    """The rows of one CollectiveCalls; it is as long as they are many."""

    def __init__(self) -> None:
        self._groups = Groups()
        self._operations = Vocabulary()
        self._rows: list[tuple[int, int, int, int, int, int, float, float, float]] = []

    def __len__(self) -> int:
        return len(self._rows)

    def append(self, rank: int, row: CollectiveRow) -> None:
        """One more row, of ``rank``."""
        step, seq, group, group_size, operation, size, start_s, duration_s, wait_s = row
        place = self._groups.place(group, group_size)
        where = self._operations.index(operation)
        self._rows.append((rank, step, seq, place, where, size, start_s, duration_s, wait_s))

    def full(self) -> bool:
        """Whether the next row belongs into another message."""
        return len(self._rows) >= MOST_ROWS or len(self._groups.words) + len(self._operations.words) >= MOST_WORDS

    def ranks(self) -> set[int]:
        """Those that have a row."""
        return {row[0] for row in self._rows}

    def fields(self) -> dict[str, Any]:
        """The event's fields that the rows fill; none without a row."""
        if not self._rows:
            return {}
        *whole, starts, durations, waits = zip(*self._rows, strict=True)
        t0_s = float(math.floor(min(starts)))
        names = ("rank", "step", "seq", "group", "operation", "bytes")
        return {name: columns.whole(column) for name, column in zip(names, whole, strict=True)} | {
            "t0_s": t0_s,
            "groups": self._groups.words,
            "group_sizes": columns.whole(self._groups.sizes),
            "operations": self._operations.words,
            "start_s": columns.offsets([start_s - t0_s for start_s in starts]),
            "duration_s": columns.durations(durations),
            "wait_s": columns.durations(waits),
        }
