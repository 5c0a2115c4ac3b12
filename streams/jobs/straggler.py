"""The straggler verdict: ticks in, episodes out.

Rule of this file: it joins lateness, cause and tracker for every rank of one cohort. What is told of an episode is
written in straggler_evidence. Where a tick is one of units of ranks (``units``), its ranks are these units.
"""

import math
from collections.abc import Callable, Iterable, Iterator
from typing import Any, Protocol

import numpy as np

from ..episodes.causes import Verdict, judge, standing_out
from ..episodes.lifecycle import Signal
from ..episodes.tracker import Policy, Tracker
from ..robust import Array, known_or_zero, middle, nanmedian
from ..stored import Kept, Stored
from .cohorts import Cohorts
from .lateness import EXPLAINED, LateRanks, calm, late_ranks
from .lateness_bar import JUDGED
from .rank_conditions import ConditionsSeen, RankConditions
from .straggler_config import StragglerConfig
from .straggler_evidence import StragglerEpisode, StragglerEvidence
from .tick_history import COLUMNS, TickHistory
from .ticks import LONG_TICK_S, PARTS, WORK, Tick

#: Weight of the newest tick in the running excess of each part: the last handful of ticks decide the cause.
_NEWEST = 0.25
#: Ticks on end after which another cause replaces the one that was named.
_DOUBT = 5
#: The share of an excess that its running parts must explain to be scaled to it.
_EXPLAINED = 0.25
#: Where among the parts of a tick those stand that say that a job's phases are measured.
_PHASES = [PARTS.index(name) for name in ("forward", "backward", "optimizer")]
#: Peers whose conditions are compared with the late rank's.
MOST_PEERS = 32


class Conditions(Protocol):
    """What explains a rank's lateness by the state of its node and device: see ``RankConditions``."""

    def troubled(self, rank: int) -> bool:
        """Whether the last that was heard of it is any trouble: cheap."""

    def explains(self, rank: int, peers: Iterable[int], back_s: float) -> bool:
        """Whether that alone makes it slower than its peers."""

    def refine(self, verdict: Verdict, rank: int, peers: Iterable[int], back_s: float) -> Verdict:
        """``verdict`` with the cause that it explains better."""

    def seen(self, rank: int, peers: Iterable[int], back_s: float) -> ConditionsSeen | None:
        """The numbers that this rests on."""


class Straggler(Stored):
    """Episodes of the ranks of one cohort.

    Args:
        config: the thresholds.
        cohorts: who is compared with whom.
        conditions: what the ranks' nodes and devices went through.
        members: the late ranks of a unit, where a tick is one of units.
    """

    history: Kept[TickHistory]
    parts: Kept[Array]
    ticks: Kept[int]
    tracker: Kept[Tracker[Any, Any]]
    doubts: Kept[dict[int, int]]

    def __init__(
        self,
        config: StragglerConfig,
        cohorts: Cohorts,
        conditions: Conditions | None = None,
        members: Callable[[int], tuple[int, ...]] | None = None,
    ) -> None:
        self.config = config
        self.cohorts = cohorts
        self.conditions = conditions or RankConditions()
        self.members = members
        self.history = TickHistory()
        self.parts = np.zeros((len(PARTS), 0))
        self.wary = False
        self.ticks = 0
        self.tracker = Tracker(StragglerEpisode, Policy(cooldown=config.cooldown_ticks))
        #: Ticks on end in which another cause was the better one: a cause changes only when that lasts.
        self.doubts = {}
        #: Ranks that are late by a long look, and the ticks of the shortest such look.
        self.late_for: dict[int, int] = {}
        #: The looks at the newest tick, by their ticks: the same for all of its ranks.
        self.looks: dict[int, LateRanks] = {}

    def push(self, tick: Tick) -> None:
        """Take in a tick, to be judged next."""
        self.history.push(tick)
        self.looks.clear()
        self._weigh(tick)
        for rank, open_ in self.tracker.episodes.items():
            open_.add_tick(tick.last_step, tick.lasted_s, middle([tick.excess_of(rank)]))

    def judge(
        self, has_loader: bool, *, wary: bool = False, passed_over: Callable[[int], bool] | None = None
    ) -> list[StragglerEpisode]:
        """The episodes that have something new to tell after a tick.

        ``has_loader``: the job reads its data through a DataLoader. ``wary``: the work is known to be cut unevenly, so
        that a short look is no evidence. ``passed_over``: whether no episode of a rank may begin now.
        """
        self.wary = wary
        told = []
        for rank, signal in self._signals():
            if passed_over is not None and rank not in self.tracker.episodes and passed_over(rank):
                continue
            if episode := self._revise(rank, signal, has_loader):
                told.append(episode)
        self.ticks += 1
        return told

    def end(self, ranks: Iterable[int]) -> list[StragglerEpisode]:
        """End the episodes of ``ranks``: another one speaks for them from now on."""
        ending = [rank for rank in ranks if rank in self.tracker.episodes]
        told = [self.tracker.revise(rank, "calm", self.ticks) for rank in ending]
        for rank in ending:
            self.doubts.pop(rank, None)
        return [episode for episode in told if episode is not None]

    def conclude(self) -> list[StragglerEpisode]:
        """What is new of the episodes that last, now that nothing follows."""
        return self.tracker.conclude(self.ticks)

    def accused(self) -> set[int]:
        """The ranks that are slow, or were a short time ago."""
        return {*self.tracker.open(), *self.tracker.resting(self.ticks)}

    def _weigh(self, tick: Tick) -> None:
        ratios = known_or_zero(tick.parts / tick.base)
        if ratios.shape[1] > self.parts.shape[1]:
            self.parts = np.pad(self.parts, ((0, 0), (0, ratios.shape[1] - self.parts.shape[1])))
        self.parts += _NEWEST * (ratios - self.parts)

    def _signals(self) -> Iterator[tuple[int, Signal]]:
        """Every rank's signal of this tick, in rank order."""
        config = self.config
        self.late_for = {}
        for ticks in (config.confirm_ticks, *config.longer_looks):
            for rank in self._late(ticks):
                self.late_for.setdefault(rank, ticks)
        late = self._late(self.suspect_ticks(), only_explained=self.wary)
        episodes = self.tracker.episodes
        ranks = sorted({*late, *self.late_for, *episodes})
        over = self._calm(
            config.suspect_ticks, [rank for rank in ranks if rank in self.late_for and rank not in episodes]
        )
        lasting = [rank for rank in ranks if rank in self.late_for and rank not in over]
        going = [rank for rank in ranks if rank in episodes and rank not in lasting and rank not in late]
        calm = self._calm(
            config.recover_ticks, [rank for rank in going if episodes[rank].length >= config.recover_ticks]
        )
        for rank in ranks:
            if rank in lasting:
                signal: Signal = "persistent"
            elif rank in late:
                signal = "late"
            elif rank in calm:
                signal = "calm"
            else:
                continue
            if rank in episodes or not self.tracker.rests(rank, signal, self.ticks):
                yield rank, signal

    def _late(self, ticks: int, *, only_explained: bool = False) -> list[int]:
        """The ranks that are late over the newest ``ticks``, if any may be that is not late by a shorter look."""
        if self.late_for.keys() >= self.history.near(ticks, self.config):
            return []
        seen = self._look(ticks)
        late = seen.late & (seen.part == EXPLAINED) if only_explained else seen.late
        ranks: list[int] = late.nonzero()[0].tolist()
        return ranks

    def _calm(self, ticks: int, ranks: list[int]) -> set[int]:
        """Those of ``ranks`` that are back among their peers over the newest ``ticks``."""
        quiet = calm(self.history, ticks, self.config, ranks) if ranks else []
        return {rank for rank, one in zip(ranks, quiet, strict=True) if one}

    def _look(self, ticks: int) -> LateRanks:
        if ticks not in self.looks:
            self.looks[ticks] = late_ranks(self.history, ticks, self.config, self._explained)
        return self.looks[ticks]

    def _explained(self, rank: int) -> bool:
        """Whether the rank's device or node is in trouble that its peers do not have."""
        return self.conditions.troubled(rank) and self.conditions.explains(rank, self._peers(rank), self._lasted(rank))

    def suspect_ticks(self) -> int:
        """Ticks that a suspicion needs: fewer where they are long."""
        few = self.config.suspect_long_ticks
        long = len(self.history.spans) >= few and min(self.history.spans[-few:]) >= LONG_TICK_S
        return few if long else self.config.suspect_ticks

    def _ticks(self, rank: int) -> int:
        """Ticks of the look that the rank's verdict rests on."""
        return self.late_for.get(rank, self.suspect_ticks())

    def _revise(self, rank: int, signal: Signal, has_loader: bool) -> StragglerEpisode | None:
        episode = self.tracker.get(rank) or self._begin(rank)
        recast = signal != "calm" and self._recast(episode, has_loader)
        told = self.tracker.revise(
            rank, signal, self.ticks, news=recast, measure=lambda: self._measure(episode, has_loader)
        )
        if self.tracker.get(rank) is None:
            self.doubts.pop(rank, None)
        return told

    def _begin(self, rank: int) -> StragglerEpisode:
        first = self.history.onset(rank, self._ticks(rank), self.config.onset_ticks)
        ticks = len(self.history.first_steps) - self.history.first_steps.index(first)
        episode = self.tracker.begin(rank, first)
        for back in range(ticks, 0, -1):
            excess = float(known_or_zero(self.history.excess(rank, back)))
            episode.add_tick(self.history.last_steps[-back], self.history.lasted[-back], excess)
        return episode

    def _recast(self, episode: StragglerEpisode, has_loader: bool) -> bool:
        """Judge the cause again; whether the one that was told has changed."""
        rank = episode.subject
        if episode.revision and not self._still(episode):
            return False  # it is getting better: what is left says little of what it was
        cause = self.verdict(rank, has_loader).cause
        if episode.revision == 0 or cause == episode.cause:
            episode.cause = cause
            self.doubts.pop(rank, None)
            return False
        self.doubts[rank] = self.doubts.get(rank, 0) + 1
        if self.doubts[rank] < _DOUBT or cause == "unknown":
            return False
        episode.cause = cause
        self.doubts.pop(rank, None)
        return True

    def _still(self, episode: StragglerEpisode) -> bool:
        """Whether the rank is still at least half as late as was told."""
        excess = self.history.typical_excess(episode.subject, self.config.suspect_long_ticks)
        return excess >= episode.measured.excess_ratio / 2

    def verdict(self, rank: int, has_loader: bool) -> Verdict:
        """What explains the excess of ``rank`` over the last ticks."""
        parts = dict(zip(PARTS, self.parts[:, rank].tolist(), strict=True))
        episode = self.tracker.get(rank)
        named = episode.cause if episode is not None and episode.revision else "unknown"
        verdict = judge(parts, has_loader, self.config.cause_share, named)
        # Where the whole drowns in the noise of uneven work, the part that stands out of it is the cause.
        _, at = self._look(self._ticks(rank)).of(rank, self.config, self._explained)
        if at > 0 and (cause := standing_out(JUDGED[at])):
            verdict = Verdict(cause, max(verdict.share, self.config.cause_share), verdict.cleared)
        return self.conditions.refine(verdict, rank, self._peers(rank), self._lasted(rank))

    def _lasted(self, rank: int) -> float:
        """Seconds since the rank turned slow."""
        episode = self.tracker.get(rank)
        return episode.span_s if episode is not None else 0.0

    def _peers(self, rank: int) -> list[int]:
        """Some ranks of the same cohort; where there are none, of the job."""
        groups = self.cohorts.groups(self.parts.shape[1])
        mine = next(group for group in groups if rank in group)
        ranks = mine if mine.size > 1 else np.arange(self.parts.shape[1])
        return [int(peer) for peer in ranks[: MOST_PEERS + 1] if peer != rank]

    def _measure(self, episode: StragglerEpisode, has_loader: bool) -> StragglerEvidence:
        """The numbers that the verdict rests on: those of the slow time, once the rank is getting better."""
        rank = episode.subject
        if episode.evidence is not None and not self._still(episode):
            return episode.evidence
        ticks = self._ticks(rank)
        medians = {name: self.history.median(name, ticks) for name in COLUMNS}
        own = {name: float(column[rank]) for name, column in medians.items()}
        base_s = _base(medians["peers"], own)
        return StragglerEvidence(
            margin=self._look(ticks).of(rank, self.config, self._explained)[0],
            own_s=own["own"],
            peers_s=own["peers"],
            work_ratio=own["work"],
            starved_ratio=own["starved"],
            waited_ratio=own["waited"],
            base_s=base_s,
            ticks=ticks,
            host_bound_ratio=own["host_bound"],
            peers_host_bound_ratio=float(known_or_zero(nanmedian(medians["host_bound"][self._peers(rank)]))),
            parts_s=self._parts_s(rank, own["own"] - own["peers"], base_s),
            conditions=self.conditions.seen(rank, self._peers(rank), self._lasted(rank)),
            recognised=bool(self.parts[_PHASES].any()),
            members=self.members(rank) if self.members is not None else (),
            cleared=self._cleared(episode, has_loader),
        )

    def _parts_s(self, rank: int, excess_s: float, base_s: float) -> dict[str, float]:
        """What ``excess_s`` consists of, in seconds: the parts that took longer, never more than it together.

        What other parts took less is taken off them in proportion. Overlays lie inside phases, may lie inside each
        other, and are no longer than the excess each.
        The running parts lag behind a rank that has just turned slow, and are of other ticks than the medians. Where
        they explain too little of the excess they are left as they are.
        """
        parts = self.parts[:, rank] * base_s
        whole = float(parts[: len(WORK)].sum())
        if excess_s > 0.0 and whole >= _EXPLAINED * excess_s:
            parts = parts * (excess_s / whole)
        shown = [_within(parts[: len(WORK)], excess_s), np.clip(parts[len(WORK) :], 0.0, max(excess_s, 0.0))]
        return dict(zip(PARTS, np.concatenate(shown).tolist(), strict=True))

    def _cleared(self, episode: StragglerEpisode, has_loader: bool) -> tuple[str, ...]:
        """What is cleared beside the cause that is reported; while that is in doubt, what was cleared with it."""
        verdict = self.verdict(episode.subject, has_loader)
        if verdict.cause != episode.cause and episode.evidence is not None:
            return episode.evidence.cleared
        named = f"{episode.cause.replace('_', ' ')}:"
        return tuple(one for one in verdict.cleared if not one.startswith(named))

    def loaded(self) -> None:
        """Work out again what follows from the state."""
        self.looks.clear()


def _within(parts: Array, whole_s: float) -> Array:
    """Those of ``parts`` that are more than nothing, made less in proportion where they sum to more than ``whole_s``.

    >>> _within(np.array([0.131, -0.049, 0.0]), 0.082).tolist(), _within(np.array([0.01, 0.02]), 0.5).tolist()
    ([0.082, 0.0, 0.0], [0.01, 0.02])
    """
    more = np.maximum(parts, 0.0)
    return more * min(max(whole_s, 0.0) / max(float(more.sum()), 1e-12), 1.0)


def _base(peers: Array, numbers: dict[str, float]) -> float:
    """Seconds of a step without the excess, from the excess in seconds and as a share."""
    excess = numbers["own"] - numbers["peers"]
    ratio = numbers["work"] + numbers["starved"]
    if ratio > 0.0 and math.isfinite(excess) and excess > 0.0:
        return excess / ratio
    return float(known_or_zero(nanmedian(peers)))
