"""Who is slow: a switch, node, tensor group, or single ranks. One trouble is one finding, of the largest unit in it.

Rule of this file: it decides who speaks for whom; what is late is decided by ``Straggler``, which judges ranks and
units alike, and how a unit is compared by ``Units``.

- A **unit** (the nodes under one switch, the ranks of one node, those that share a layer's tensors) is accused where
  most of its ranks are late: it is as late as its middle rank. One of a single rank, a switch of a single node, or one
  that holds more than half of the job's ranks never is: there is nobody to be late behind. So a job on one node never
  accuses the node.
- A tensor group inside a node is smaller than the node, and one that spans nodes is larger.
- While a unit's episode lasts it speaks for all in it: nothing below begins an episode, and one that had begun (the
  first rank of a node is suspected a look before the rest) ends, with the words of whose finding tells of it now.
- Where most ranks of a unit have begun to be late, or are late again while it rests, they wait for its verdict. A rank
  that is twice as late as most of its own node is judged by itself.
- When a unit is back among its peers, what is still late in it is again judged by itself.
"""

from collections.abc import Iterable, Iterator, Sequence
from typing import NamedTuple

import numpy as np

from paceline.accused_units import NODE, SWITCH, TENSOR_GROUP

from ..episodes.causes import Verdict
from ..raw_columns import Ints
from ..stored import Kept, Stored
from .accused import Speaker
from .cohorts import Cohorts
from .rank_conditions import ConditionsSeen, RankConditions
from .straggler import Straggler
from .straggler_config import StragglerConfig
from .straggler_evidence import StragglerEpisode
from .tick_history import TickHistory
from .ticks import Tick
from .units import Units

#: Ranks of a unit whose nodes and devices are looked at.
_SAMPLE = 8
#: A rank this many times as late as most of its unit stands out of it.
_STANDS_OUT = 2.0


class Slow(NamedTuple):
    """An episode with something new to tell: of a rank, or of the unit ``name`` of ``kind``.

    ``within``: the unit that speaks for it from now on.
    """

    episode: StragglerEpisode
    kind: str = ""
    name: str = ""
    within: Speaker | None = None


class UnitConditions:
    """What the nodes and devices of units went through, told by some of their ranks."""

    def __init__(self, units: Units, conditions: RankConditions) -> None:
        self.units = units
        self.conditions = conditions

    def _some(self, unit: int) -> list[int]:
        return [int(rank) for rank in self.units.ranks(unit)[:_SAMPLE]]

    def _typical(self, unit: int, peers: Sequence[int], back_s: float) -> int:
        """A rank of ``unit`` in trouble where most of them are, else one that is not."""
        some = self._some(unit)
        troubled = [rank for rank in some if self.conditions.explains(rank, peers, back_s)]
        well = [rank for rank in some if rank not in troubled]
        return (troubled if len(troubled) > len(well) else well)[0]

    def _peers(self, units: Iterable[int]) -> list[int]:
        return [rank for unit in units for rank in self._some(unit)[:1]]

    def troubled(self, unit: int) -> bool:
        """Whether the last that was heard of most of its ranks is any trouble."""
        some = self._some(unit)
        return 2 * sum(map(self.conditions.troubled, some)) > len(some)

    def explains(self, unit: int, peers: Iterable[int], back_s: float) -> bool:
        """Whether the state of their device or node alone makes most of its ranks slow."""
        others = self._peers(peers)
        return self.conditions.explains(self._typical(unit, others, back_s), others, back_s)

    def refine(self, verdict: Verdict, unit: int, peers: Iterable[int], back_s: float) -> Verdict:
        """``verdict`` with what the state of most of its ranks explains better, and what it cleared."""
        others = self._peers(peers)
        return self.conditions.refine(verdict, self._typical(unit, others, back_s), others, back_s)

    def seen(self, unit: int, peers: Iterable[int], back_s: float) -> ConditionsSeen | None:
        """The numbers that ``refine`` rests on."""
        others = self._peers(peers)
        return self.conditions.seen(self._typical(unit, others, back_s), others, back_s)


class _Level(Stored):
    """The units of one kind, each judged as a rank is."""

    units: Kept[Units]
    straggler: Kept[Straggler]

    def __init__(
        self, kind: str, config: StragglerConfig, conditions: RankConditions | None, ranks: TickHistory
    ) -> None:
        self.kind = kind
        self.units = Units()
        self.ranks = ranks
        seen = UnitConditions(self.units, conditions) if conditions is not None else None
        self.straggler = Straggler(config, Cohorts(), seen, self.late_in)

    def late_in(self, unit: int) -> tuple[int, ...]:
        """The ranks of ``unit`` that are late; all, where they have nobody but each other to be late behind."""
        ticks = self.straggler.suspect_ticks()
        ranks = self.units.ranks(unit)
        excess = np.array([excess_of(self.ranks, int(rank), ticks) for rank in ranks])
        late = ranks[excess >= excess_of(self.straggler.history, unit, ticks) / 2]
        return tuple((late if 2 * late.size > ranks.size else ranks).tolist())

    def barred(self, unit: int, heard: int, nodes: Units) -> bool:
        """Whether ``unit`` may not be accused in a job of which so many ranks were heard."""
        ranks = self.units.ranks(unit)
        return not 1 < ranks.size <= heard / 2 or (self.kind == SWITCH and nodes.hold(ranks) < 2)

    def stirs(self, rank: int, ticks: int) -> bool:
        """Whether most ranks of the unit of ``rank`` have begun to be late as well, and it does not stand out."""
        unit = self.units.unit_of(rank)
        if unit < 0:
            return False
        own = excess_of(self.ranks, rank, ticks)
        alike = sum(excess_of(self.ranks, int(one), ticks) >= own / _STANDS_OUT for one in self.units.ranks(unit))
        return own > 0.0 and 2 * alike > self.units.ranks(unit).size


class Stragglers(Stored):
    """Slow ranks, and the units that they are in."""

    ranks: Kept[Straggler]
    levels: Kept[list[_Level]]

    def __init__(self, config: StragglerConfig, cohorts: Cohorts, conditions: RankConditions | None = None) -> None:
        self.cohorts = cohorts
        self.ranks = Straggler(config, cohorts, conditions)
        #: The largest first. A tensor group is in the one or the other level of them: across nodes, or inside one.
        kinds = (SWITCH, TENSOR_GROUP, NODE, TENSOR_GROUP)
        self.levels = [_Level(kind, config, conditions, self.ranks.history) for kind in kinds]
        self._switches, self._across, self._nodes, self._inside = (level.units for level in self.levels)

    @property
    def ticks(self) -> int:
        """How often the ranks were compared."""
        return self.ranks.ticks

    def place(self, ranks: Sequence[int], node: str, switch: str = "", tensor_groups: Sequence[str] = ()) -> None:
        """Take down in which node and under which switch ``ranks`` are, whose stages are known by now; "" is none.

        ``tensor_groups``: of each of ``ranks``, where any is known.
        """
        self._nodes.place(ranks, node)
        self._switches.place(ranks, switch)
        members: dict[str, list[int]] = {}
        for rank, name in zip(ranks, tensor_groups, strict=bool(tensor_groups)):
            members.setdefault(name, []).append(rank)
        for name, mine in members.items():
            self._place_group(np.asarray(mine, dtype=np.int64), name)

    def _place_group(self, ranks: Ints, name: str) -> None:
        """Take down that ``ranks`` are of the tensor group ``name``; where it turns out to span nodes, so are all."""
        everyone = np.unique(np.concatenate([ranks, self._across.ranks_of(name), self._inside.ranks_of(name)]))
        spans = self._nodes.hold(everyone) > 1
        self._across.place(everyone, name if spans else "")
        self._inside.place(everyone, "" if spans else name)

    def take(self, ticks: Sequence[Tick]) -> None:
        """Take in ticks of equally many ranks, which are to be judged next, one by one: they share what it costs."""
        self.ranks.history.take(ticks)

    def update(self, tick: Tick, has_loader: bool, *, wary: bool = False) -> Iterator[Slow]:
        """Take in a tick; what is new to tell, of the largest units first."""
        self.ranks.push(tick)
        heard = int(np.count_nonzero(~np.isnan(tick.own)))
        nodes = self._nodes
        larger: list[_Level] = []
        for level in self.levels:
            if not level.units.comparable:
                continue
            yield from self._fold(level, larger)

            def passed_over(unit: int, level: _Level = level, larger: Sequence[_Level] = tuple(larger)) -> bool:
                return (
                    level.barred(unit, heard, nodes) or _speaking(larger, int(level.units.ranks(unit)[0])) is not None
                )

            level.straggler.push(level.units.of_tick(tick, self.cohorts))
            for late in level.straggler.judge(has_loader, wary=wary, passed_over=passed_over):
                yield Slow(late, level.kind, level.units.names[late.subject])
            larger.append(level)
        yield from self._fold(None, larger)

        def spoken_for(rank: int) -> bool:
            ticks = self.ranks.suspect_ticks()
            return _speaking(larger, rank) is not None or any(
                level.stirs(rank, ticks) and not level.barred(level.units.unit_of(rank), heard, nodes)
                for level in larger
            )

        for late in self.ranks.judge(has_loader, wary=wary, passed_over=spoken_for if larger else None):
            yield Slow(late)

    def conclude(self) -> Iterator[Slow]:
        """What is new of the episodes that last, now that nothing follows."""
        for number, level in enumerate(self.levels):
            yield from self._fold(level, self.levels[:number])
            for late in level.straggler.conclude():
                yield Slow(late, level.kind, level.units.names[late.subject])
        for late in self.ranks.conclude():
            yield Slow(late)

    def _fold(self, level: _Level | None, larger: Sequence[_Level]) -> Iterator[Slow]:
        """End the episodes of ``level``, of single ranks where it is None, that a larger unit speaks for.

        And those of units that all their ranks have left for another.
        """
        straggler = self.ranks if level is None else level.straggler
        for subject in straggler.tracker.open():
            ranks = [subject] if level is None else level.units.ranks(subject).tolist()
            speaks = _speaking(larger, ranks[0]) if ranks else None
            if ranks and speaks is None:
                continue
            for ended in straggler.end([subject]):
                kind, name = ("", "") if level is None else (level.kind, level.units.names[subject])
                yield Slow(ended, kind, name, within=speaks)

    def speaker_of(self, rank: int) -> Speaker | None:
        """Whose open episode speaks for ``rank``: its own, or that of the largest unit that it is in."""
        own = self.ranks.tracker.get(rank)
        return _speaking(self.levels, rank) if own is None else Speaker("rank", str(rank), int(own.first))

    def accused(self) -> set[int]:
        """The ranks that are slow, or were a short time ago."""
        units = [(level, unit) for level in self.levels for unit in level.straggler.accused()]
        return self.ranks.accused().union(*(level.units.ranks(unit).tolist() for level, unit in units))


def excess_of(history: TickHistory, subject: int, ticks: int) -> float:
    """The median excess of a rank or unit over its last ``ticks`` looks; 0 where nothing is known."""
    if subject >= history.table.shape[2] or not history.first_steps:
        return 0.0
    return history.typical_excess(subject, ticks)


def _speaking(levels: Iterable[_Level], rank: int) -> Speaker | None:
    """The largest unit of ``levels`` whose episode lasts and that ``rank`` is in."""
    for level in levels:
        unit = level.units.unit_of(rank)
        if unit >= 0 and (episode := level.straggler.tracker.get(unit)) is not None:
            return Speaker(level.kind, level.units.names[unit], int(episode.first))
    return None
