"""What any rule says and what is true, in one form each.

Rule of this file: data only.
"""

from typing import NamedTuple


class Accusation(NamedTuple):
    """A rule says that ``ranks`` hold the job back. ``time_s`` and ``step`` are of the data that it knew by then."""

    ranks: frozenset[int]
    state: str
    kind: str
    cause: str
    first_step: int
    step: int
    time_s: float
    id: str = ""


class Injected(NamedTuple):
    """A fault that is there: on ``ranks`` (none: the whole job), from ``first_step`` and ``began_s`` on.

    ``cost`` is the share of the job's time that was lost to it while it lasted: the simulator knows what the same steps
    of the same job take without it. None where that cannot be known.
    """

    fault: str
    size: float
    ranks: frozenset[int]
    first_step: int
    last_step: int
    began_s: float
    kind: str
    cause: str
    cost: float | None = None


class Case(NamedTuple):
    """One job: what was injected into it, which findings are right besides, and how long it ran."""

    name: str
    part: str
    ranks: int
    hours: float
    step_s: float
    faults: tuple[Injected, ...]
    also: tuple[str, ...]
