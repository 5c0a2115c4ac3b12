"""The bound on the ranks of one job: what a message says of ranks beyond it is left out, whatever the message says.

Rule of this file: pure. Ranks are numbered from 0 without gaps, so a bound on the number bounds the ranks. Every table
of a job is as long as it has ranks: without a bound one job takes the memory of all.
"""

from typing import Any, TypeVar

import msgspec

from paceline.events import CollectiveTimings, OpTimings

Timings = TypeVar("Timings", OpTimings, CollectiveTimings)

#: The columns with an entry a rank, those with an entry a row, and the lists of what has a rank of its own.
_OF_RANKS = ("ranks", "world_sizes", "devices", "dp", "tp", "pp")
_OF_ROWS = {
    OpTimings: ("rank", "step", "op", "microbatch", "start_s", "duration_s"),
    CollectiveTimings: (
        "rank",
        "step",
        "seq",
        "group",
        "operation",
        "bytes",
        "start_s",
        "duration_s",
        "wait_s",
    ),
}
_OF_ONE = ("conditions", "links", "open")


def within(message: Timings, most: int) -> tuple[Timings, int]:
    """``message`` about ranks below ``most`` alone, and how many ranks it tells of are beyond that.

    A row of a rank that the message does not speak for is no rank: the tables refuse it, and say so.
    No rank believes the world to be larger than ``most``: nobody waits for ranks that are left out.
    """
    single = [one.rank for name in _OF_ONE for one in getattr(message, name, ())]
    highest = max(*message.ranks, *single, -1, -1)
    if highest < most and max(message.world_sizes, default=0) <= most:
        return message, 0
    changed: dict[str, list[Any]] = {}
    changed |= _kept(message, _OF_RANKS, [rank < most for rank in message.ranks])
    changed |= _kept(message, _OF_ROWS[type(message)], [rank < most for rank in message.rank])
    for name in _OF_ONE:
        if hasattr(message, name):
            changed[name] = [one for one in getattr(message, name) if one.rank < most]
    changed["world_sizes"] = [min(size, most) for size in changed["world_sizes"]]
    return msgspec.structs.replace(message, **changed), max(0, highest + 1 - most)


def _kept(message: Any, columns: tuple[str, ...], kept: list[bool]) -> dict[str, list[Any]]:
    """The entries of ``columns`` that are ``kept``; a column that was left out stays empty."""
    there = {name: column for name in columns if (column := getattr(message, name, None))}
    return {name: [one for one, keep in zip(column, kept, strict=True) if keep] for name, column in there.items()} | {
        name: [] for name in columns if hasattr(message, name) and name not in there
    }
