"""Recorded jobs whose kind is known, and the same jobs as other machines would have recorded them."""

from collections.abc import Iterator
from dataclasses import dataclass, replace
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from .classifier import rows_of_features
from .windows import cut, seconds

TELEMETRY, INDEX = "own_jobs_5hz.parquet", "own_jobs_index.csv"
INTERVAL_S = 0.2
#: A job's first seconds are imports, its last are its end: neither is its kind.
START_S, END_S = 5.0, 1.0
LABELS = {"dataprep": "data_prep"}
#: Column in the file -> series, and units of the series in one of the column.
COLUMNS = {
    "cpu_pct": ("cpu_ratio", 0.01),
    "rss_mb": ("memory_used_bytes", 1e6),
    "read_Bps": ("disk_read_bytes_per_s", 1.0),
    "write_Bps": ("disk_write_bytes_per_s", 1.0),
    "vctx_per_s": ("voluntary_switches_per_s", 1.0),
}


@dataclass(frozen=True)
class LabelledJob:
    """One job: its series at ``interval_s``, what it was, and which program it ran: others of the same are alike."""

    job: str
    kind: str
    program: str
    interval_s: float
    series: dict[str, NDArray[np.float64]]


def read(folder: Path) -> list[LabelledJob]:
    """The labelled jobs in ``folder`` (``own_jobs_5hz.parquet`` with ``own_jobs_index.csv``).

    An index without a column ``program`` has one program a label. A label that is no kind, ``unknown``, is of jobs that
    are none of them.
    """
    import pandas

    index = pandas.read_csv(folder / INDEX).set_index("job")
    jobs = []
    for job, rows in pandas.read_parquet(folder / TELEMETRY).sort_values("t").groupby("job"):
        age = rows["t"].to_numpy() - rows["t"].iloc[0]
        rows = rows[(age > START_S) & (age < age[-1] - END_S)]
        series = {name: rows[column].to_numpy(np.float64) * unit for column, (name, unit) in COLUMNS.items()}
        label = str(index["label"][job])
        kind = LABELS.get(label, label)
        program = str(index["program"][job]) if "program" in index else f"{folder}: {kind}"
        jobs.append(LabelledJob(f"{folder}: {job}", kind, program, INTERVAL_S, series))
    return jobs


def rescaled(job: LabelledJob, random: np.random.Generator, factor: float = 3.0) -> LabelledJob:
    """The same job on another machine: each series times its own factor, at most ``factor`` up or down."""
    series = {}
    for name, column in job.series.items():
        times = float(np.exp(random.uniform(-np.log(factor), np.log(factor))))
        series[name] = column * (min(times, 1.0) if name == "cpu_ratio" else times)
    return replace(job, series=series)


def resampled(job: LabelledJob, interval_s: float) -> LabelledJob:
    """The same job, sampled more coarsely: means over ``interval_s``."""
    size = max(1, round(interval_s / job.interval_s))
    series = {}
    for name, column in job.series.items():
        series[name] = column[: len(column) // size * size].reshape(-1, size).mean(axis=1)
    return replace(job, interval_s=job.interval_s * size, series=series)


def pieces(job: LabelledJob, length_s: float) -> Iterator[LabelledJob]:
    """The record in pieces of ``length_s``, without overlap."""
    size = round(length_s / job.interval_s)
    length = min(len(column) for column in job.series.values())
    for start in range(0, length - size + 1, size):
        series = {name: column[start : start + size] for name, column in job.series.items()}
        yield replace(job, series=series)


def feature_rows(job: LabelledJob) -> NDArray[np.float64]:
    """Features of the job's windows: windows x features."""
    series = {name: column.tolist() for name, column in job.series.items()}
    rows, row_s = seconds(series, job.interval_s)
    return rows_of_features(cut(rows, row_s), "cpu_ratio", row_s)
