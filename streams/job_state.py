"""All that is decided about one attempt of one job: its diagnosis and its windows, on one way in.

Rule of this file: it wires, and holds no rule of its own but which messages wait for each other.
"""

from collections.abc import Sequence

from paceline.events import CollectiveCalls, Finding, JobDescribed, JobWindow, RankWindow, StepTimings, Thresholds

from .ingest.gather import Gather
from .ingest.ingest import Ingest
from .jobs.config import JobConfig
from .jobs.job_diagnosis import JobDiagnosis
from .snapshots import Steps, at_once, cutting
from .stored import Kept, StoredDecision
from .windows.job_windows import JobWindows

Said = list[Finding | RankWindow | JobWindow]


class Backlog:
    """How many messages of a job are judged together: 0 where no more of them are at hand."""

    def __init__(self) -> None:
        self.at_once = 0


class JobState(StoredDecision):
    """Judges and sums up one (cluster, job, attempt); every event given to it must be of that one.

    The same events give the same findings and windows whatever their batching. Messages that repeat, by producer and
    sequence number, are dropped.
    """

    layout = 6
    ingest: Kept[Ingest]
    diagnosis: Kept[JobDiagnosis]
    windows: Kept[JobWindows]
    held: Kept[Gather[StepTimings]]

    def __init__(self, config: JobConfig | None = None) -> None:
        thresholds = config or JobConfig()
        self.ingest = Ingest(thresholds.steps, thresholds.most_ranks)
        self.diagnosis = JobDiagnosis(self.ingest, config)
        self.windows = JobWindows(self.ingest)
        self.backlog = Backlog()
        #: Of a job of a few nodes, and from a backlog: the messages that are taken in together.
        self.held = Gather()

    def update(self, event: StepTimings | CollectiveCalls | Thresholds) -> Said:
        """Take in one event; the findings that it brings to light or changes, and the windows that it completes."""
        if isinstance(event, StepTimings) and self._may_wait(event):
            ready = self.held.push(event, self.backlog.at_once)
            return self._take_in(ready) if ready else []
        said = self._take_in(self.held.drain())
        if isinstance(event, Thresholds):
            self.diagnosis.configure(event.values)
            return said
        return said + self._update(event)

    def _may_wait(self, event: StepTimings) -> bool:
        """Whether what ``event`` brings to light is the same if it is taken in with those that follow it, and several
        of each of the job's nodes wait for each other."""
        several = self.backlog.at_once >= 2 * self.ingest.roster.producers
        return several and self.diagnosis.short.enough and self._goes_on(event, self.held.waiting)

    def _goes_on(self, event: StepTimings, before: Sequence[StepTimings]) -> bool:
        earlier = sum(one.producer == event.producer for one in before)
        return self.ingest.goes_on(event, earlier) and self.diagnosis.phases.goes_on(event)

    def _take_in(self, waited: list[StepTimings]) -> Said:
        """What messages that waited bring to light, one after the other: what their steps come to is worked out in one
        pass before."""
        if not waited:
            return []
        known: list[StepTimings] = []
        for event in waited:
            if not self._goes_on(event, known):
                break  # The bound on ranks may be another since they were stored.
            known.append(event)
        said = self._judge_waiting()
        self.diagnosis.phases.foresee(self.ingest.foresee(known))
        said += [one for event in known for one in self._update(event)]
        said += self._judge_waiting()
        return said + [one for event in waited[len(known) :] for one in self._update(event)]

    def _update(self, event: StepTimings | CollectiveCalls) -> Said:
        admitted = self.ingest.admit(event)
        if admitted is None:
            return []
        said: Said = list(self.diagnosis.hear(admitted))
        message = admitted.message
        # Who has come how far is in the messages that wait, and who stands in this one.
        waited = self._judge_waiting() if isinstance(message, StepTimings) and message.open else []
        looked = self.diagnosis.look(admitted)
        said += self._judge(self.ingest.push(message, backlog=self.backlog.at_once > 0))
        return said + waited + looked

    def _judge_waiting(self) -> Said:
        return self._judge(self.ingest.gather.drain())

    def _judge(self, messages: list[StepTimings | CollectiveCalls]) -> Said:
        if not messages:
            return []
        batch = self.ingest.batch(messages)
        return [*self.diagnosis.judge(batch), *self.windows.update(batch)]

    def leave(self, described: JobDescribed) -> Said:
        """A node has said in its description of the job that its ranks have left."""
        return [*self._take_in(self.held.drain()), *self.diagnosis.leave(described)]

    def finish(self) -> Said:
        """What follows from all that was taken in, now that nothing more comes for a while.

        Of a job whose nodes have all said goodbye that is the last word: it has ended.
        """
        said = self._take_in(self.held.drain()) + self._judge_waiting()
        return [*said, *self.diagnosis.finish(), *self.windows.finish()]

    def conclude(self) -> Said:
        """What is said of a job that has ended."""
        return [*self.diagnosis.conclude(), *self.windows.conclude()]

    def expire(self) -> Said:
        """What is said of a job that is silent for long, and may yet go on."""
        return [*self.diagnosis.expire(), *self.windows.conclude()]

    def next_launch(self) -> "JobState":
        """One that has seen nothing of the next launch, with the same thresholds."""
        made = JobState(self.diagnosis.config)
        made.diagnosis.values = dict(self.diagnosis.values)
        return made

    def bound_ranks(self, most: int) -> None:
        """Leave out ranks from number ``most`` on."""
        self.ingest.most_ranks = most
        self.diagnosis.bound_ranks(most)

    def share_backlog(self, backlog: Backlog) -> None:
        """Judge as many messages together as ``backlog`` says from now on."""
        self.backlog = backlog

    def snapshot(self) -> bytes:
        """The whole state, compressed."""
        return at_once(self.cutting()).pack()

    def cutting(self) -> Steps:
        """The same as it is now, to be packed later."""
        return cutting(self.layout, {name: getattr(self, name).state for name in self._kept})
