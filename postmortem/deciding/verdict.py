"""What is concluded: one verdict, with its grounds.

Rule of this file: data. ``ranks`` are those accused, and empty where the evidence names nobody.
"""

from typing import Literal

import msgspec

from ..evidence import Source

Kind = Literal[
    "hang",
    "died",
    "collective_mismatch",
    "order_deadlock",
    "network",
    "device_fault",
    "waiting",
    "insufficient_data",
]
Sure = Literal["certain", "likely", "unsure"]


class Verdict(msgspec.Struct, frozen=True, kw_only=True):
    """One. ``line`` is where the accused stood, ``others_line`` where the others waited."""

    kind: Kind
    cause: str
    ranks: tuple[int, ...] = ()
    victims: tuple[int, ...] = ()
    nodes: tuple[str, ...] = ()
    devices: tuple[str, ...] = ()
    group: str | None = None
    seq: int | None = None
    operation: str | None = None
    line: str | None = None
    others_line: str | None = None
    worker_line: str | None = None
    sure: Sure = "likely"
    next: str | None = None
    grounds: tuple[Source, ...] = ()
    chain: tuple[str, ...] = ()
    slow: tuple[int, ...] = ()


def several(ranks: tuple[int, ...] | list[int] | set[int]) -> str:
    """Ranks in words, long lists shortened to ranges.

    >>> several([3]), several([0, 1, 2, 5, 6])
    ('rank 3', 'ranks 0-2, 5 and 6')
    """
    ordered = sorted(ranks)
    if len(ordered) == 1:
        return f"rank {ordered[0]}"
    runs: list[list[int]] = []
    for rank in ordered:
        if runs and rank == runs[-1][-1] + 1:
            runs[-1].append(rank)
        else:
            runs.append([rank])
    words = [
        word for run in runs for word in ([f"{run[0]}-{run[-1]}"] if len(run) > 2 else [str(rank) for rank in run])
    ]
    words = [*words[:12], "…"] if len(words) > 13 else words
    return "ranks " + (f"{', '.join(words[:-1])} and {words[-1]}" if len(words) > 1 else words[0])
