"""Training on the cluster as people start it, and what Paceline must say of it.

Rule of this file: a case runs one driver, and requires what comes of it.
"""

import json
import time
from collections.abc import Callable
from pathlib import Path

from collectors.processes import identity, read_environ
from paceline.events import Finding

from ..heard import Heard
from ..processes import ROOT, RunError
from .cluster import NODES, Ray

TRAIN = ROOT / "tests" / "frameworks" / "scripts" / "ray_train.py"
RANKS, SLOW = 4, 2
#: Two cores that others use, too, import PyTorch four times.
ENDED_S, GOODBYE_S = 900.0, 90.0


class Check:
    """``require`` is told what holds and what does not."""

    def __init__(self, ray: Ray, heard: Heard, require: Callable[[object, str], None]) -> None:
        self.ray, self.heard, self.require = ray, heard, require
        #: Job and rank that each process of Ray's names, by /proc as a collector reads it.
        self.seen: dict[int, tuple[str | None, int | None]] = {}

    def trained(self, name: str, **environ: str) -> list[str]:
        """The jobs that came of ``TRAIN`` with its rank ``SLOW`` computing more.

        Raises:
            RunError: the script fails, or does not end in time.
        """
        before = self.heard.jobs("")
        command = [str(TRAIN), "compute", str(SLOW), str(self.ray.folder / name)]
        end = time.monotonic() + ENDED_S
        with self.ray.driver(name, command, **environ) as process:
            while process.poll() is None and time.monotonic() < end:
                self.heard.poll()
                self.seen |= workers()
            if process.poll() is None:
                raise RunError(f"{name}: not done within {ENDED_S:g} s; it said: {self.ray.printed(name)}")
        if process.returncode != 0:
            raise RunError(f"{name}: status {process.returncode}; it said: {self.ray.printed(name)}")
        return sorted(self.heard.jobs("") - before)

    def named(self, name: str, job: str) -> None:
        """The slow rank of ``job`` is named, with its node; all its ranks are known, two a node, and leave."""
        end = time.monotonic() + GOODBYE_S
        while time.monotonic() < end and not self._complete(job):
            self.heard.poll()
        ranks, parts = self.heard.ranks(job), self.heard.parts(job)
        self.require(
            sorted(ranks) == list(range(RANKS)) and sorted(ranks.values()) == sorted(NODES * 2),
            f"{name}: ranks of job {job} on their nodes: {ranks}",
        )
        self.require(
            parts and all(part.ended_s is not None for part in parts), f"{name}: all of job {job} has left its nodes"
        )
        found = self.heard.confirmed(job)
        self.require(found and _right(found, ranks), f"{name}: {found.summary if found else 'no confirmed finding'}")

    def _complete(self, job: str) -> bool:
        parts = self.heard.parts(job)
        left = bool(parts) and all(part.ended_s is not None for part in parts)
        return left and len(self.heard.ranks(job)) == RANKS and self.heard.confirmed(job) is not None


def _right(found: Finding, ranks: dict[int, str]) -> bool:
    return (found.ranks, found.cause, list(found.nodes)) == ([SLOW], "worker_compute", [ranks.get(SLOW, "")])


def workers() -> dict[int, tuple[str | None, int | None]]:
    """What /proc tells of the job and rank of each process that trains for Ray."""
    found = {}
    for folder in Path("/proc").iterdir():
        if not folder.name.isdigit():
            continue
        try:
            if (folder / "cmdline").read_bytes().startswith(b"ray::RayTrainWorker"):
                found[int(folder.name)] = identity(read_environ(folder / "environ"))
        except OSError:  # It has ended meanwhile.
            continue
    return found


def by_number(check: Check) -> None:
    """Nothing of ours in script or driver: the job is Ray's, on both nodes."""
    jobs = check.trained("number")
    check.require(len(jobs) == 1 and jobs[0].startswith("ray-"), f"number: one job of Ray's name: {jobs}")
    check.named("number", jobs[0] if jobs else "")
    # A worker that Ray has started in advance has no job's number in its environment.
    told = [job for job, _ in check.seen.values()]
    check.require(
        told and {*told} <= {*jobs, None},
        f"number: to a collector {len(told) - told.count(None)} of {len(told)} workers name the job, and none another",
    )


def by_name(check: Check) -> None:
    """``runtime_env`` gives the job a name of its users' own, as by ``ray job submit``."""
    environ = {"runtime_env": {"env_vars": {"PACELINE_JOB": "resnet-7"}}}
    jobs = check.trained("name", RAY_JOB_CONFIG_JSON_ENV_VAR=json.dumps(environ))
    check.require(jobs == ["resnet-7"], f"name: one job of the given name: {jobs}")
    check.named("name", "resnet-7")


CASES: dict[str, Callable[[Check], None]] = {"number": by_number, "name": by_name}
