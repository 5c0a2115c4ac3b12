"""The diagnosis of one attempt of one job: events in, findings out.

Rule of this file: it wires the pieces of this package together and holds no rule of its own. Phases and collectives
arrive on two topics whose order against each other nobody promises, so the two lines of judgement share nothing.
"""

from collections.abc import Iterable, Iterator
from dataclasses import replace
from itertools import groupby, islice
from typing import Any

from paceline.accused_units import NODE
from paceline.events import (
    RANK_LIMIT,
    CollectiveCalls,
    CollectiveTimings,
    Finding,
    JobDescribed,
    OpTimings,
    StepTimings,
    Thresholds,
)

from ..coverage import CoverageTracker
from ..episodes.crowd import Crowds
from ..episodes.finding import JobKey, Said, finding
from ..episodes.tracker import Episode
from ..gather import Gather
from ..shared_rows import SharedRows
from ..snapshots import described, pack, unpack
from ..speakers import RankSpeakers, SpeakersHeard
from ..step_rows import PhaseTimings
from . import (
    apart,
    configuration,
    data_bound,
    data_imbalance,
    node_silence,
    pace,
    short_run_evidence,
    silence,
    stage_imbalance,
    straggler_evidence,
)
from .accused import Accused, AccusedRank, AccusedUnit, with_sorts
from .apart import Apart
from .cohorts import Cohorts
from .collective_verdicts import Collectives
from .config import JobConfig, changed
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

#: Layout of the snapshot; another version is not read.
_LAYOUT = 15
#: Steps times ranks that are worked out in one pass: more share no cost worth their memory.
_MOST_CELLS = 4096


class Phases:
    """The verdict from phases: the steps of the ranks to findings."""

    def __init__(self, config: JobConfig, short: ShortRun) -> None:
        self.config = config
        self.short = short
        self.coverage = CoverageTracker()
        self.speakers = SpeakersHeard()
        self.gather: Gather[PhaseTimings] = Gather()
        self.rows = SharedRows()
        self.steps = Steps(config.steps, self.coverage)
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

    def update(self, message: PhaseTimings) -> list[Finding]:
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
        if isinstance(message, StepTimings):
            self.short.update_breakdowns(message.breakdowns)
            self.ticks.waits_measured = True
        words = message.ops if isinstance(message, OpTimings) else message.phases
        self.has_loader = self.has_loader or "data" in words
        told = self._facts(message) if isinstance(message, StepTimings) else []
        job = JobKey(message.cluster, message.job, message.attempt)
        told += self._nodes(self.nodes.update(message, who.ranks if fresh else (), self.config.most_ranks), job)
        ready = self.gather.push(message, self.coverage.producers, backlog=self.rows.backlog)
        return told + self._advance(ready) if ready else told

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

    def _advance(self, messages: list[PhaseTimings]) -> list[Finding]:
        job = JobKey(messages[-1].cluster, messages[-1].job, messages[-1].attempt)
        findings = []
        self.conditions.update(condition_rows(messages), self.coverage.plausible_ranks)
        rows = self.rows.of(messages)
        self.short.update_steps(rows, self.coverage.plausible_ranks)
        for step, sums, tick in self._ahead(self.steps.update(rows)):
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

    def _ahead(self, steps: list[Step]) -> Iterator[tuple[Step, StepSums | None, Tick | None]]:
        """Each step with what it adds and the tick that it ends, worked out for all of a message in one pass.

        A step of the warm-up adds nothing.
        """
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


class JobDiagnosis:
    """Judges one (cluster, job, attempt); every event given to it must be of that one.

    The same events give the same findings whatever their batching. Messages that repeat, by producer and sequence
    number, are dropped.
    """

    def __init__(self, config: JobConfig | None = None) -> None:
        self.config = config or JobConfig()
        self.values: dict[str, float] = {}
        self.short = ShortRun()
        self.phases = Phases(self.config, self.short)
        self.collectives = Collectives(self.config, self.short)
        #: Whose findings they are, once an event came.
        self.job: JobKey | None = None
        #: Whether it was said that there was not enough to judge.
        self.called_short = False

    def update(
        self, event: StepTimings | CollectiveCalls | OpTimings | CollectiveTimings | Thresholds
    ) -> list[Finding]:
        """Take in one event; the findings that it brings to light or changes."""
        if isinstance(event, Thresholds):
            self.configure(event.values)
            return []
        self.job = JobKey(event.cluster, event.job, event.attempt)
        if isinstance(event, StepTimings):
            found = self.phases.update(event) + self.collectives.update(event)
        else:
            found = self.phases.update(event) if isinstance(event, OpTimings) else self.collectives.update(event)
        if not self.short.enough and self._looks() >= self.config.straggler.confirm_ticks:
            self.short.forget()
        return found

    def leave(self, described: JobDescribed) -> list[Finding]:
        """A node has said in its description of the job that its ranks have left."""
        return self.phases.leave(described)

    def finish(self) -> list[Finding]:
        """What follows from all that was taken in, now that nothing more comes for a while.

        Of a job whose nodes have all said goodbye that is the last word: it has ended.
        """
        found = self.phases.finish() + self.collectives.finish()
        return found + self.conclude() if self.phases.nodes.all_left else found

    def conclude(self) -> list[Finding]:
        """What is said of a job that has ended: until when it was held back, or that there was not enough to judge."""
        return self._lasting() + self._too_short()

    def expire(self) -> list[Finding]:
        """Until when a job was held back that is silent for long, and may yet go on."""
        return self._lasting()

    def _too_short(self) -> list[Finding]:
        """That there was not enough to judge; said once."""
        config, job = self.config, self.job
        if job is None or self.called_short or not self.short.heard or self._looks() >= config.straggler.confirm_ticks:
            return []
        self.called_short = True
        looks, warm_up = config.straggler.confirm_ticks, config.warmup_steps
        needed = f"{warm_up} warm-up steps and then {looks} measurements of at least {config.tick_s:g} s"
        told = short_run_evidence.said(self.short, self.phases.cohorts.peers, needed)
        coverage = (self.phases if self.short.steps.any() else self.collectives).coverage.counts()
        return [finding(short_run_evidence.episode(self.short), told, job, coverage)]

    def _lasting(self) -> list[Finding]:
        """What has grown since it was last reported, of those that hold the job back until its end."""
        return [] if self.job is None else self.phases.conclude(self.job) + self.collectives.conclude(self.job)

    def _looks(self) -> int:
        """How often the ranks were compared: by their phases, or in the group in which it was most often."""
        groups = [stragglers.ticks for _, stragglers in self.collectives.groups.values()]
        return max([self.phases.stragglers.ticks, *groups])

    def configure(self, values: dict[str, float]) -> None:
        """Judge by the default thresholds with ``values`` from now on; what is known stays."""
        self.values = dict(values)
        phases, collectives, rows = self.phases.snapshot(), self.collectives.snapshot(), self.phases.rows
        self.config = replace(changed(values), most_ranks=self.config.most_ranks)
        self.phases, self.collectives = Phases(self.config, self.short), Collectives(self.config, self.short)
        self.phases.load(phases)
        self.collectives.load(collectives)
        self.share_rows(rows)

    def next_launch(self) -> "JobDiagnosis":
        """One that has seen nothing of the next launch, with the same thresholds."""
        made = JobDiagnosis(self.config)
        made.values = dict(self.values)
        return made

    def bound_ranks(self, most: int) -> None:
        """Leave out ranks from number ``most`` on."""
        self.config = self.phases.config = self.collectives.config = replace(self.config, most_ranks=most)

    def share_rows(self, rows: SharedRows) -> None:
        """Read the rows of messages from ``rows``, which other decisions read them from as well."""
        self.phases.rows = self.collectives.rows = rows

    def snapshot(self) -> bytes:
        """The whole state, compressed."""
        parts = {
            "phases": self.phases.snapshot(),
            "collectives": self.collectives.snapshot(),
            "short": self.short.snapshot(),
        }
        return pack(_LAYOUT, {"values": self.values, "job": self.job, "called_short": self.called_short, **parts})

    @classmethod
    def restore(cls, data: bytes, config: JobConfig | None = None) -> "JobDiagnosis":
        """The diagnosis that ``snapshot`` described.

        Raises:
            ValueError: ``data`` is no snapshot of this version.
        """
        state = unpack(_LAYOUT, data)
        with described():
            values = {str(name): float(value) for name, value in state["values"].items()}
            diagnosis = cls(config or changed(values))
            diagnosis.values = values
            diagnosis.job = None if state["job"] is None else JobKey(*state["job"])
            diagnosis.called_short = bool(state["called_short"])
            diagnosis.phases.load(state["phases"])
            diagnosis.collectives.load(state["collectives"])
            diagnosis.short.load(state["short"])
        return diagnosis
