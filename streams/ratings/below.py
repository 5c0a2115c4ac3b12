"""Which speeds of a node lie under what they should be: the node's own best, or the middle of its kind.

Rule of this file: pure. Two intervals that touch tell nothing apart, and neither does less than the bar of that speed:
a disk or a network differs from run to run by more than a processor does.
"""

from statistics import median
from typing import Literal, NamedTuple

from .rated_speeds import Held, KindKey, NodeRatings, SpeedKey

#: Nodes of one kind that it takes to know what is usual.
LEAST_NODES = 3
#: By how much a speed may be less, by how its name begins.
BARS = {"gemm": 0.05, "memory": 0.05, "pcie": 0.10, "disk": 0.25, "all_reduce": 0.25}
_OTHER = 0.10


class Usual(NamedTuple):
    """What is usual of a kind: the middle node's speed, and the middle of the lower ends of their intervals."""

    value: float
    low: float
    nodes: int


class Low(NamedTuple):
    """A speed that lies under ``usual``, by the whole of both intervals and more than the threshold."""

    key: SpeedKey
    value: float
    usual: float
    against: Literal["own", "kind"]
    #: The kind, and how many nodes of it were measured; of a node's own best, when that was.
    kind: str
    nodes: int
    best_s: float
    busy_known: bool

    @property
    def short_ratio(self) -> float:
        """Which part of what is usual is missing."""
        return 1.0 - self.value / self.usual

    @property
    def told(self) -> tuple[SpeedKey, float, str]:
        """What makes it another one to tell of; what is usual moves with every node that is measured."""
        return self.key, self.value, self.against


def bar_of(name: str) -> float:
    """By how much a speed of that name may be less.

    >>> bar_of("gemm_bfloat16"), bar_of("disk_read"), bar_of("one_of_tomorrow")
    (0.05, 0.25, 0.1)
    """
    return next((bar for begins, bar in BARS.items() if name.startswith(begins)), _OTHER)


def is_below(held: Held, name: str, usual_low: float) -> bool:
    """Whether all of its interval lies under ``usual_low``, less the threshold."""
    return held.high < (1.0 - bar_of(name)) * usual_low


def usual(group: dict[str, list[Held]]) -> Usual | None:
    """What is usual of a kind, by the speeds of each node's devices; None where too few nodes were measured.

    >>> of = lambda value: [Held(value, value, value, 0.0, True, value, value, 0.0)]
    >>> usual({"a": of(9.0), "b": of(10.0), "c": of(4.0)}), usual({"a": of(9.0), "b": of(10.0)})
    (Usual(value=9.0, low=9.0, nodes=3), None)
    """
    if len(group) < LEAST_NODES:
        return None
    values = [median(held.value for held in speeds) for speeds in group.values()]
    lows = [median(held.low for held in speeds) for speeds in group.values()]
    return Usual(median(values), median(lows), len(group))


def lows(ratings: NodeRatings, usuals: dict[KindKey, Usual | None]) -> tuple[Low, ...]:
    """The speeds of a node that lie too low, the lowest first; against its kind where that is known and says so."""
    found = [low for key, held in ratings.speeds.items() if (low := _low(ratings, key, held, usuals)) is not None]
    return tuple(sorted(found, key=lambda low: (-low.short_ratio, low.key)))


def _low(ratings: NodeRatings, key: SpeedKey, held: Held, usuals: dict[KindKey, Usual | None]) -> Low | None:
    kind = ratings.kind_key(key)
    of_kind = usuals.get(kind) if kind is not None else None
    if kind is not None and of_kind is not None and is_below(held, key.name, of_kind.low):
        return Low(key, held.value, of_kind.value, "kind", kind.kind, of_kind.nodes, 0.0, held.busy_known)
    if is_below(held, key.name, held.best_low):
        return Low(key, held.value, held.best, "own", "", 1, held.best_s, held.busy_known)
    return None
