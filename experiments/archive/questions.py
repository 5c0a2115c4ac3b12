"""Questions to the month, each in a process of its own: how long from opening the archive to the last row.

Rule of this file: what people and pages ask, through ``paceline.history`` and nothing else. Cold means that none of the
archive's files is in the page cache: they are put out of it one by one, others' stay.
"""

import json
import os
import statistics
import subprocess
import sys
import time
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

from paceline.events import LONG_WINDOW_S
from paceline.history.query import History
from paceline.history.views import Scope
from paceline.paired import LEAST_PAIRS, median_interval

from ..kernel_counters import memory_peak_bytes
from ..processes import ROOT, RunError
from .fleet import BUCKET_S, DAY_S
from .windows import CLUSTER

#: What is told of a GPU in five minutes.
SHOWN = "start_s, node, device, mean_utilization_ratio, mean_sm_active_ratio, mean_power_w, max_temperature_celsius"
JOB = "one job of some 64 GPUs: what it was, its findings, its minutes, every row of its GPUs"
LARGEST = "the largest job: the same, of its GPUs a mean a node and hour"
#: Question -> the aim in seconds; None: no aim was set.
AIMS: Mapping[str, float | None] = {
    JOB: 1.0,
    LARGEST: 1.0,
    "a month of findings of the cluster, each as it was last told": 2.0,
    "the calendar: device-hours lost a day, by cause": 2.0,
    "`devices` for a day: how much each GPU was used": None,
    "the jobs of the month, with what they lost": None,
    "`devices` for the month": None,
}
#: Questions that read the whole month, whose aim is none: they are asked a few times.
LONG, FEW = 2, 2


class Month:
    """The archive of a month that is asked, from ``start_s`` to ``end_s``."""

    def __init__(self, where: str) -> None:
        self.history = History.open(where, {})
        times = [file for file in self.history.manifest.files if file.table == "device_window"]
        self.start_s = min(file.first_s for file in times)
        self.end_s = max(file.last_s for file in times) + BUCKET_S

    def ask(self, sql: str, names: Sequence[str], scope: Scope | None = None) -> list[Any]:
        """The rows of ``sql`` over the views ``names``."""
        with self.history.connect(scope or Scope(self.start_s, self.end_s, CLUSTER), names) as connection:
            return connection.ask(sql).rows


def one_job(month: Month, job: str, devices: str) -> int:
    """All rows of a job: what is known of it first, and then where and when it ran."""
    of_job = Scope(month.start_s, month.end_s, CLUSTER, job=job)
    names = ("jobs", "findings", "job", "job_window")
    with month.history.connect(of_job, names) as connection:
        [(began_s, ended_s)] = connection.ask("SELECT started_s, coalesce(ended_s, heard_s) FROM jobs").rows
        nodes = [node for (node,) in connection.ask("SELECT DISTINCT node FROM job").rows]
        rows = len(connection.ask("SELECT * EXCLUDE (event) FROM findings").rows)
        rows += len(connection.ask(f"SELECT * FROM job_window WHERE length_s = {LONG_WINDOW_S:g}").rows)
    then = Scope(began_s - BUCKET_S, ended_s, CLUSTER, nodes=tuple(nodes))
    return rows + len(month.ask(devices, ("device_window",), then))


ROWS = f"SELECT {SHOWN} FROM device_window"
MEANS = (
    "SELECT node, floor(start_s / 3600), avg(mean_utilization_ratio), avg(mean_power_w), max(max_temperature_celsius) "
    "FROM device_window GROUP BY ALL"
)


def answered(month: Month, question: str, job: str, largest: str) -> int:
    """Ask ``question``; how many rows came."""
    day = Scope(month.start_s + DAY_S, month.start_s + 2 * DAY_S, CLUSTER)
    calendar = "SELECT CAST(time AS DATE), cause, sum(cost_gpu_hours) FROM findings GROUP BY ALL"
    asks: list[Callable[[], int]] = [
        lambda: one_job(month, job, ROWS),
        lambda: one_job(month, largest, MEANS),
        lambda: len(month.ask("SELECT * EXCLUDE (event) FROM findings", ("findings",))),
        lambda: len(month.ask(calendar, ("findings",))),
        lambda: len(month.ask("SELECT * FROM devices", ("devices",), day)),
        lambda: len(month.ask("SELECT * FROM jobs", ("jobs", "findings"))),
        lambda: len(month.ask("SELECT * FROM devices", ("devices",))),
    ]
    return asks[list(AIMS).index(question)]()


def chosen(where: str) -> tuple[str, str]:
    """A job of some 64 GPUs and a day, and the job with the most device-hours."""
    sql = "SELECT job, ranks, coalesce(ended_s, heard_s) - started_s AS lasted_s FROM jobs WHERE ranks IS NOT NULL"
    jobs = Month(where).ask(sql, ("jobs", "findings"))
    wanted = min(jobs, key=lambda one: abs(one[1] - 64) * DAY_S + abs(one[2] - DAY_S))
    return str(wanted[0]), str(max(jobs, key=lambda one: one[1] * one[2])[0])


def measured(where: str, question: str, jobs: tuple[str, str], times: int, cold: bool) -> dict[str, Any]:
    """Ask it ``times`` times: seconds, their median and its interval, rows, and the most memory of a process."""
    told = []
    for _ in range(times if cold else times + 1):
        if cold:
            forget(Path(where))
        told.append(_process(where, question, jobs))
    told = told[-times:]
    taken = sorted(one["seconds"] for one in told)
    middle, low, high = median_interval(taken) if times >= LEAST_PAIRS else (taken[times // 2], taken[0], taken[-1])
    return {
        "median_s": middle,
        "low_s": low,
        "high_s": high,
        "worst_s": taken[-1],
        "processor_s": statistics.median(one["processor_s"] for one in told),
        "rows": told[-1]["rows"],
        "memory_bytes": max(one["memory_bytes"] for one in told),
    }


def forget(folder: Path) -> None:
    """Put the files of an archive out of the page cache."""
    for path in folder.rglob("*"):
        if path.is_file():
            descriptor = os.open(path, os.O_RDONLY)
            try:
                os.posix_fadvise(descriptor, 0, 0, os.POSIX_FADV_DONTNEED)
            finally:
                os.close(descriptor)


def _process(where: str, question: str, jobs: tuple[str, str]) -> dict[str, Any]:
    command = [sys.executable, "-m", "experiments.archive.questions", where, question, *jobs]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False)
    if done.returncode != 0:
        raise RunError(f"{question}: {done.stderr.strip().splitlines()[-1:]}")
    told: dict[str, Any] = json.loads(done.stdout)
    return told


def main(argv: list[str]) -> int:
    """Ask one question once, and print how long it took."""
    where, question, job, largest = argv
    began_s, used_s = time.perf_counter(), time.process_time()
    rows = answered(Month(where), question, job, largest)
    took = {"seconds": time.perf_counter() - began_s, "processor_s": time.process_time() - used_s}
    print(json.dumps({**took, "rows": rows, "memory_bytes": memory_peak_bytes()}))
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
