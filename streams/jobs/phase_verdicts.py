"""The verdict from phases: the steps of a job's ranks to findings.

Rule of this file: it wires what judges steps and ticks and holds no rule of its own. What the ticks of several messages
share is worked out for all of them in one pass (``foresee``) and judged message by message, as each would be alone.
"""

from collections.abc import Iterable, Iterator
from itertools import groupby, islice
from typing import Any

import numpy as np

from paceline.accused_units import NODE
from paceline.events import RANK_LIMIT, Finding, JobDescribed, StepTimings

from ..episodes.crowd import Crowds
from ..episodes.finding import JobKey, Said, finding
from ..episodes.tracker import Episode
from ..ingest.ingest import Admitted, Batch, Ingest
from ..ingest.speakers import RankSpeakers
from ..ingest.steps import Step
from ..raw_columns import array
from ..stored import Kept, Stored
from . import (
    apart,
    configuration,
    data_bound,
    data_imbalance,
    node_silence,
    pace,
    silence,
    stage_imbalance,
    straggler_evidence,
)
from .accused import Accused, AccusedRank, AccusedUnit, with_sorts
from .apart import Apart
from .cohorts import Cohorts
from .config import JobConfig
from .configuration import Configuration
from .intermittent import TOGETHER, Intermittent, SlowNowAndThen
from .node_silence import NodeSilence, NodeSilenceEpisode
from .pace import Pace
from .rank_conditions import RankConditions, condition_rows
from .short_run import ShortRun
from .silence import Silence
from .stragglers import Slow, Stragglers
from .structure import StepSums, Structure
from .ticks import Tick, Ticks

#: Steps times ranks that are worked out in one pass: more share no cost worth their memory.
_MOST_CELLS = 4096

#: A step with what it adds and the tick that it ends; a step of the warm-up adds nothing.
Ahead = tuple[Step, StepSums | None, Tick | None]


class Phases(Stored):
    """The verdict from phases: the steps of the ranks to findings."""

    cohorts: Kept[Cohorts]
    ticks: Kept[Ticks]
    conditions: Kept[RankConditions]
    stragglers: Kept[Stragglers]
    intermittent: Kept[Intermittent]
    structure: Kept[Structure]
    pace: Kept[Pace]
    silence: Kept[Silence]
    apart: Kept[Apart]
    nodes: Kept[NodeSilence]
    configuration: Kept[Configuration]
    has_loader: Kept[bool]
    crowds: Kept[Crowds]

    def __init__(self, ingest: Ingest, config: JobConfig, short: ShortRun) -> None:
        self.ingest = ingest
        self.config = config
        self.short = short
        self.coverage = ingest.coverage
        #: The steps that messages taken in next complete, worked out.
        self._foreseen: Iterator[Ahead] = iter(())
        self.cohorts = Cohorts()
        self.ticks = Ticks(config.tick_s, self.cohorts)
        self.conditions = RankConditions()
        self.stragglers = Stragglers(config.straggler, self.cohorts, self.conditions)
        self.intermittent = Intermittent(config.straggler, self.cohorts, self.conditions)
        self.structure = Structure(config.structure, self.cohorts)
        self.pace = Pace(config.pace)
        self.silence = Silence(config.silent_steps)
        self.apart = Apart(config.straggler.confirm_ticks)
        self.nodes = NodeSilence(config.node_silence)
        self.configuration = Configuration()
        self.has_loader = False
        #: Many ranks, units or nodes with the same trouble.
        self.crowds = Crowds()

    def hear(self, admitted: Admitted) -> list[Finding]:
        """Take in what a message says of its ranks as a whole: it belongs to no step, and waits for none."""
        message, who, fresh = admitted
        if not isinstance(message, StepTimings):
            return []
        if fresh:
            self.cohorts.place(who.ranks, who.pp, _pipelines(who))
            self.stragglers.place(who.ranks, message.node, who.switch, who.tensor_groups())
        self.short.update_breakdowns(message.breakdowns)
        self.ticks.waits_measured = self.ticks.waits_measured or _measures_waits(message)
        self.has_loader = self.has_loader or "data" in message.phases
        told = self._facts(message)
        job = JobKey(message.cluster, message.job, message.attempt)
        return told + self._nodes(self.nodes.update(message, who.ranks if fresh else (), self.config.most_ranks), job)

    def goes_on(self, message: StepTimings) -> bool:
        """Whether what steps come to is worked out with ``message`` as before it."""
        return self.ticks.waits_measured or not _measures_waits(message)

    def foresee(self, steps: Iterable[Step]) -> None:
        """Work out in as few passes as can be what ``steps`` come to, which the next messages complete."""
        self._foreseen = self._ahead([step for step in steps if step.whole])

    def _facts(self, message: StepTimings) -> list[Finding]:
        if message.facts is None:
            return []
        odd = self.configuration.update(message.facts)
        if odd is None:
            return []
        job = JobKey(message.cluster, message.job, message.attempt)
        return [finding(odd, configuration.said(odd, self.ingest.nodes), job, self.coverage.counts())]

    def _nodes(self, episodes: list[NodeSilenceEpisode], job: JobKey) -> list[Finding]:
        if not episodes:
            return []
        silent = [finding(one, node_silence.said(one), job, self.coverage.counts()) for one in episodes]
        return self.crowds.gather(with_sorts(silent))

    def leave(self, described: JobDescribed) -> list[Finding]:
        """A node has said, outside of its steps, that its ranks have left."""
        job = JobKey(described.cluster, described.job, described.attempt)
        ended = described.ended_s is not None
        return self._nodes(self.nodes.leave(described.node, described.ended_s or 0.0), job) if ended else []

    def judge(self, batch: Batch) -> list[Finding]:
        """Judge the steps that a few messages complete."""
        newest = batch.of_steps[-1]
        job = JobKey(newest.cluster, newest.job, newest.attempt)
        findings = []
        self.conditions.update(condition_rows(batch.of_steps), self.coverage.plausible_ranks)
        for step, sums, tick in self._worked_out(batch):
            self.silence.count_step()
            self.coverage.count_step(step.left_out)
            # The probe was off, or messages were lost: the steps around are judged as if they were neighbours.
            self.coverage.note("steps that no rank reported", step.skipped)
            if sums is None:
                continue
            self.conditions.ends_s = step.ends_s
            self.structure.add(sums)
            if tick is not None:
                coverage = self.coverage.counts()
                found = [finding(episode, said, job, coverage) for episode, said in self._judge(tick)]
                findings += self.crowds.gather(with_sorts(found))
        return findings

    def _worked_out(self, batch: Batch) -> Iterator[Ahead]:
        """The whole steps of ``batch``; those that some left out on purpose are sums of other ranks."""
        steps = [step for step in batch.steps if step.whole]
        if batch.rows is None:
            return islice(self._foreseen, len(steps))
        self.short.update_steps(batch.rows, self.coverage.plausible_ranks)
        return self._ahead(steps)

    def _ahead(self, steps: list[Step]) -> Iterator[Ahead]:
        """``steps``, worked out in as few passes as can be, each when its first step is asked for."""
        for warm, more in groupby(steps, lambda step: step.step < self.config.warmup_steps):
            for run in _runs(more):
                if warm:
                    yield from ((step, None, None) for step in run)
                    continue
                ticks = self.ticks.run(run)
                if ended := [tick for tick in ticks if tick is not None]:
                    self.stragglers.take(ended)
                    self.pace.take(ended)
                yield from zip(run, self.structure.sums_of(run), ticks, strict=True)

    def _judge(self, tick: Tick) -> Iterator[tuple[Episode[Any, Any], Said]]:
        """Every line of judgement on one tick. A rank that is accused explains what it does to the job."""
        config = self.config
        wary = self.structure.data.suspects()
        for slow in self.stragglers.update(tick, self.has_loader, wary=wary):
            yield slow.episode, self._said(slow)
        accused = self.stragglers.accused()
        for one in self.intermittent.update(tick, accused, self.has_loader, wary=wary):
            yield one.episode, self._said_of_stalls(one)
        accused |= self.intermittent.accused()
        uneven = self.structure.update(tick, accused, self.has_loader)
        if uneven is not None:
            for long in uneven.stages:
                yield long, stage_imbalance.said(long, config.structure.stages)
            if uneven.data is not None:
                yield uneven.data, data_imbalance.said(uneven.data, config.structure.data)
            if uneven.input is not None:
                yield uneven.input, data_bound.said(uneven.input, config.structure.input)
        slower = self.pace.update(tick, accused, staged=self.cohorts.staged)
        if slower is not None:
            yield slower, pace.said(slower, config.pace, accused)
        missing = self.silence.update(tick, self.coverage.counts())
        if missing is not None:
            yield missing, silence.said(self.coverage.counts())
        alone = self.apart.update(tick)
        if alone is not None:
            yield alone, apart.said(self.coverage.counts().ranks_heard)

    def conclude(self, job: JobKey) -> list[Finding]:
        """What is new of those that hold the job back until its end."""
        coverage = self.coverage.counts()
        lasting = self.stragglers.conclude()
        found = [finding(slow.episode, self._said(slow), job, coverage) for slow in lasting]
        stalls = self.intermittent.conclude()
        found += [finding(one.episode, self._said_of_stalls(one), job, coverage) for one in stalls]
        return self.crowds.gather(with_sorts(found), last=True)

    def _said(self, slow: Slow) -> Said:
        config = self.config
        return straggler_evidence.said(slow.episode, self._accused(slow), config.straggler, config.tick_s, slow.within)

    def _said_of_stalls(self, one: SlowNowAndThen) -> Said:
        config, episode = self.config, one.episode
        # Slow by little in most steps: it does not stall.
        usual = self.stragglers.ranks.history.share_over(episode.subject, episode.measured.excess_ratio / 2)
        return straggler_evidence.said_of_stalls(
            episode,
            self._accused(Slow(episode)),
            config.straggler,
            TOGETHER * config.tick_s,
            replaced=one.replaced,
            by=self.stragglers.speaker_of(episode.subject) if one.replaced else None,
            steady=usual >= 0.5,
        )

    def _accused(self, slow: Slow) -> Accused:
        """Whom an episode is about, and where it runs."""
        if not slow.kind:
            rank = slow.episode.subject
            return AccusedRank(rank, *self._place(rank), self.cohorts.stage_of(rank))
        ranks = slow.episode.measured.members
        where = [self._place(rank) for rank in ranks]
        nodes = [slow.name] if slow.kind == NODE else sorted({node for node, _ in where if node})
        stages = {self.cohorts.stage_of(rank) for rank in ranks}
        stage = stages.pop() if len(stages) == 1 else None
        return AccusedUnit(slow.kind, slow.name, ranks, nodes, [device for _, device in where if device], stage)

    def _place(self, rank: int) -> tuple[str, str]:
        """The node and the device of a rank."""
        return self.ingest.nodes.get(rank, ""), self.ingest.devices.get(rank, "")


def _runs(steps: Iterable[Step]) -> Iterator[list[Step]]:
    """Steps of equally many ranks that follow each other, as many as are worth one pass."""
    for ranks, alike in groupby(steps, lambda step: step.seconds.shape[1]):
        while run := list(islice(alike, max(1, _MOST_CELLS // ranks))):
            yield run


def _measures_waits(message: StepTimings) -> bool:
    """Whether it is measured how long ranks wait for others: who waits for none has no such phase, and NaN is not
    measured."""
    waits = message.phases.get("communication")
    return bool(message.rank.data) and (waits is None or not np.isnan(array(waits)).all())


def _pipelines(who: RankSpeakers) -> list[int]:
    """A number for the pipeline of each rank: its place in the other dimensions; -1 where that is not known, or none.

    Tensor-parallel ranks that do not tell their place count as one: they are fed the same micro-batches, too.
    """
    tensor = [max(tp, 0) for tp in who.tp] or [0 for _ in who.ranks]
    data = who.dp or [-1 for _ in who.ranks]
    # A message knows its own ranks alone: the number may not depend on how far the others' places go.
    return [
        dp * RANK_LIMIT + tp if 0 <= dp < RANK_LIMIT and tp < RANK_LIMIT else -1
        for dp, tp in zip(data, tensor, strict=True)
    ]
