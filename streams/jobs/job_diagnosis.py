"""The diagnosis of one attempt of one job: what was taken in of it, to findings.

Rule of this file: it wires the pieces of this package together and holds no rule of its own. Phases and collectives
arrive on two topics whose order against each other nobody promises, so the two lines of judgement share nothing.
"""

from dataclasses import replace
from typing import Any

from paceline.decoders import convert
from paceline.events import Finding, JobDescribed, StepTimings

from ..episodes.finding import JobKey, finding
from ..ingest.ingest import Admitted, Batch, Ingest
from ..stored import Kept, Stored
from . import short_run_evidence
from .collective_verdicts import Collectives
from .config import JobConfig, changed
from .phase_verdicts import Phases
from .short_run import ShortRun


class JobDiagnosis(Stored):
    """Judges what ``ingest`` takes in of one (cluster, job, attempt)."""

    values: Kept[dict[str, float]]
    job: Kept[JobKey | None]
    called_short: Kept[bool]
    phases: Kept[Phases]
    collectives: Kept[Collectives]
    short: Kept[ShortRun]

    def __init__(self, ingest: Ingest, config: JobConfig | None) -> None:
        self.given = config is not None
        self.config = config = config or JobConfig()
        self.ingest = ingest
        self.values = {}
        self.short = ShortRun()
        self.phases = Phases(ingest, config, self.short)
        self.collectives = Collectives(ingest, config, self.short)
        #: Whose findings they are, once an event came.
        self.job = None
        #: Whether it was said that there was not enough to judge.
        self.called_short = False

    def hear(self, admitted: Admitted) -> list[Finding]:
        """Take in what a message says of its ranks as a whole, which waits for no step."""
        message = admitted.message
        self.job = JobKey(message.cluster, message.job, message.attempt)
        return self.phases.hear(admitted) if isinstance(message, StepTimings) else []

    def look(self, admitted: Admitted) -> list[Finding]:
        """What follows from who waits in a collective, or has ended, by a message."""
        return self.collectives.look(admitted)

    def judge(self, batch: Batch) -> list[Finding]:
        """Judge the steps and the collectives of a few messages."""
        found = self.phases.judge(batch) if batch.of_steps else []
        if batch.collectives is not None:
            found += self.collectives.judge(batch.of_collectives, batch.collectives)
        if not self.short.enough and self._looks() >= self.config.straggler.confirm_ticks:
            self.short.forget()
        return found

    def leave(self, described: JobDescribed) -> list[Finding]:
        """A node has said in its description of the job that its ranks have left."""
        return self.phases.leave(described)

    def finish(self) -> list[Finding]:
        """The last word of a job whose nodes have all said goodbye."""
        return self.conclude() if self.phases.nodes.all_left else []

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
        coverage = self.ingest.coverage if self.short.steps.any() else self.ingest.collectives_coverage
        return [finding(short_run_evidence.episode(self.short), told, job, coverage.counts())]

    def _lasting(self, *, ended: bool) -> list[Finding]:
        """What has grown since it was last reported, of those that hold the job back until its end."""
        job = self.job
        return [] if job is None else self.phases.conclude(job) + self.collectives.conclude(job, ended=ended)

    def _looks(self) -> int:
        """How often the ranks were compared: by their phases, or in the group in which it was most often."""
        groups = [group.stragglers.ticks for group in self.collectives.groups.values()]
        return max([self.phases.stragglers.ticks, *groups])

    def configure(self, values: dict[str, float]) -> None:
        """Judge by the default thresholds with ``values`` from now on; what is known stays."""
        self.values = dict(values)
        phases, collectives = self.phases.state(), self.collectives.state()
        self._judge_by(replace(changed(values), most_ranks=self.config.most_ranks))
        self.phases.load(phases)
        self.collectives.load(collectives)

    def load(self, data: dict[str, Any]) -> None:
        """Take the state that ``state`` described; where it was made without thresholds, with those in it."""
        if not self.given:
            self._judge_by(changed(convert(data["values"], dict[str, float])))
        super().load(data)

    def _judge_by(self, config: JobConfig) -> None:
        self.config = config
        self.phases = Phases(self.ingest, config, self.short)
        self.collectives = Collectives(self.ingest, config, self.short)

    def bound_ranks(self, most: int) -> None:
        """Leave out ranks from number ``most`` on."""
        self.config = self.phases.config = self.collectives.config = replace(self.config, most_ranks=most)
