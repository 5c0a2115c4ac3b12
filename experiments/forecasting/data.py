"""The recorded series of the evaluation: which file, which grid, which horizon, and what is held out.

Each task is a list of cases: a context, and the values that followed it. The first half of every series (of the runs,
for node power) is for development, the second half is held out; a held-out case's context may reach into the first.
"""

from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

import numpy as np
import pandas as pd
from numpy.typing import NDArray

Array = NDArray[np.float64]
Part = Literal["dev", "held-out"]
#: What the folder must hold; docs/benchmarks.md says which columns.
FILES = (
    "alibaba_genai26_pods_1min.parquet",
    "mlperf40_h100_node_power_2s.parquet",
    "mlperf40_events.parquet",
    "nab_aws_cloudwatch_5min.parquet",
    "cluster_cpu_alibaba2018_300s.csv",
    "cluster_cpu_google2019_300s_firsthalf.csv",
    "cluster_cpu_alibaba2018_30s.csv",
    "own_jobs_5hz.parquet",
    "own_jobs_index.csv",
    "own_jobs_events.parquet",
)
#: No context is longer: a week of five minutes.
CONTEXT = 2016
#: A pod that is at rest more often than this is idle-heavy.
IDLE = 0.3


@dataclass(frozen=True)
class EvaluationSeries:
    """A recorded series on a regular grid, NaN where nothing was recorded."""

    key: str
    values: Array
    interval_s: float
    low: float | None = None
    high: float | None = None
    part: Part | None = None  # None: the first half is dev, the second held out


@dataclass(frozen=True)
class Task:
    """A set of series of one source, how far ahead they are forecast, and from how much history."""

    name: str
    source: str
    series: list[EvaluationSeries]
    horizon: int
    cases: int = 24
    shortest: int = 120
    longest: int = CONTEXT


@dataclass(frozen=True)
class Case:
    """One forecast to make and what came."""

    series: EvaluationSeries
    context: Array
    actual: Array


def missing(folder: Path | None) -> str | None:
    """Why the evaluation cannot run on ``folder``, in one line; None where all files are there."""
    if folder is None:
        return f"DATA (--data) names no folder; it must hold {', '.join(FILES)} (columns: docs/benchmarks.md)"
    absent = [name for name in FILES if not (folder / name).is_file()]
    if absent:
        return f"{folder} lacks {', '.join(absent)} (columns: docs/benchmarks.md)"
    return None


def tasks(folder: Path) -> list[Task]:
    """All tasks on the files in ``folder``, those that a single member once won apart."""
    utilisation, memory = pods(folder, "gpu_util", 100.0), pods(folder, "gpu_mem_mib", None)
    idle = [one for one in utilisation if np.nanmean(one.values <= 0.0) > IDLE]
    busy = [one for one in utilisation if np.nanmean(one.values <= 0.0) <= IDLE]
    power, clouds, jobs = node_power(folder), cloud(folder), own_jobs(folder)
    processors, others = ([one for one in clouds if ("cpu" in one.key) == wanted] for wanted in (True, False))
    alibaba, google = centre(folder, "alibaba2018", 300.0), centre(folder, "google2019", 300.0)
    fine = centre(folder, "alibaba2018", 30.0)
    return [
        Task("GPU of idle-heavy pods, 1 min, 60 ahead", "pods", idle, 60, 32),
        Task("GPU of busy pods, 1 min, 60 ahead", "pods", busy, 60, 32),
        Task("GPU memory of pods, 1 min, 60 ahead", "pods", memory, 60, 32),
        Task("GPU of the cluster, 1 min, 60 ahead", "pods", [mean_of(utilisation)], 60, 16),
        Task("node power, 2 s, 30 ahead", "power", power, 30, 32),
        Task("node power, 2 s, 120 ahead", "power", power, 120, 32),
        Task("node power, 2 s, 30 ahead, 60 to 150 known", "power", power, 30, 32, 60, 150),
        Task("instance CPU, 5 min, an hour ahead", "cloud", processors, 12, 32),
        Task("instance CPU, 5 min, a day ahead", "cloud", processors, 288, 20),
        Task("instance disk and network, 5 min, an hour ahead", "cloud", others, 12),
        Task("cluster means, 5 min, an hour ahead (Alibaba)", "alibaba2018", alibaba, 12, 32),
        Task("cluster means, 5 min, a day ahead (Alibaba)", "alibaba2018", alibaba, 288, 20),
        Task("cluster means, 30 s, an hour ahead (Alibaba)", "alibaba2018", fine, 120, 20),
        Task("cluster means, 5 min, an hour ahead (Google)", "google2019", google, 12, 32),
        Task("cluster means, 5 min, a day ahead (Google)", "google2019", google, 288, 20),
        Task("processes of jobs, 1 s, 20 ahead", "jobs", jobs, 20, 32, 60),
    ]


def cases(task: Task, part: Part, seed: int = 1) -> Iterator[Case]:
    """``task.cases`` cases at random moments, the same for every model."""
    rng = np.random.default_rng(seed)
    chosen = [series for series in task.series if series.part in (None, part)]
    made = 0
    for _ in range(50 * task.cases):
        case = drawn(chosen[rng.integers(len(chosen))], task, part, rng)
        if case is not None:
            yield case
            made += 1
        if made == task.cases:
            return


def drawn(series: EvaluationSeries, task: Task, part: Part, rng: np.random.Generator) -> Case | None:
    """A case at a random moment of ``part``; None where too little was recorded there."""
    first, last = 0, len(series.values)
    if series.part is None:
        first, last = (last // 2, last) if part == "held-out" else (0, last // 2)
    first = max(first, task.shortest)
    if last - task.horizon <= first:
        return None
    origin = int(rng.integers(first, last - task.horizon + 1))
    length = task.longest if task.longest == CONTEXT else int(rng.integers(task.shortest, task.longest + 1))
    context = series.values[max(0, origin - length) : origin]
    actual = series.values[origin : origin + task.horizon]
    if np.isfinite(context).sum() < 50 or np.isfinite(actual).mean() < 0.5 or not np.isfinite(context[-5:]).any():
        return None
    return Case(series, context, actual)


def gridded(at: NDArray[np.int64], values: Array, step: int) -> Array:
    """Values at integer times on a grid of ``step``; NaN where there is none."""
    place = (at - at.min()) // step
    grid = np.full(int(place.max()) + 1, np.nan)
    grid[place] = values
    return grid


def pods(folder: Path, column: str, high: float | None) -> list[EvaluationSeries]:
    """One column of the GPU pods, a sample a minute."""
    table = pd.read_parquet(folder / "alibaba_genai26_pods_1min.parquet")
    recorded = []
    for pod, rows in table.groupby("pod"):
        grid = gridded(rows.minute.to_numpy(np.int64), rows[column].to_numpy(float), 1)
        if np.isfinite(grid).sum() > 400:
            recorded.append(EvaluationSeries(str(pod), grid, 60.0, 0.0, high))
    return recorded


def mean_of(series: list[EvaluationSeries]) -> EvaluationSeries:
    """The mean over all series of one grid, where at least half of them were recorded."""
    longest = max(len(one.values) for one in series)
    table = np.full((len(series), longest), np.nan)
    for row, one in enumerate(series):
        table[row, : len(one.values)] = one.values
    enough = np.isfinite(table).mean(axis=0) >= 0.5
    mean = np.full(longest, np.nan)
    mean[enough] = np.nanmean(table[:, enough], axis=0)
    return EvaluationSeries("cluster", mean, series[0].interval_s, 0.0, 100.0)


def node_power(folder: Path) -> list[EvaluationSeries]:
    """Power of H100 nodes, a sample every two seconds; at most three nodes a run, every other run held out."""
    table = pd.read_parquet(folder / "mlperf40_h100_node_power_2s.parquet")
    recorded = []
    for number, (run, rows) in enumerate(sorted(table.groupby("run_id"))):
        for node in sorted(rows.node.unique())[:3]:
            own = rows[rows.node == node]
            grid = gridded(own.t_ms.to_numpy(np.int64), own.ac_w.to_numpy(float), 2000)
            if 240 <= len(grid) < 20_000:
                recorded.append(
                    EvaluationSeries(f"{run}/{node}", grid, 2.0, 0.0, None, "held-out" if number % 2 else "dev")
                )
    return recorded


def cloud(folder: Path) -> list[EvaluationSeries]:
    """Virtual machines and databases of a public cloud, every five minutes."""
    table = pd.read_parquet(folder / "nab_aws_cloudwatch_5min.parquet")
    recorded = []
    for key, rows in table.groupby("series"):
        at = (pd.to_datetime(rows.timestamp).astype("datetime64[s]").astype("int64")).to_numpy()
        values = gridded(at, rows.value.to_numpy(float), 300)
        recorded.append(EvaluationSeries(str(key), values, 300.0, 0.0, 100.0 if "cpu" in str(key) else None))
    return recorded


def own_jobs(folder: Path) -> list[EvaluationSeries]:
    """Processor time, IO and context switches of real processes, a sample a second; every other job held out."""
    table = pd.read_parquet(folder / "own_jobs_5hz.parquet")
    recorded = []
    for number, (job, rows) in enumerate(sorted(table.groupby("job"))):
        for column in ("cpu_pct", "rss_mb", "read_Bps", "write_Bps", "vctx_per_s"):
            values = rows[column].to_numpy(float)
            seconds = values[: len(values) // 5 * 5].reshape(-1, 5).mean(axis=1)
            if seconds.std() > 0:
                part: Part = "held-out" if number % 2 else "dev"
                recorded.append(EvaluationSeries(f"{job}/{column}", seconds, 1.0, 0.0, None, part))
    return recorded


def centre(folder: Path, name: str, interval_s: float) -> list[EvaluationSeries]:
    """Means over the data centre of this name."""
    return [one for one in centres(folder, interval_s) if name in one.key]


def centres(folder: Path, interval_s: float) -> list[EvaluationSeries]:
    """Means over whole data centres."""
    files = {
        300.0: ["cluster_cpu_alibaba2018_300s.csv", "cluster_cpu_google2019_300s_firsthalf.csv"],
        30.0: ["cluster_cpu_alibaba2018_30s.csv"],
    }
    recorded = []
    for name in files[interval_s]:
        table = pd.read_csv(folder / name)
        for column in table.columns.drop("step"):
            high = 100.0 if "percent" in column else None
            recorded.append(EvaluationSeries(f"{name}/{column}", table[column].to_numpy(float), interval_s, 0.0, high))
    return recorded
