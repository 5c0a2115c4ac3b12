"""The verdict from phases: the steps of a job's ranks to findings.

Rule of this file: it wires what judges steps and ticks and holds no rule of its own. What the ticks of several messages
share is worked out for all of them in one pass (``take_in``) and judged message by message, as each would be alone.
"""

from collections import deque
from collections.abc import Callable, Iterable, Iterator, Sequence
from itertools import groupby, islice
from typing import Any, NamedTuple

import numpy as np

from paceline.accused_units import NODE
from paceline.events import RANK_LIMIT, Finding, JobDescribed, StepTimings

from ..coverage import CoverageTracker
from ..episodes.crowd import Crowds
from ..episodes.finding import JobKey, Said, finding
from ..episodes.tracker import Episode
from ..gather import Gather, enough
from ..raw_columns import array
from ..shared_rows import SharedRows
from ..speakers import RankSpeakers, SpeakersHeard
from ..step_rows import step_rows
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
from .node_silence import NodeSilence, NodeSilenceEpisode
from .pace import Pace
from .rank_conditions import RankConditions, condition_rows
from .short_run import ShortRun
from .silence import Silence
from .steps import Step, Steps
from .stragglers import Slow, Stragglers
from .structure import StepSums, Structure
from .ticks import Tick, Ticks

#: Steps times ranks that are worked out in one pass: more share no cost worth their memory.
_MOST_CELLS = 4096

#: A step with what it adds and the tick that it ends; a step of the warm-up adds nothing.
Ahead = tuple[Step, StepSums | None, Tick | None]


class _Foreseen(NamedTuple):
    """A message to be taken in next: how many steps it ends, and what is odd about its rows."""

    message: StepTimings
    steps: int
    odd: dict[str, int]


class Phases:
    """The verdict from phases: the steps of the ranks to findings."""

    def __init__(self, config: JobConfig, short: ShortRun) -> None:
        self.config = config
        self.short = short
        self.coverage = CoverageTracker()
        self.speakers = SpeakersHeard()
        self.gather: Gather[StepTimings] = Gather()
        self.rows = SharedRows()
        self.steps = Steps(config.steps, self.coverage)
        #: The messages that are taken in next, and the steps that they end.
        self._foreseen: deque[_Foreseen] = deque()
        self._ahead_of_them: Iterator[Ahead] = iter(())
        self.cohorts = Cohorts()
        self.ticks = Ticks(config.tick_s, self.cohorts)
        self.conditions = RankConditions()
        self.stragglers = Stragglers(config.straggler, self.cohorts, self.conditions)
        self.structure = Structure(config.structure, self.cohorts)
        self.pace = Pace(config.pace)
        self.silence = Silence(config.silent_steps)
        self.apart = Apart(config.straggler.confirm_ticks)
        self.nodes = NodeSilence(config.node_silence)
        self.configuration = Configuration()
        self.has_loader = False
        #: The node and the device of each rank.
        self.places: dict[int, tuple[str, str]] = {}
        #: Many ranks, units or nodes with the same trouble.
        self.crowds = Crowds()

    def update(self, message: StepTimings) -> list[Finding]:
        """Take in one message."""
        if not self.coverage.admit(message.producer, message.sequence):
            return []
        message, who, fresh, beyond = self.speakers.hear(message, self.config.most_ranks)
        self.coverage.leave_out(beyond, self.config.most_ranks)
        if fresh:
            self.coverage.hear(who.ranks, who.world_sizes)
            self.cohorts.place(who.ranks, who.pp, _pipelines(who))
            self.places |= {rank: (message.node, device) for rank, device in zip(who.ranks, who.devices, strict=True)}
            self.stragglers.place(who.ranks, message.node, who.switch, who.tensor_groups())
        self.short.update_breakdowns(message.breakdowns)
        self.ticks.waits_measured = self.ticks.waits_measured or _measures_waits(message)
        self.has_loader = self.has_loader or "data" in message.phases
        told = self._facts(message)
        job = JobKey(message.cluster, message.job, message.attempt)
        told += self._nodes(self.nodes.update(message, who.ranks if fresh else (), self.config.most_ranks), job)
        ready = self.gather.push(message, enough(self.coverage.producers, backlog=self.rows.at_once > 0))
        return told + self._advance(ready) if ready else told

    def goes_on(self, message: StepTimings, before: int) -> bool:
        """Whether ``message``, once so many ``before`` it are taken in, is its producer's next, whose ranks go on as
        they are: then what its steps come to depends on nothing else that is in it or in those before it."""
        return (
            self.coverage.last.get(message.producer) == message.sequence - before - 1
            and not message.ended
            and (self.ticks.waits_measured or not _measures_waits(message))
            and self.speakers.knows(message, self.config.most_ranks)
        )

    def take_in(self, messages: Sequence[StepTimings], update: Callable[[StepTimings], list[Finding]]) -> list[Finding]:
        """``update`` with one after the other of ``messages``, each of which goes on: what their steps come to is
        worked out in one pass before, and all are judged when it returns."""
        found = self.finish()
        self._foresee(messages)
        found += [one for message in messages for one in update(message)]
        return found + self.finish()

    def _foresee(self, messages: Sequence[StepTimings]) -> None:
        steps = []
        self._foreseen.clear()
        for message in messages:
            ended = self.steps.update(step_rows([message]))
            self._foreseen.append(_Foreseen(message, len(ended), self.steps.take_notes()))
            steps += ended
        self._ahead_of_them = self._ahead(steps)

    def _facts(self, message: StepTimings) -> list[Finding]:
        """What ranks say of themselves as a whole belongs to no step, and waits for none."""
        if message.facts is None:
            return []
        odd = self.configuration.update(message.facts)
        if odd is None:
            return []
        job = JobKey(message.cluster, message.job, message.attempt)
        return [finding(odd, configuration.said(odd, self.places), job, self.coverage.counts())]

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

    def finish(self) -> list[Finding]:
        """What the messages that still wait bring to light."""
        return self._advance(ready) if (ready := self.gather.drain()) else []

    def _advance(self, messages: list[StepTimings]) -> list[Finding]:
        job = JobKey(messages[-1].cluster, messages[-1].job, messages[-1].attempt)
        findings = []
        self.conditions.update(condition_rows(messages), self.coverage.plausible_ranks)
        for step, sums, tick in self._ended(messages):
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

    def _ended(self, messages: list[StepTimings]) -> Iterator[Ahead]:
        """The steps that ``messages`` end."""
        if self._foreseen and self._foreseen[0].message is messages[0]:
            ended = 0
            for _ in messages:
                foreseen = self._foreseen.popleft()
                self.coverage.note_all(foreseen.odd)
                ended += foreseen.steps
            return islice(self._ahead_of_them, ended)
        rows = self.rows.of(messages)
        self.short.update_steps(rows, self.coverage.plausible_ranks)
        steps = self.steps.update(rows)
        self.coverage.note_all(self.steps.take_notes())
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
        return self.crowds.gather(with_sorts(found), last=True)

    def _said(self, slow: Slow) -> Said:
        config = self.config
        return straggler_evidence.said(slow.episode, self._accused(slow), config.straggler, config.tick_s, slow.within)

    def _accused(self, slow: Slow) -> Accused:
        """Whom an episode is about, and where it runs."""
        if not slow.kind:
            rank = slow.episode.subject
            return AccusedRank(rank, *self.places.get(rank, ("", "")), self.cohorts.stage_of(rank))
        ranks = slow.episode.measured.members
        where = [self.places.get(rank, ("", "")) for rank in ranks]
        nodes = [slow.name] if slow.kind == NODE else sorted({node for node, _ in where if node})
        stages = {self.cohorts.stage_of(rank) for rank in ranks}
        stage = stages.pop() if len(stages) == 1 else None
        return AccusedUnit(slow.kind, slow.name, ranks, nodes, [device for _, device in where if device], stage)

    def snapshot(self) -> dict[str, Any]:
        """The state as plain data and arrays."""
        return {
            "coverage": self.coverage.snapshot(),
            "gather": self.gather.snapshot(),
            "steps": self.steps.snapshot(),
            "cohorts": self.cohorts.snapshot(),
            "ticks": self.ticks.snapshot(),
            "conditions": self.conditions.snapshot(),
            "stragglers": self.stragglers.snapshot(),
            "structure": self.structure.snapshot(),
            "pace": self.pace.snapshot(),
            "silence": self.silence.snapshot(),
            "apart": self.apart.snapshot(),
            "nodes": self.nodes.snapshot(),
            "configuration": self.configuration.snapshot(),
            "has_loader": self.has_loader,
            "places": dict(self.places),
            "crowds": self.crowds.snapshot(),
        }

    def load(self, data: dict[str, Any]) -> None:
        """Take the state that ``snapshot`` described."""
        self.coverage.load(data["coverage"])
        self.gather.load(data["gather"])
        self.steps.load(data["steps"])
        self.cohorts.load(data["cohorts"])
        self.ticks.load(data["ticks"])
        self.conditions.load(data["conditions"])
        self.stragglers.load(data["stragglers"])
        self.structure.load(data["structure"])
        self.pace.load(data["pace"])
        self.silence.load(data["silence"])
        self.apart.load(data["apart"])
        self.nodes.load(data["nodes"])
        self.configuration.load(data["configuration"])
        self.has_loader = bool(data["has_loader"])
        self.places = {rank: (node, device) for rank, (node, device) in data["places"].items()}
        self.crowds.load(data["crowds"])


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
