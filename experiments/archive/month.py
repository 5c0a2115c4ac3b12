"""The made-up month in an archive, through the archive's own writer.

Rule of this file: a door. Files are as large as those that the archive merges, and hold what they hold: some hours of
a day of all nodes.
"""

import math
import shutil
from collections.abc import Callable, Iterable
from concurrent.futures import ThreadPoolExecutor
from itertools import groupby
from pathlib import Path
from typing import Any

import numpy as np

from archive.buffers import Buffers, Place, day
from archive.merging import most_rows
from archive.messages import rows_of
from archive.writer import Position, Writer
from paceline.history.store import open_store
from paceline.history.tables import DEVICE_WINDOW, JOB_WINDOW

from . import documents, windows
from .fleet import BUCKET_S, DAY_S, GPUS, Fleet
from .windows import CLUSTER

#: What a made-up row of a GPU's window takes on disk, about, with all else beside it.
BYTES_A_ROW = 130
NOTHING = Position({}, {})


class SpaceError(Exception):
    """There is no room for the month: how much is needed, and where."""


def needed_bytes(gpus: int, days: int) -> int:
    """Room that the month takes, about."""
    return gpus * days * DAY_S // BUCKET_S * BYTES_A_ROW


def check_room(folder: Path, gpus: int, days: int) -> int:
    """Room that is free in ``folder``.

    Raises:
        SpaceError: too little for the month.
    """
    free, needed = shutil.disk_usage(folder).free, needed_bytes(gpus, days)
    if free < 1.2 * needed:
        raise SpaceError(
            f"{folder}: {free / 1e9:.0f} GB are free and {1.2 * needed / 1e9:.0f} GB needed; --to names another folder"
        )
    return free


def make(folder: Path, fleet: Fleet, findings: int, say: Callable[[str], None]) -> dict[str, int]:
    """Write the month; how many rows of each table."""
    writer = Writer(open_store(str(folder), {}))
    rng = np.random.default_rng(1)
    _commit(writer, documents.described(fleet))
    _commit(writer, documents.findings(fleet, findings, rng))
    with ThreadPoolExecutor(2) as pool:
        for number in range(fleet.days):
            _day(writer, fleet, number, pool)
            rows = sum(file.rows for file in writer.manifest.files)
            say(f"day {number + 1} of {fleet.days}: {rows:,} rows in {len(writer.manifest.files)} files")
    told: dict[str, int] = {}
    for file in writer.manifest.files:
        told[file.table] = told.get(file.table, 0) + file.rows
    return told


def _commit(writer: Writer, told: Iterable[tuple[float, Any]]) -> None:
    """Events as the archiver takes them, a commit a day."""
    for _, of_day in groupby(told, key=lambda one: day(one[0])):
        buffers = Buffers()
        for offset, (published_s, event) in enumerate(of_day):
            for rows in rows_of(event, published_s):
                buffers.add(rows, 0, offset, published_s)
        writer.commit(buffers, NOTHING)


def _day(writer: Writer, fleet: Fleet, number: int, pool: ThreadPoolExecutor) -> None:
    date, buckets = day(fleet.start_s + number * DAY_S), DAY_S // BUCKET_S
    parts = math.ceil(buckets * fleet.nodes * GPUS / most_rows(DEVICE_WINDOW.name))
    edges = [number * buckets + at * buckets // parts for at in range(parts + 1)]

    def part(at: int) -> Any:
        rows = windows.device_windows(fleet, edges[at], edges[at + 1], np.random.default_rng((number, at)))
        return writer.put(Place(DEVICE_WINDOW.name, date, CLUSTER), DEVICE_WINDOW, rows, merged=2, coarse=True)

    def of_jobs() -> Any:
        rows = windows.job_windows(fleet, number, np.random.default_rng((number, parts)))
        return writer.put(Place(JOB_WINDOW.name, date, CLUSTER), JOB_WINDOW, rows, merged=2)

    futures = [pool.submit(part, at) for at in range(parts)] + [pool.submit(of_jobs)]
    writer.replace([], [future.result() for future in futures])
