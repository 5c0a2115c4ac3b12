"""The verdicts from collectives: lateness in every group where no phases are known, and slow links.

Rule of this file: rows are cleaned and sorted to their groups here; the judging is done by the detectors.
"""

import zlib
from collections.abc import Iterator, Sequence
from typing import Any

import numpy as np

from paceline.accused_units import NODE
from paceline.events import RANK_LIMIT, CollectiveCalls, Finding, StepTimings

from ..episodes.crowd import Crowds
from ..episodes.finding import JobKey, Said, finding
from ..episodes.tracker import Episode
from ..ingest.collective_batch import CollectiveBatch, CollectiveMessage, called_in, collective_batch, reached_in
from ..ingest.ingest import Admitted, Ingest
from ..ingest.step_rows import left_out_of
from ..raw_columns import Ints, whole
from ..stored import Kept, Stored
from . import deaths, hang_findings, slow_links, straggler_evidence, traffic
from .accused import Accused, AccusedRank, AccusedUnit, with_sorts
from .arrivals import ArrivalRows, Arrivals
from .cohorts import Cohorts
from .config import JobConfig
from .deaths import Deaths
from .hang import Hang
from .short_run import ShortRun
from .slow_links import SlowLinks
from .stragglers import Slow, Stragglers
from .traffic import Traffic

#: One odd rank among so many does not say how many steps all leave out.
_NEARLY_ALL = 0.9
#: Groups of one job beyond this are not judged: names come from outside.
_MOST_GROUPS = 4096


class _Group(Stored):
    """The ranks of one group: when they came to its collectives, and who of them is slow."""

    arrivals: Kept[Arrivals]
    stragglers: Kept[Stragglers]

    def __init__(self, arrivals: Arrivals, stragglers: Stragglers) -> None:
        self.arrivals = arrivals
        self.stragglers = stragglers


class Collectives(Stored):
    """What is told of the collectives of one job, to findings."""

    links: Kept[SlowLinks]
    hang: Kept[Hang]
    deaths: Kept[Deaths]
    traffic: Kept[Traffic]
    groups: Kept[dict[str, _Group]]
    left_out: Kept[Ints]
    last_step: Kept[int]
    crowds: Kept[Crowds]

    def __init__(self, ingest: Ingest, config: JobConfig, short: ShortRun) -> None:
        self.ingest = ingest
        self.config = config
        self.short = short
        self.coverage = ingest.collectives_coverage
        self.links = SlowLinks(config.links)
        self.hang = Hang(config.hang)
        self.deaths = Deaths()
        self.traffic = Traffic(config.traffic)
        self.groups = {}
        #: The latest step, and by rank how many it leaves out after one that it tells, -1 for a rank that tells none:
        #: sums and links come in messages of their own.
        self.last_step = -1
        self.left_out = np.empty(0, dtype=np.int64)
        #: Many ranks, links or units with the same trouble, in whatever groups.
        self.crowds = Crowds()

    def look(self, admitted: Admitted) -> list[Finding]:
        """What follows from who waits, has gone on or has ended, by one message; those before it have been judged."""
        message, who, fresh = admitted
        if isinstance(message, StepTimings):
            return self._look(message, who.ranks) + self._ends(message, who.ranks if fresh else ())
        if message.by_nccl:
            self.traffic.update_by_nccl(collective_batch([message], self.coverage))
            return []
        return self._go_on(message)

    def _look(self, message: StepTimings, ranks: Sequence[int]) -> list[Finding]:
        """Who of ``ranks`` waits, where they are, and what follows from that."""
        findings = []
        # Ranks that have left came to no collective: a job that is stopped does not go on.
        left = message.ended
        # Without a time a message does not say who waits; of those with rows it shows that they have gone on.
        if message.collectives and self.hang.keeps_ranks():
            # Else a rank that has gone on, and is looked at no longer, would be missing until its peers speak.
            self.hang.reach_each(reached_in(message.collectives, self.coverage))
        spoken = ranks if left or message.now_s is not None else self._gone_on(message)
        self.hang.look(spoken, message.looks, standing=message.now_s is not None and not left)
        expected = self.coverage.expected
        stopped = None if left else self.hang.update(spoken, message.open, message.now_s, expected)
        if stopped is not None:
            findings.append(self._finding(stopped, hang_findings.said(stopped, self.ingest.nodes), message))
        return findings

    def _go_on(self, message: CollectiveCalls) -> list[Finding]:
        """What follows from collectives that have ended, of a job that has no rows else to show that it goes on."""
        if message.summed or not self.hang.keeps_ranks():
            return []
        reached = list(called_in(message, self.coverage))
        self.hang.reach_each(reached)
        # They may be collectives of before, in a message that was sent later.
        spoken = self.hang.through(rank for rank, *_ in reached)
        self.hang.look(spoken, (), standing=False)
        stopped = self.hang.update(spoken, (), None, self.coverage.expected)
        return (
            [] if stopped is None else [self._finding(stopped, hang_findings.said(stopped, self.ingest.nodes), message)]
        )

    def _gone_on(self, message: StepTimings) -> Sequence[int]:
        """The ranks that ``message`` has rows of, where anything is kept of ranks that stand."""
        if not self.hang.keeps_ranks():
            return ()
        summed = message.collectives
        columns = [summed.reached_rank, summed.span_rank] if summed is not None else []
        return list(dict.fromkeys(whole([message.rank, *columns]).tolist()))

    def _ends(self, message: StepTimings, ranks: Sequence[int]) -> list[Finding]:
        """Which of the ranks ended first; ``ranks`` are those that have just been heard of."""
        if not (message.ends or self.deaths.ends):
            return []
        of_job = {
            "expected": self.coverage.counts().ranks_expected,
            # Before its first step a job has ended at step 0.
            "last_step": max(self.last_step, self.hang.last_step, 0),
        }
        died = None
        if not (message.ends or message.ended):
            died = self.deaths.come_again(ranks, message.t0_s, **of_job)
        hung = self.hang.blockage()
        behind = hang_findings.behind_deaths(hung, self.ingest.nodes) if hung is not None else None
        died = self.deaths.update(message.node, message.ends, now_s=message.now_s, hang=behind, **of_job) or died
        return [] if died is None else [self._finding(died, deaths.said(died, self.ingest.nodes), message)]

    def judge(self, messages: list[CollectiveMessage], batch: CollectiveBatch) -> list[Finding]:
        """Judge what ``messages`` tell of collectives and links, which is ``batch``."""
        batch, newest = self._known(batch, messages), messages[-1]
        self.short.update_collectives(batch)
        findings = [
            self._finding(episode, slow_links.said(episode, self._rank(episode.subject)), newest)
            for episode in self.links.update(batch)
        ]
        if not batch.phases:
            for name, size, rows in _groups(batch):
                findings += self._judge(newest, name, size, rows)
        self.hang.reach(batch)
        # A slow link explains the waiting of all; what the job waits for without it is not to be seen meanwhile.
        bound = self.traffic.update(batch) if not self.links.suspects() else None
        if bound is not None:
            findings.append(self._finding(bound, traffic.said(bound, self.config.traffic), newest))
        return self.crowds.gather(with_sorts(findings))

    def _known(self, batch: CollectiveBatch, messages: list[CollectiveMessage]) -> CollectiveBatch:
        """``batch`` with what those before it told of the job's steps. Whole collectives are of steps that all tell."""
        self.last_step = max(batch.last_step, self.last_step)
        told = [one for one in messages if isinstance(one, StepTimings)]
        if not self.left_out.size and all(one.left_out is None for one in told):
            return batch._replace(last_step=self.last_step)
        left = left_out_of(told)
        if self.left_out.size or np.count_nonzero(left):
            rank = whole([one.rank for one in told])
            sound = (rank >= 0) & (rank < RANK_LIMIT)
            more = int(rank[sound].max(initial=-1)) + 1 - self.left_out.size
            self.left_out = np.pad(self.left_out, (0, max(more, 0)), constant_values=-1)
            self.left_out[rank[sound]] = left[sound]
        told_by = self.left_out[self.left_out >= 0]
        each = 1 + int(np.quantile(told_by, _NEARLY_ALL, method="lower")) if told_by.size else 1
        return batch._replace(each=each, left_out=self.left_out, last_step=self.last_step)

    def _judge(self, message: CollectiveMessage, name: str, size: int, rows: ArrivalRows) -> list[Finding]:
        if name not in self.groups:
            if len(self.groups) >= _MOST_GROUPS:
                self.coverage.note("groups beyond the limit")
                return []
            self.groups[name] = self._group(size)
        arrivals, stragglers = self.groups[name].arrivals, self.groups[name].stragglers
        findings = []
        placed = arrivals.members.size
        ticks = arrivals.update(rows)
        self._place(stragglers, arrivals, range(placed, arrivals.members.size))
        for tick in ticks:
            for slow in stragglers.update(tick, has_loader=False):
                findings.append(self._finding(slow.episode, self._said(slow, arrivals, name), message))
        return findings

    def _place(self, stragglers: Stragglers, arrivals: Arrivals, columns: range) -> None:
        """Tell ``stragglers`` where the ranks of ``columns`` run, and what they are in."""
        alike: dict[tuple[str, str], list[tuple[int, str]]] = {}
        for column in columns:
            rank = arrivals.rank_of(column)
            switch, group = self.ingest.units.get(rank, ("", ""))
            alike.setdefault((self.ingest.nodes.get(rank, ""), switch), []).append((column, group))
        for (node, switch), members in alike.items():
            stragglers.place([column for column, _ in members], node, switch, [group for _, group in members])

    def conclude(self, job: JobKey, *, ended: bool) -> list[Finding]:
        """What is new of those that hold the job back until its end."""
        coverage = self.coverage.counts()
        found = [
            finding(slow.episode, self._said(slow, group.arrivals, name), job, coverage)
            for name, group in self.groups.items()
            for slow in group.stragglers.conclude()
        ]
        died = self.deaths.conclude(coverage.ranks_expected, max(self.last_step, 0))
        stands = self.hang.conclude()
        last = (
            []
            if stands is None
            else [finding(stands, hang_findings.said(stands, self.ingest.nodes, ended=ended), job, coverage)]
        )
        last += [] if died is None else [finding(died, deaths.said(died, self.ingest.nodes), job, coverage)]
        return self.crowds.gather(with_sorts(found), last=True) + last

    def _said(self, slow: Slow, arrivals: Arrivals, group: str) -> Said:
        who = self._accused(slow, arrivals, group)
        return straggler_evidence.said_by_lateness(slow.episode, who, self.config.tick_s, slow.within)

    def _group(self, size: int) -> _Group:
        arrivals = Arrivals(size, self.config.tick_s, self.config.steps.patience_s, self.coverage)
        return _Group(arrivals, Stragglers(self.config.straggler, Cohorts()))

    def _accused(self, slow: Slow, arrivals: Arrivals, group: str) -> Accused:
        if not slow.kind:
            return self._rank(arrivals.rank_of(slow.episode.subject), group)
        ranks = sorted(map(arrivals.rank_of, slow.episode.measured.members))
        nodes = [slow.name] if slow.kind == NODE else sorted({self.ingest.nodes.get(rank, "") for rank in ranks} - {""})
        return AccusedUnit(slow.kind, slow.name, ranks, nodes, group=group)

    def _rank(self, rank: int, group: str | None = None) -> AccusedRank:
        return AccusedRank(rank, self.ingest.nodes.get(rank, ""), group=group)

    def _finding(self, episode: Episode[Any, Any], said: Said, message: CollectiveMessage) -> Finding:
        job = JobKey(message.cluster, message.job, message.attempt)
        return finding(episode, said, job, self.coverage.counts())

    def element(self, kind: type[Stored], data: dict[str, Any]) -> Stored:
        """A group of as many members as it had."""
        return self._group(data["arrivals"]["size"])


def _groups(batch: CollectiveBatch) -> Iterator[tuple[str, int, ArrivalRows]]:
    """The rows of each group of at least two members, in their order."""
    calls = batch.calls
    words = np.array([zlib.crc32(word.encode()) for word in batch.operations] or [0], dtype=np.int64)
    tokens = words[calls.operation] * 1_000_003 ^ calls.bytes
    for index, (name, size) in enumerate(zip(batch.groups, batch.group_sizes, strict=True)):
        mine = calls.group == index
        if size >= 2 and mine.any():
            columns = (*calls[:3], calls.start_s, calls.wait_s, tokens)
            yield name, size, ArrivalRows(*(column[mine] for column in columns))
