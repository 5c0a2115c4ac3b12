"""What runs a trial's jobs: the words between the trial, which decides, and who starts processes for it.

Rule of this file: types alone. An executor starts what it is given, says how it ended, and leaves nothing behind; which
job comes next, and what its results mean, is no business of its.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Literal, Protocol

#: What every node of a job writes into the job's folder, and prints as a line of its own behind ``RESULT_MARK``: JSON.
RESULT_FILES, RESULT_MARK = "result-*.json", "PACELINE-TRIAL "


class ExecutorError(RuntimeError):
    """A job cannot be started, asked for or ended: the cause and the mend."""


@dataclass(frozen=True)
class Job:
    """One short run of one placement. ``id`` is unique in its trial: letters, digits and hyphens.

    ``command`` is run once on each node, and starts that node's ranks: ``{nodes}``, ``{node_rank}``, ``{master}`` and
    ``{port}`` in its words stand for what is known there alone. It ends by itself after about ``expected_s``, and is
    ended after ``limit_s``. ``gpus`` and ``cpus`` are the numbers of the devices that each node's part may use;
    None: all.
    """

    id: str
    command: tuple[str, ...]
    folder: Path
    expected_s: float
    limit_s: float
    nodes: int = 1
    on: tuple[str, ...] = ()
    ranks_per_node: int = 1
    gpus: tuple[int, ...] | None = None
    cpus: tuple[int, ...] | None = None
    numa: int | None = None
    environ: Mapping[str, str] = field(default_factory=dict)


@dataclass(frozen=True)
class Ended:
    """How a job ended: by itself with ``status``, or ``killed`` for its time limit, or ``gone`` where nobody can tell.

    ``results`` are the documents that its nodes wrote, ``said`` the last lines of its output.
    """

    how: Literal["ended", "killed", "gone"]
    status: int | None
    results: tuple[bytes, ...]
    said: str


class Executor(Protocol):
    """Starts jobs on one kind of machines. Every call may raise ``ExecutorError``."""

    #: Jobs that may run at a time.
    parallel: int

    def manifest(self, job: Job) -> str:
        """What ``start`` would hand to the machines, for a person to read: nothing is started."""

    def start(self, job: Job) -> None:
        """Start ``job``."""

    def poll(self, job: Job) -> Ended | None:
        """How ``job`` ended; None while it runs or waits."""

    def waits(self, job: Job) -> str:
        """Why ``job`` has not begun yet, as the scheduler says it; "" where it runs."""

    def stop(self, job: Job) -> None:
        """End ``job``, and return when nothing of it is left; one that has ended is no error."""

    def close(self) -> None:
        """End all jobs that were started and have not ended."""
