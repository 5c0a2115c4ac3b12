"""Which rank of how many a process is, as what launched it says: torchrun, Horovod, Open MPI, MPICH, Slurm.

Rule of this file: pure, ``environ`` is an argument. A launcher's variables are taken together or not at all: ranks of
``mpirun`` in a Slurm allocation have ``SLURM_PROCID``, too, which there is the number of their node. A launcher that
gives the same rank of as many means the same process, and completes what the innermost leaves out: the place on the
node, which neither Slurm's PMI nor a script that sets ``RANK`` from Slurm's numbers tells.

The innermost launcher comes first, for it started the process: torchrun (or a script that sets ``RANK`` itself) runs
below ``mpirun`` or ``srun``, never above them.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import NamedTuple

from paceline.bounds import RANK_LIMIT


class Launched(NamedTuple):
    """A rank as its launcher numbers it. ``local_rank`` is None where it does not say."""

    rank: int
    world_size: int
    local_rank: int | None


class Launcher(NamedTuple):
    """The names of a launcher's variables."""

    rank: str
    world_size: str
    local_rank: str
    #: How many of the ranks are on this node; "" where it does not say.
    local_size: str


LAUNCHERS = (
    Launcher("RANK", "WORLD_SIZE", "LOCAL_RANK", "LOCAL_WORLD_SIZE"),
    Launcher("HOROVOD_RANK", "HOROVOD_SIZE", "HOROVOD_LOCAL_RANK", "HOROVOD_LOCAL_SIZE"),
    Launcher(
        "OMPI_COMM_WORLD_RANK", "OMPI_COMM_WORLD_SIZE", "OMPI_COMM_WORLD_LOCAL_RANK", "OMPI_COMM_WORLD_LOCAL_SIZE"
    ),
    Launcher("PMI_RANK", "PMI_SIZE", "MPI_LOCALRANKID", "MPI_LOCALNRANKS"),
    # Of a step alone: in a batch script SLURM_NTASKS is what the job may start, and one process runs.
    Launcher("SLURM_PROCID", "SLURM_STEP_NUM_TASKS", "SLURM_LOCALID", ""),
)


def launched(environ: Mapping[str, str]) -> Launched | None:
    """The rank that the innermost launcher gives this process; None where nothing launched it, or nonsense is reported.

    >>> launched({"OMPI_COMM_WORLD_RANK": "3", "OMPI_COMM_WORLD_SIZE": "4", "SLURM_PROCID": "1"})
    Launched(rank=3, world_size=4, local_rank=None)
    """
    agreeing = _agreeing(environ)
    if not agreeing:
        return None
    places = (number(environ, names.local_rank) for names in agreeing)
    return Launched(*_numbers(environ, agreeing[0]), next((place for place in places if place is not None), None))


def _numbers(environ: Mapping[str, str], names: Launcher) -> tuple[int, int]:
    """Rank and size; a world that is not told is at least as large as the rank's number says."""
    rank, size = number(environ, names.rank) or 0, number(environ, names.world_size)
    return rank, rank + 1 if size is None else size


def _agreeing(environ: Mapping[str, str]) -> list[Launcher]:
    """The innermost launcher that gives a rank, and those around it that give the same rank of as many."""
    telling = [names for names in LAUNCHERS if number(environ, names.rank) is not None]
    return [names for names in telling if _numbers(environ, names) == _numbers(environ, telling[0])]


def own_local_rank(environ: Mapping[str, str]) -> int:
    """Which of its launcher's processes on this node this one is, from 0; 0 where nothing tells."""
    told = launched(environ)
    if told is None:
        return number(environ, "LOCAL_RANK") or 0
    return told.local_rank or 0


def tasks_here(environ: Mapping[str, str]) -> int:
    """How many processes the innermost launcher has started on this node, this one among them; 1 where nothing tells.

    >>> tasks_here({"SLURM_PROCID": "4", "SLURM_NODEID": "2", "SLURM_STEP_TASKS_PER_NODE": "2(x2),3"})
    3
    """
    agreeing = _agreeing(environ)
    told = (number(environ, names.local_size) if names.local_size else _slurm_tasks(environ) for names in agreeing)
    return next(filter(None, told), 1)


def _slurm_tasks(environ: Mapping[str, str]) -> int:
    """Slurm tells the tasks of all nodes at once, those of equal neighbours with their count."""
    node = number(environ, "SLURM_NODEID")
    for tasks, equal in re.findall(r"(\d{1,7})(?:\(x(\d{1,7})\))?", environ.get("SLURM_STEP_TASKS_PER_NODE", ""), re.A):
        nodes = int(equal or 1)
        if node is None or node < nodes:
            return int(tasks) if node is not None else 0
        node -= nodes
    return 0


def spans_nodes(environ: Mapping[str, str]) -> bool:
    """Whether the launcher has started ranks on other nodes as well, as far as it tells."""
    for names in LAUNCHERS:
        size, here = number(environ, names.world_size), number(environ, names.local_size)
        if size is not None and here:
            return size > here
    return False


def number(environ: Mapping[str, str], name: str) -> int | None:
    """The number of a rank, or of ranks, in a variable; None where there is none: a process can say anything there.

    >>> [number({"RANK": raw}, "RANK") for raw in ("7", "-1", "1" * 22, "x", "", "٣")]
    [7, None, None, None, None, None]
    """
    raw = environ.get(name, "")
    if not (raw.isascii() and raw.isdigit() and len(raw) < 10):
        return None
    return int(raw) if int(raw) < RANK_LIMIT else None
