"""Slurm's accounting: its jobs of the last days, as they are now, where this node has ``sacct``.

Rule of this file: a door. Arguments are fixed, no shell reads them, and neither time nor output is without end. Only
what the archive does not have yet is told, so that asking again adds nothing.
"""

import logging
import math
import os
import selectors
import shutil
import subprocess
import time
from collections import Counter
from collections.abc import Generator, Mapping, Sequence
from typing import NamedTuple

import pyarrow as pa

from paceline.events import LATEST_S
from paceline.history.query import History
from paceline.history.store import Store
from paceline.history.table import PUBLISHED
from paceline.history.tables import SLURM_JOB
from paceline.history.views import Scope

from ..addition import Addition, SourceError
from ..buffers import Place, day
from ..column_buffers import schema
from .slurm_jobs import ENVIRON, FIELDS, NAME_FIELDS, Job, jobs_of

log = logging.getLogger("paceline.archive")
PROGRAM = "sacct"
#: How long it may take, and what it may say.
ANSWER_S, MOST_BYTES = 120.0, 128 * 1024 * 1024
HOUR_S, DAY_S = 3600.0, 86_400.0
_EVER = Scope(0.0, LATEST_S)


class Asked(NamedTuple):
    """How often accounting is asked, and about how many days."""

    every_s: float = 300.0
    days: float = 7.0


class Sacct:
    """Slurm's jobs into the archive in ``store``, as jobs of ``cluster``."""

    name = "sacct"

    def __init__(self, store: Store, cluster: str, asked: Asked, environ: Mapping[str, str] = os.environ) -> None:
        self._store, self._cluster, self._environ = store, cluster, environ
        self.every_s, self._days = asked.every_s, asked.days
        self._left_out: set[str] = set()

    def turns(self, now_s: float) -> Generator[Addition, None, None]:
        """The jobs that are new, or have changed.

        Raises:
            SourceError: sacct is missing, fails, or does not end.
            StoreError, QueryError: the archive cannot be read.
        """
        left_out: Counter[str] = Counter()
        # Names after jobs: one that was submitted in between has no name yet, and not another's.
        jobs = jobs_of(self._said(FIELDS), self._said(NAME_FIELDS), self._cluster, left_out)
        for what in left_out.keys() - self._left_out:
            log.warning("sacct: left out: %s (%d, first seen)", what, left_out[what])
        self._left_out |= left_out.keys()
        new = _changed(jobs, self._held())
        if new:
            rows = pa.Table.from_pylist([{**job, PUBLISHED: now_s} for job in new], schema=schema(SLURM_JOB))
            yield Addition([(Place(SLURM_JOB.name, day(now_s), self._cluster), SLURM_JOB, rows)])

    def _said(self, fields: Sequence[str]) -> str:
        since = f"now-{math.ceil(self._days * DAY_S / HOUR_S)}hours"
        options = ["--allocations", "--allusers", "--noheader", "--parsable2", f"--starttime={since}"]
        return said([PROGRAM, *options, f"--format={','.join(fields)}"], {**self._environ, **ENVIRON})

    def _held(self) -> dict[str, Job]:
        """The jobs as the archive has them."""
        manifest = self._store.newest()
        if manifest is None:
            return {}
        names = [name for name in SLURM_JOB.columns if name != PUBLISHED]
        columns = ", ".join(f'"{name}"' for name in names)
        with History(self._store, manifest).connect(_EVER, ("slurm_jobs",)) as connection:
            sql = f"SELECT {columns} FROM slurm_jobs WHERE cluster = ?"  # noqa: S608 - our own columns
            rows = (dict(zip(names, row, strict=True)) for row in connection.each(sql, (self._cluster,)))
            return {row["job"]: row for row in rows}


def _changed(jobs: Sequence[Job], held: Mapping[str, Job]) -> list[Job]:
    return [job for job in jobs if held.get(job["job"]) != job]


def said(command: Sequence[str], environ: Mapping[str, str]) -> str:
    """What ``command`` prints.

    Raises:
        SourceError: it is not there, fails, takes too long or says too much.
    """
    program = shutil.which(command[0], path=environ.get("PATH"))
    if program is None:
        raise SourceError(f"no {command[0]} here; fix: run the archive where Slurm's clients are, or without --sacct")
    try:
        process = subprocess.Popen(  # noqa: S603 - fixed arguments
            [program, *command[1:]], env=dict(environ), stdin=subprocess.DEVNULL, stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
        )  # fmt: skip
    except OSError as error:
        raise SourceError(f"{command[0]}: {error}") from error
    with process:
        try:
            text = _read(process, command[0])
        except BaseException:
            process.kill()
            raise
    if process.returncode:
        last = (text.strip().splitlines() or ["nothing"])[-1]
        raise SourceError(f"{command[0]} failed with status {process.returncode}: {last[:300]}")
    return text


def _read(process: "subprocess.Popen[bytes]", name: str) -> str:
    """All that it says, until it ends."""
    pipe = process.stdout
    assert pipe is not None, "asked for"
    content, end_s = bytearray(), time.monotonic() + ANSWER_S
    with selectors.DefaultSelector() as selector:
        selector.register(pipe, selectors.EVENT_READ)
        while True:
            if not selector.select(max(0.0, end_s - time.monotonic())):
                raise SourceError(f"{name} did not end within {ANSWER_S:g} s")
            piece = os.read(pipe.fileno(), 1 << 18)
            if not piece:
                break
            content += piece
            if len(content) > MOST_BYTES:
                raise SourceError(f"{name} prints more than {MOST_BYTES:,} bytes; fix: fewer --sacct-days")
    try:
        process.wait(max(0.0, end_s - time.monotonic()) + 1.0)
    except subprocess.TimeoutExpired as error:
        raise SourceError(f"{name} did not end within {ANSWER_S:g} s") from error
    return content.decode("utf-8", "replace")
