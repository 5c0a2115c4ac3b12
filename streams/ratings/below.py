"""Which speeds of a node lie under what they should be: the node's own best, or the middle of its kind.

Rule of this file: pure. Two intervals that touch tell nothing apart, and neither does less than the bar of that speed:
a disk or a network differs from run to run by more than a processor does. Where a kind falls into two halves, one node
more moves its middle from one to the other: what was reported of a speed stands until it is measured again, or an
eighth of the kind has changed sides.
"""

from statistics import median
from typing import Literal, NamedTuple

from .rated_speeds import Held, KindKey, NodeRatings, SpeedKey

#: Nodes of one kind that it takes to know what is usual.
LEAST_NODES = 3
#: By how much a speed may be less, by how its name begins.
BARS = {"gemm": 0.05, "memory": 0.05, "pcie": 0.10, "disk": 0.25, "all_reduce": 0.25}
_OTHER = 0.10
#: The part of a kind that must be as slow before a speed that was reported, and not measured since, is usual.
_LASTING = 5 / 8


class Usual(NamedTuple):
    """What is usual of a kind: the middle node's speed, and the middle of the lower ends of their intervals.

    ``lasting_low`` is the lower end of one somewhat above the middle: what was reported is measured by it.
    """

    value: float
    low: float
    nodes: int
    lasting_low: float


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
    (Usual(value=9.0, low=9.0, nodes=3, lasting_low=9.0), None)
    """
    if len(group) < LEAST_NODES:
        return None
    values = [median(held.value for held in speeds) for speeds in group.values()]
    lows = sorted(median(held.low for held in speeds) for speeds in group.values())
    middle = median(lows)
    return Usual(median(values), middle, len(group), max(middle, lows[int(_LASTING * len(lows))]))


def stands(key: SpeedKey, held: Held, of_kind: Usual, told: Low | None) -> bool:
    """Whether a speed lies under those of its kind, or does so still since it was reported as ``told``."""
    lasts = told is not None and told.value == held.value
    return is_below(held, key.name, of_kind.lasting_low if lasts else of_kind.low)


def lows(ratings: NodeRatings, usuals: dict[KindKey, Usual | None], told: dict[SpeedKey, Low]) -> tuple[Low, ...]:
    """The speeds of a node that lie too low, the lowest first; against its kind where that is known and says so.

    ``told``: those that were reported to lie under their kind.
    """
    found = [_low(ratings, key, held, usuals, told.get(key)) for key, held in ratings.speeds.items()]
    return tuple(sorted(filter(None, found), key=lambda low: (-low.short_ratio, low.key)))


def _low(
    ratings: NodeRatings, key: SpeedKey, held: Held, usuals: dict[KindKey, Usual | None], told: Low | None
) -> Low | None:
    kind = ratings.kind_key(key)
    of_kind = usuals.get(kind) if kind is not None else None
    if kind is not None and of_kind is not None and is_below(held, key.name, of_kind.low):
        return Low(key, held.value, of_kind.value, "kind", kind.kind, of_kind.nodes, 0.0, held.busy_known)
    if of_kind is not None and told is not None and stands(key, held, of_kind, told):
        return told
    if is_below(held, key.name, held.best_low):
        return Low(key, held.value, held.best, "own", "", 1, held.best_s, held.busy_known)
    return None
