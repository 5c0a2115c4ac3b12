"""Parts: which samples of an epoch's order are one batch, and which of them one rank's.

Rule of this file: pure. Ranks that know the same shares cut the same batches without a word between them.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple


class Part(NamedTuple):
    """One rank's part of one batch, as positions in the order of the epoch; ``start`` to ``end`` is the whole batch."""

    start: int
    end: int
    first: int
    last: int

    @property
    def counted(self) -> int:
        """Samples of this rank that count in the gradient."""
        return self.last - self.first

    @property
    def filler(self) -> bool:
        """Whether this rank has none of a short batch: it takes one that counts nothing, for it must take part."""
        return self.first == self.last


def part_of(rank: int, shares: Sequence[int], start: int, size: int, *, drop_last: bool) -> Part | None:
    """The part of ``rank`` in the batch from ``start`` on of an epoch of ``size`` samples; None where that is over.

    Ranks follow one another, each with as many samples as its share. A short last batch is shared out in the same
    proportion, by cutting it at the rounded prefix sums, so that its parts add up to it.

    >>> part_of(1, [2, 6], 8, 16, drop_last=True)
    Part(start=8, end=16, first=10, last=16)
    >>> part_of(0, [2, 6], 8, 11, drop_last=True) is None
    True
    >>> part_of(0, [2, 6], 8, 11, drop_last=False), part_of(1, [2, 6], 8, 11, drop_last=False)
    (Part(start=8, end=11, first=8, last=8), Part(start=8, end=11, first=8, last=11))
    """
    total, below = sum(shares), sum(shares[:rank])
    end = start + total
    if end > size:
        if drop_last or start >= size:
            return None
        end = size
    here = end - start
    return Part(start, end, start + here * below // total, start + here * (below + shares[rank]) // total)
