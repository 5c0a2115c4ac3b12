"""Which run of a job an event of a recording belongs to, where the ranks of one run do not agree on its attempt.

Rule of this file: pure and bounded. Each agent of torchrun counts its own restarts, so the nodes of one run may name
different attempts, and runs that reuse a name all name the first. A run is what its ranks can share: one size of the
world, each rank once, and where nodes name different attempts, at about the same time. A node moves to a later run when
its processes start again or when the size of its world changes, and never back; when, is by its own clock. Nodes that
agree keep the attempt that they name, however far their clocks are apart.
"""

from collections import OrderedDict
from dataclasses import dataclass, field
from statistics import mode
from typing import Any, NamedTuple

import msgspec

from paceline import columns
from paceline.events import CollectiveCalls, Event, JobDescribed, StepTimings
from paceline.events.silence import RUN_SILENT_S

#: Jobs, and runs of each, that are known at a time: the oldest are forgotten first.
MOST_JOBS, MOST_RUNS = 1000, 100


class _Node(NamedTuple):
    """A node by what it says of itself; after a restart on it, its agent counts on, or not."""

    name: str
    attempt: int


@dataclass
class _Run:
    """One run: the attempt it goes by, the size of its world, and who has which of its ranks."""

    attempt: int
    world_size: int
    ranks: dict[_Node, frozenset[int]] = field(default_factory=dict)
    last_s: float = 0.0

    def fits(self, node: _Node, ranks: frozenset[int], world_size: int, time_s: float) -> bool:
        """Whether ``ranks`` of ``node`` can be of this run."""
        others = (held for name, held in self.ranks.items() if name != node)
        return (
            world_size == self.world_size
            and (node.attempt == self.attempt or abs(time_s - self.last_s) <= RUN_SILENT_S)
            and all(ranks.isdisjoint(held) for held in others)
        )


@dataclass
class _Said:
    """What a node has said of its processes last, and when by its own clock."""

    run: int
    last_s: float = 0.0
    pids: dict[int, int] = field(default_factory=dict)
    started_s: float = 0.0
    ended: bool = False

    def restarted(self, event: JobDescribed) -> bool:
        """Whether other processes have taken the place of those that the node spoke of."""
        pids = {place.rank: place.pid for place in event.places}
        again = self.pids.keys() & pids.keys()
        if not again or event.started_s <= self.started_s:
            return False
        over = self.ended or event.started_s > self.last_s + RUN_SILENT_S
        return over or all(pids[rank] != self.pids[rank] for rank in again)

    def describe(self, event: JobDescribed) -> None:
        """Take what the node says of its processes."""
        self.pids |= {place.rank: place.pid for place in event.places}
        self.started_s, self.ended = max(event.started_s, self.started_s), event.ended_s is not None


class _Job:
    """The runs of one name in the order in which they came."""

    def __init__(self) -> None:
        self.runs: list[_Run] = []
        self.first = 0
        self.nodes: dict[_Node, _Said] = {}
        #: How far the clock of each node by its name is ahead of the others', by its first message.
        self.ahead_s: dict[str, float] = {}

    def attempt(self, event: Any, ranks: frozenset[int], world_size: int, time_s: float) -> int:
        """The attempt of the run that ``event`` belongs to."""
        node = _Node(event.node, event.attempt)
        own_s, time_s = time_s, time_s - self.ahead_s.get(node.name, 0.0)
        said = self.nodes.get(node)
        if said is not None and not self._moves(said, event, world_size, own_s):
            run = self._heard(node, world_size) or self.runs[said.run - self.first]
            if not ranks.difference(run.ranks[node]) or run.fits(node, ranks, world_size, time_s):
                said.last_s = max(said.last_s, own_s)
                return self._join(said, node, run, event, ranks, time_s)
        after = self.first if said is None else said.run + 1
        number = self._newest(node, ranks, world_size, time_s, after)
        said, run = _Said(number, own_s), self.runs[number - self.first]
        self.nodes[node] = said
        if node.name not in self.ahead_s:
            apart_s = time_s - run.last_s
            self.ahead_s[node.name] = apart_s if abs(apart_s) > RUN_SILENT_S else 0.0
            time_s -= self.ahead_s[node.name]
        return self._join(said, node, run, event, ranks, time_s)

    def _moves(self, said: _Said, event: Any, world_size: int, own_s: float) -> bool:
        run = self.runs[said.run - self.first]
        if isinstance(event, JobDescribed):
            resized = event.started_s > said.started_s and world_size != run.world_size
            return resized or said.restarted(event)
        return world_size != run.world_size and own_s >= said.last_s

    def _heard(self, node: _Node, world_size: int) -> _Run | None:
        """The newest run with ``node`` in a world of that size: late rows are of the run that they were measured in."""
        mine = (run for run in reversed(self.runs) if node in run.ranks and run.world_size == world_size)
        return next(mine, None)

    def _newest(self, node: _Node, ranks: frozenset[int], world_size: int, time_s: float, after: int) -> int:
        """The number of the newest run that fits, from number ``after`` on; another where none does."""
        for number in range(self.first + len(self.runs) - 1, after - 1, -1):
            if self.runs[number - self.first].fits(node, ranks, world_size, time_s):
                return number
        used = {run.attempt for run in self.runs}
        self.runs.append(_Run(node.attempt if node.attempt not in used else max(used) + 1, world_size, last_s=time_s))
        if len(self.runs) > MOST_RUNS:
            del self.runs[0]
            self.first += 1
            self.nodes = {name: said for name, said in self.nodes.items() if said.run >= self.first}
            names = {node.name for node in self.nodes}
            self.ahead_s = {name: ahead_s for name, ahead_s in self.ahead_s.items() if name in names}
        return self.first + len(self.runs) - 1

    def _join(self, said: _Said, node: _Node, run: _Run, event: Any, ranks: frozenset[int], time_s: float) -> int:
        run.ranks[node] = run.ranks.get(node, frozenset()) | ranks
        run.last_s = max(run.last_s, time_s)
        if isinstance(event, JobDescribed):
            said.describe(event)
        return run.attempt


class Attempts:
    """Gives each event of a recording the attempt of its run."""

    def __init__(self) -> None:
        self._jobs: OrderedDict[tuple[str, str], _Job] = OrderedDict()

    def unify(self, event: Event) -> Event:
        """``event``, with the attempt that all ranks of its run share."""
        speakers = _speakers(event)
        if speakers is None:
            return event
        ranks, world_size, time_s = speakers
        key = (event.cluster, event.job)  # type: ignore[attr-defined]
        job = self._jobs.pop(key, None) or _Job()
        self._jobs[key] = job
        if len(self._jobs) > MOST_JOBS:
            self._jobs.popitem(last=False)
        attempt = job.attempt(event, ranks, world_size, time_s)
        return event if attempt == event.attempt else msgspec.structs.replace(event, attempt=attempt)  # type: ignore[attr-defined]


def _speakers(event: Event) -> tuple[frozenset[int], int, float] | None:
    """The ranks that ``event`` speaks for, their world's size and when; None where it speaks for none."""
    match event:
        case JobDescribed():
            ranks, sizes = [place.rank for place in event.places], [event.world_size]
            time_s = event.started_s if event.ended_s is None else event.ended_s
        case StepTimings() | CollectiveCalls():
            ranks = [int(rank) for rank in columns.numbers(event.speakers.ranks)]
            sizes, time_s = [int(size) for size in columns.numbers(event.speakers.world_sizes)], event.t0_s
        case _:
            return None
    return (frozenset(ranks), mode(sizes), time_s) if ranks and sizes else None
