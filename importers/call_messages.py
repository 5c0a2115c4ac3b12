"""Collectives of a rank, one by one, to messages of ``paceline.collective.v2``.

Rule of this file: what the messages are of is the caller's; here rows become columns, and words short enough.
"""

from collections.abc import Sequence
from hashlib import blake2b
from typing import Any, NamedTuple

from paceline.columns import durations, offsets, whole
from paceline.events import CollectiveCalls

from .op_rows import speakers

#: Characters that a word of a message may have, and of a longer one those that are kept.
_MOST_WORD, _KEPT = 256, 200


class CallRow(NamedTuple):
    """One collective of one rank; ``step`` is -1 where unknown, ``start_s`` Unix time."""

    start_s: float
    rank: int
    step: int
    group: str
    size: int
    seq: int
    operation: str
    bytes: int
    duration_s: float
    wait_s: float


def call_message(
    rows: Sequence[CallRow], world: int, about: dict[str, Any], *, phases: bool = False
) -> CollectiveCalls:
    """A message of ``rows``, of a rank in a world of so many.

    Args:
        rows: at least one, by time.
        world: ranks of the job.
        about: what every message of its producer says.
        phases: whether the same producer sends the phases of these steps, which carry the verdict.
    """
    sizes = {row.group: row.size for row in rows}
    groups = {name: number for number, name in enumerate(sizes)}
    operations = {name: number for number, name in enumerate(sorted({row.operation for row in rows}))}
    t0_s = round(rows[0].start_s, 3)
    return CollectiveCalls(
        **about,
        t0_s=t0_s,
        phases=phases,
        speakers=speakers((row.rank for row in rows), world),
        groups=[_word(name) for name in groups],
        group_sizes=whole(list(sizes.values())),
        operations=[_word(name) for name in operations],
        rank=whole([row.rank for row in rows]),
        step=whole([row.step for row in rows]),
        seq=whole([row.seq for row in rows]),
        group=whole([groups[row.group] for row in rows]),
        operation=whole([operations[row.operation] for row in rows]),
        bytes=whole([row.bytes for row in rows]),
        start_s=offsets([row.start_s - t0_s for row in rows]),
        duration_s=durations([row.duration_s for row in rows]),
        wait_s=durations([row.wait_s for row in rows]),
    )


def _word(text: str) -> str:
    """``text``, or what a message can hold of it, with a number that tells it from others with the same beginning.

    >>> len(_word("g" * 300)), _word("g" * 300) == _word("g" * 301), _word("world")
    (217, False, 'world')
    """
    if len(text) <= _MOST_WORD:
        return text
    return f"{text[:_KEPT]}…{blake2b(text.encode(errors='replace'), digest_size=8).hexdigest()}"
