"""How many times the bytes that a rank puts in an operation move over the busiest link.

Rule of this file: data. It is nccl-tests' bus bandwidth (doc/PERFORMANCE.md there), whose size of an all_gather is what
all ranks put in: n times as much.
"""

from collections.abc import Callable
from typing import Any

#: By how an operation's name begins: the factor for n ranks, a number or an array of them.
TURNS: dict[str, Callable[[Any], Any]] = {
    "all_reduce": lambda n: 2 * (n - 1) / n,
    "all_gather": lambda n: n - 1,
    "reduce_scatter": lambda n: (n - 1) / n,
    "all_to_all": lambda n: (n - 1) / n,
    "broadcast": lambda n: n / n,
    "reduce": lambda n: n / n,
}


def turns_of(operation: str) -> Callable[[Any], Any] | None:
    """The factor of ``operation`` for n ranks; None where it has none.

    >>> turns_of("all_reduce_coalesced")(4), turns_of("barrier")
    (1.5, None)
    """
    return next((TURNS[name] for name in TURNS if operation.startswith(name)), None)


def bus_bytes_per_s(operation: str, moved: int, took_s: float, ranks: int) -> float | None:
    """The bus bandwidth of ``ranks`` that each put in ``moved`` bytes in ``took_s`` seconds; None without a meaning.

    >>> bus_bytes_per_s("all_reduce", 4_000, 2.0, 4), bus_bytes_per_s("barrier", 0, 1.0, 4)
    (3000.0, None)
    """
    turns = turns_of(operation)
    if turns is None or ranks <= 1 or took_s <= 0 or moved <= 0:
        return None
    return moved / took_s * float(turns(ranks))
