"""The columns of one message, filled row by row, with the words that rows share sent once.

Rule of this file: pure; a word's index is the order of its first use. Times are Unix seconds until the message is
closed, then offsets from its ``t0_s``, to a microsecond.
"""

import math
from collections.abc import Sequence
from typing import Any

from paceline.sidecar.rank_rows import CollectiveRow, OpRow

#: A message is full at so many rows or words. At their widest, 4,000 rows and 512 words stay under 900 KB.
MOST_ROWS = 4000
MOST_WORDS = 512
#: Longest name of an op, a group, an operation or a device.
LONGEST_WORD = 64


class Vocabulary:
    """The index of each word, in order of first use."""

    def __init__(self) -> None:
        self.words: list[str] = []
        self._index: dict[str, int] = {}

    def index(self, word: str) -> int:
        """The index of ``word``, which is cut to ``LONGEST_WORD`` letters."""
        word = word[:LONGEST_WORD]
        index = self._index.get(word)
        if index is None:
            index = self._index[word] = len(self.words)
            self.words.append(word)
        return index


class OpColumns:
    """The rows of one OpTimings; it is as long as they are many."""

    def __init__(self) -> None:
        self._ops = Vocabulary()
        self._rows: list[tuple[int, int, int, int, float, float]] = []

    def __len__(self) -> int:
        return len(self._rows)

    def append(self, rank: int, row: OpRow) -> None:
        """One more row, of ``rank``."""
        step, op, microbatch, start_s, duration_s = row
        self._rows.append((rank, step, self._ops.index(op), microbatch, start_s, duration_s))

    def full(self) -> bool:
        """Whether the next row belongs into another message."""
        return len(self._rows) >= MOST_ROWS or len(self._ops.words) >= MOST_WORDS

    def fields(self) -> dict[str, Any]:
        """The event's fields that the rows fill; none without a row."""
        if not self._rows:
            return {}
        names = ("rank", "step", "op", "microbatch", "start_s", "duration_s")
        return _fields(names, self._rows) | {"ops": self._ops.words}


class CollectiveColumns:
    """The rows of one CollectiveTimings; it is as long as they are many."""

    def __init__(self) -> None:
        self._groups = Vocabulary()
        self._operations = Vocabulary()
        self._group_sizes: list[int] = []
        self._rows: list[tuple[int, int, int, int, int, int, float, float, float]] = []

    def __len__(self) -> int:
        return len(self._rows)

    def append(self, rank: int, row: CollectiveRow) -> None:
        """One more row, of ``rank``."""
        step, seq, group, group_size, operation, size, start_s, duration_s, wait_s = row
        index = self._groups.index(group)
        if index == len(self._group_sizes):
            self._group_sizes.append(group_size)
        where = self._operations.index(operation)
        self._rows.append((rank, step, seq, index, where, size, start_s, duration_s, wait_s))

    def full(self) -> bool:
        """Whether the next row belongs into another message."""
        return len(self._rows) >= MOST_ROWS or len(self._groups.words) + len(self._operations.words) >= MOST_WORDS

    def fields(self, now_s: float | None) -> dict[str, Any]:
        """The event's fields that the rows fill; without a row those of time ``now_s``, or none."""
        if not self._rows and now_s is None:
            return {}
        names = ("rank", "step", "seq", "group", "operation", "bytes", "start_s", "duration_s", "wait_s")
        words = {"groups": self._groups.words, "operations": self._operations.words}
        return _fields(names, self._rows, now_s or 0.0) | words | {"group_sizes": self._group_sizes}


def _fields(names: tuple[str, ...], rows: Sequence[tuple[float, ...]], now_s: float = 0.0) -> dict[str, Any]:
    """``rows`` as columns, and ``t0_s``."""
    columns: dict[str, Any] = {name: [] for name in names}
    columns |= zip(names, map(list, zip(*rows, strict=True)), strict=False)
    t0_s = columns["t0_s"] = float(math.floor(min(columns["start_s"], default=now_s)))
    columns["start_s"] = [round(start_s - t0_s, 6) for start_s in columns["start_s"]]
    for name in names[names.index("start_s") + 1 :]:
        columns[name] = [round(seconds, 6) for seconds in columns[name]]
    return columns
