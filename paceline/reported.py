"""Which jobs and nodes have reported, to refuse at once what is asked of one that there is not.

Rule of this file: pure and bounded. A job is there from the first message of a sidecar of its latest run on.
"""

from collections import OrderedDict

from paceline.events import JobDescribed, NodeDescribed
from paceline.job_life import JobLife
from paceline.words import listed

#: Beyond these the one that was described longest ago goes.
MOST_JOBS, MOST_NODES = 10_000, 20_000


class Reported:
    """The jobs and nodes of ``cluster``, from what they say of themselves.

    >>> Reported("default").refuses_job("resnet-7")
    "no job 'resnet-7' has reported; there is no running job"
    """

    def __init__(self, cluster: str) -> None:
        self._cluster = cluster
        self._jobs: OrderedDict[str, JobLife] = OrderedDict()
        self._nodes: OrderedDict[str, None] = OrderedDict()

    def update(self, event: JobDescribed | NodeDescribed) -> None:
        """Take what a sidecar or a collector says."""
        if event.cluster != self._cluster:
            return
        self._nodes[event.node] = None
        self._nodes.move_to_end(event.node)
        if len(self._nodes) > MOST_NODES:
            self._nodes.popitem(last=False)
        if isinstance(event, JobDescribed):
            self._describe(event)

    def _describe(self, event: JobDescribed) -> None:
        life = self._jobs.get(event.job)
        if life is None or life.succeeded_by(event):
            life = self._jobs[event.job] = JobLife(event.attempt)
        life.update(event)
        self._jobs.move_to_end(event.job)
        if len(self._jobs) > MOST_JOBS:
            self._jobs.popitem(last=False)

    def refuses_target(self, target: str) -> str | None:
        """Why nobody would answer a command to ``target``; None where somebody may."""
        kind, _, name = target.partition(":")
        if kind == "job":
            life = self._jobs.get(name)
            if life is not None and life.ended_s is not None:
                return f"job {name[:100]!r} has ended; {self._running()}"
            return self.refuses_job(name)
        if kind == "node" and name not in self._nodes:
            return f"no node {name[:100]!r} has reported; {listed('node', sorted(self._nodes))}"
        return None

    def refuses_job(self, job: str) -> str | None:
        """Why there is nothing of ``job``; None where it has reported, also where it has ended since."""
        return None if job in self._jobs else f"no job {job[:100]!r} has reported; {self._running()}"

    def refuses_attempt(self, job: str, attempt: int) -> str | None:
        """Why ``attempt`` of ``job`` is over; None where it goes on, or is still to come."""
        life = self._jobs.get(job)
        if life is None or attempt > life.attempt or (attempt == life.attempt and life.ended_s is None):
            return None
        if attempt == life.attempt:
            return f"job {job[:100]!r}, attempt {attempt}, has ended; {self._running()}"
        return f"job {job[:100]!r} is at attempt {life.attempt}: give --attempt {life.attempt}"

    def _running(self) -> str:
        return listed("running job", sorted(name for name, life in self._jobs.items() if life.ended_s is None))
