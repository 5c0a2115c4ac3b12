"""One GPU's samples of one look, added up.

Rule of this file: sums only, so that any batching gives the same look.
"""

import msgspec

from paceline.gpu.throttle import REASONS

from .gpu_rows import Row


class Tally(msgspec.Struct):
    """What one GPU measured in one look."""

    rows: int = 0
    sums: dict[str, float] = {}
    counts: dict[str, int] = {}
    most: dict[str, float] = {}
    last: dict[str, float] = {}
    slowdowns: dict[int, int] = {}
    slowed: int = 0

    def add(self, row: Row) -> None:
        """Count a row in."""
        self.rows += 1
        for name, value in row.values.items():
            self.sums[name] = self.sums.get(name, 0.0) + value
            self.counts[name] = self.counts.get(name, 0) + 1
            self.most[name] = max(value, self.most.get(name, value))
            self.last[name] = value
        mask = int(row.values.get("throttle_reasons", 0))
        hit = [reason.bit for reason in REASONS if reason.fault and mask & reason.bit]
        self.slowed += bool(hit)
        for bit in hit:
            self.slowdowns[bit] = self.slowdowns.get(bit, 0) + 1

    def mean(self, name: str) -> float | None:
        """The mean of what was measured."""
        count = self.counts.get(name, 0)
        return self.sums[name] / count if count else None
