"""The diagnosis of one attempt of one job: events in, findings out.

Rule of this file: it wires the pieces of this package together and holds no rule of its own. Phases and collectives
arrive on two topics whose order against each other nobody promises, so the two lines of judgement share nothing.
"""

from collections.abc import Sequence
from dataclasses import replace

from paceline.events import (
    CollectiveCalls,
    Finding,
    JobDescribed,
    StepTimings,
    Thresholds,
)

from ..episodes.finding import JobKey, finding
from ..gather import Gather
from ..shared_rows import SharedRows
from ..snapshots import Steps, at_once, cutting, described, unpack
from . import short_run_evidence
from .collective_verdicts import Collectives
from .config import JobConfig, changed
from .phase_verdicts import Phases
from .short_run import ShortRun

#: Layout of the snapshot; another version is not read.
_LAYOUT = 17


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
        #: Of a job of a few nodes, and from a backlog: the messages that are taken in together.
        self.held: Gather[StepTimings] = Gather()

    def update(self, event: StepTimings | CollectiveCalls | Thresholds) -> list[Finding]:
        """Take in one event; the findings that it brings to light or changes."""
        if isinstance(event, StepTimings) and self._may_wait(event):
            ready = self.held.push(event, self.phases.rows.at_once)
            return self._take_in(ready) if ready else []
        found = self._take_in(self.held.drain())
        if isinstance(event, Thresholds):
            self.configure(event.values)
            return found
        return found + self._update(event)

    def _may_wait(self, event: StepTimings) -> bool:
        """Whether what ``event`` brings to light is the same if it is taken in with those that follow it, and several
        of each of the job's nodes wait for each other."""
        several = self.phases.rows.at_once >= 2 * self.phases.coverage.producers
        return several and self.short.enough and self._goes_on(event, self.held.waiting)

    def _goes_on(self, event: StepTimings, before: Sequence[StepTimings]) -> bool:
        return self.phases.goes_on(event, sum(one.producer == event.producer for one in before))

    def _take_in(self, waited: list[StepTimings]) -> list[Finding]:
        """What messages that waited bring to light, one after the other."""
        if not waited:
            return []
        known: list[StepTimings] = []
        for event in waited:
            if not self._goes_on(event, known):
                break  # The bound on ranks may be another since they were stored.
            known.append(event)
        found = self.phases.take_in(known, self._update)
        return found + [one for event in waited[len(known) :] for one in self._update(event)]

    def _update(self, event: StepTimings | CollectiveCalls) -> list[Finding]:
        self.job = JobKey(event.cluster, event.job, event.attempt)
        found = self.phases.update(event) if isinstance(event, StepTimings) else []
        found += self.collectives.update(event)
        if not self.short.enough and self._looks() >= self.config.straggler.confirm_ticks:
            self.short.forget()
        return found

    def leave(self, described: JobDescribed) -> list[Finding]:
        """A node has said in its description of the job that its ranks have left."""
        return self._take_in(self.held.drain()) + self.phases.leave(described)

    def finish(self) -> list[Finding]:
        """What follows from all that was taken in, now that nothing more comes for a while.

        Of a job whose nodes have all said goodbye that is the last word: it has ended.
        """
        found = self._take_in(self.held.drain()) + self.phases.finish() + self.collectives.finish()
        return found + self.conclude() if self.phases.nodes.all_left else found

    def conclude(self) -> list[Finding]:
        """What is said of a job that has ended: until when it was held back, or that there was not enough to judge."""
        return self._lasting(ended=True) + self._too_short()

    def expire(self) -> list[Finding]:
        """Until when a job was held back that is silent for long, and may yet go on."""
        return self._lasting(ended=False)

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

    def _lasting(self, *, ended: bool) -> list[Finding]:
        """What has grown since it was last reported, of those that hold the job back until its end."""
        job = self.job
        return [] if job is None else self.phases.conclude(job) + self.collectives.conclude(job, ended=ended)

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
        return at_once(self.cutting()).pack()

    def cutting(self) -> Steps:
        """The same as it is now, to be packed later."""
        parts = {
            "phases": self.phases.snapshot,
            "collectives": self.collectives.snapshot,
            "short": self.short.snapshot,
            "held": self.held.snapshot,
        }
        return cutting(_LAYOUT, {"values": self.values, "job": self.job, "called_short": self.called_short, **parts})

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
            diagnosis.held.load(state["held"])
        return diagnosis
