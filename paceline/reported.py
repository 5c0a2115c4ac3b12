"""Which jobs and nodes have reported, to refuse at once what is asked of one that there is not.

Rule of this file: pure and bounded. A job is there from the first message of a sidecar of its latest run on.
"""

from collections import OrderedDict
from typing import TypeVar

from paceline.events import JobDescribed, NodeDescribed
from paceline.job_life import JobLife
from paceline.words import joined, listed

#: Beyond these the one that was described longest ago goes.
MOST_JOBS, MOST_NODES = 10_000, 20_000
Name = TypeVar("Name", str, tuple[str, str])


class Reported:
    """The jobs and nodes of ``cluster``, and which jobs run in others, from what they say of themselves.

    >>> Reported("default").refuses_job("resnet-7")
    "no job 'resnet-7' has reported; there is no running job"
    """

    def __init__(self, cluster: str) -> None:
        self._cluster = cluster
        self._jobs: OrderedDict[str, JobLife] = OrderedDict()
        self._nodes: OrderedDict[str, None] = OrderedDict()
        #: Jobs of other clusters, by cluster and name.
        self._elsewhere: OrderedDict[tuple[str, str], JobLife] = OrderedDict()

    def update(self, event: JobDescribed | NodeDescribed) -> None:
        """Take what a sidecar or a collector says."""
        if event.cluster != self._cluster:
            if isinstance(event, JobDescribed):
                _describe(self._elsewhere, (event.cluster, event.job), event)
            return
        self._nodes[event.node] = None
        self._nodes.move_to_end(event.node)
        if len(self._nodes) > MOST_NODES:
            self._nodes.popitem(last=False)
        if isinstance(event, JobDescribed):
            _describe(self._jobs, event.job, event)

    def refuses_target(self, target: str) -> str | None:
        """Why nobody would answer a command to ``target``; None where somebody may."""
        kind, _, name = target.partition(":")
        if kind == "job":
            life = self._jobs.get(name)
            if life is not None and life.ended_s is not None:
                return f"job {name[:100]!r} has ended; {self._where(name)}"
            return self.refuses_job(name)
        if kind == "node" and name not in self._nodes:
            return f"no node {name[:100]!r} has reported; {listed('node', sorted(self._nodes))}"
        return None

    def refuses_job(self, job: str) -> str | None:
        """Why there is nothing of ``job``; None where it has reported, also where it has ended since."""
        return None if job in self._jobs else f"no job {job[:100]!r} has reported; {self._where(job)}"

    def refuses_attempt(self, job: str, attempt: int) -> str | None:
        """Why ``attempt`` of ``job`` is over; None where it goes on, or is still to come."""
        life = self._jobs.get(job)
        if life is None or attempt > life.attempt or (attempt == life.attempt and life.ended_s is None):
            return None
        if attempt == life.attempt:
            return f"job {job[:100]!r}, attempt {attempt}, has ended; {self._where(job)}"
        return f"job {job[:100]!r} is at attempt {life.attempt}: give --attempt {life.attempt}"

    def _where(self, job: str) -> str:
        """Where ``job`` runs instead, with the fix; else what runs here."""
        there = sorted(
            cluster for (cluster, name), life in self._elsewhere.items() if name == job and life.ended_s is None
        )
        if there:
            return f"not in cluster {self._cluster[:100]}, but it runs in {joined(there)}: name it with --cluster"
        return listed("running job", sorted(name for name, life in self._jobs.items() if life.ended_s is None))


def _describe(jobs: OrderedDict[Name, JobLife], name: Name, event: JobDescribed) -> None:
    life = jobs.get(name)
    if life is None or life.succeeded_by(event):
        life = jobs[name] = JobLife(event.attempt)
    life.update(event)
    jobs.move_to_end(name)
    if len(jobs) > MOST_JOBS:
        jobs.popitem(last=False)
