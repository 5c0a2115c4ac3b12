"""When full collective rows of a job are asked for: as long as one of its findings is open, and it is still heard of.

Rule of this file: pure; time is an argument. A command is in force for two minutes, and the next comes before it runs
out. What lasts, as work that is cut unevenly does, is told by then: nobody is asked for longer than ``LONG_S``. A
worker that is started again learns of an open finding with its next revision.
"""

from collections import OrderedDict
from dataclasses import dataclass, field

from paceline.command_rules import job_target
from paceline.events import FULL_ROWS, OPEN_FINDINGS, Command, Event, Finding, JobWindow
from paceline.events.silence import ROWS_SILENT_S
from paceline.identity import LONGEST

ISSUER = "paceline-streams"
#: For how long one command asks, and when the next follows.
FULL_ROWS_S, AGAIN_S = 120.0, 90.0
#: For so long at most on account of one finding.
LONG_S = 600.0
#: Jobs that are kept, the longest silent goes first; and findings of one of them.
MOST_JOBS, MOST_FINDINGS = 10_000, 256


@dataclass
class _Job:
    heard_s: float
    again_s: float
    #: Open findings, and until when they are a reason to ask.
    open: dict[str, float] = field(default_factory=dict)


class FullRowsRequests:
    """Told what the worker says of its jobs, gives the commands that are due. Their ids begin with ``origin``."""

    def __init__(self, origin: str) -> None:
        self._origin = origin
        self._issued = 0
        self._jobs: OrderedDict[tuple[str, str], _Job] = OrderedDict()

    def update(self, event: Event, now_s: float) -> None:
        """Take in a finding, or a window of a job, published at ``now_s`` (any clock that does not go back)."""
        if not isinstance(event, Finding | JobWindow):
            return
        key = (event.cluster, event.job)
        job = self._jobs.get(key)
        if isinstance(event, Finding):
            job = self._note(key, job, event, now_s)
        if job is not None:
            job.heard_s = now_s
            self._jobs.move_to_end(key)

    def _note(self, key: tuple[str, str], job: _Job | None, finding: Finding, now_s: float) -> _Job | None:
        if finding.state not in OPEN_FINDINGS:
            if job is not None:
                job.open.pop(finding.id, None)
            return job
        if not 0 < len(finding.job) <= LONGEST:  # A node's finding is of no job, and longer names are no target.
            return None
        if job is None:
            job = self._jobs[key] = _Job(now_s, now_s)
            if len(self._jobs) > MOST_JOBS:
                self._jobs.popitem(last=False)
        if len(job.open) < MOST_FINDINGS:
            job.open.setdefault(finding.id, now_s + LONG_S)
        return job

    def tick(self, now_s: float, unix_s: float) -> list[Command]:
        """The commands that are due at ``now_s``, which is ``unix_s`` on the clock that people share."""
        commands = []
        for key, job in list(self._jobs.items()):
            if now_s < job.again_s:
                continue
            if not job.open:
                del self._jobs[key]
            elif now_s - job.heard_s <= ROWS_SILENT_S and now_s < max(job.open.values()):
                job.again_s = now_s + AGAIN_S
                commands.append(self._command(*key, unix_s))
        return commands

    def _command(self, cluster: str, job: str, unix_s: float) -> Command:
        self._issued += 1
        return Command(
            id=f"{self._origin}-{self._issued}",
            cluster=cluster,
            target=job_target(job),
            action=FULL_ROWS,
            arguments={"seconds": FULL_ROWS_S},
            expires_s=unix_s + FULL_ROWS_S,
            issuer=ISSUER,
        )
