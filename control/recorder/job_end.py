"""Whether the job of a session is over, so that the session ends with it.

Rule of this file: pure; time is an argument. A run counts from when it is received during the session: what the brokers
still hold of earlier runs of that name ends nothing. A job that starts again within the grace time goes on.
"""

from paceline.events import JobDescribed
from paceline.job_life import JobLife
from paceline.topics import COLLECTIVE, JOB, OP, Topic

from ..sessions.manifest import JobProgress

#: An elastic restart, or rows that were kept on a node's disk, may take so long after the end.
GRACE_S = 120.0


class JobEnd:
    """Watches the job of one session that began at ``started_s``."""

    def __init__(self, job: str, started_s: float, known: JobProgress | None) -> None:
        self._job, self._started_s, self._known = job, started_s, known
        self._quiet_since_s: float | None = None

    @property
    def known(self) -> JobProgress | None:
        """What is to be kept."""
        return self._known

    def describe(self, event: JobDescribed) -> None:
        """A node has described its part of a job."""
        if event.job != self._job:
            return
        if self._known is None or self._known.life.succeeded_by(event):
            trained = self._known is not None and self._known.trained
            self._known = JobProgress(JobLife(event.attempt), trained, event.cluster)
        self._known.life.update(event)
        self._quiet_since_s = None

    def settle(self, cluster: str) -> None:
        """It is the job of that cluster; what is known of another's is forgotten."""
        if self._known is not None and self._known.cluster not in ("", cluster):
            self._known = None

    def came(self, topic: Topic, job: str) -> None:
        """A message of a job came on ``topic``."""
        if job != self._job or topic not in (JOB, OP, COLLECTIVE):
            return
        self._quiet_since_s = None
        if topic != JOB and self._known is not None:
            self._known.trained = True

    def deaf(self) -> None:
        """The brokers did not answer: what they hold of that time is yet to come."""
        self._quiet_since_s = None

    def over(self, now_s: float) -> bool:
        """Whether the job has ended, and nothing of it has come for the grace time; asked while the brokers answer."""
        if self._known is None or self._known.life.ended_s is None:
            self._quiet_since_s = None
            return False
        if not self._known.trained and self._known.life.ended_s < self._started_s:
            return False
        if self._quiet_since_s is None:
            self._quiet_since_s = now_s
        return now_s - self._quiet_since_s >= GRACE_S
