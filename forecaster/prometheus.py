"""Back-fill from a Prometheus server: the last days of DCGM's and Paceline's metrics, by range queries.

Rule of this file: a door. What is asked is a table; blank values that DCGM sends for *not measured* are dropped, and
so is the mean over an interval that has one. No more of an answer is read than there is room for.
"""

import math
import time
from collections.abc import Iterator, Mapping
from dataclasses import dataclass

import httpx
import msgspec

from paceline.events import Time
from paceline.gpu.dcgm import FP64_BLANK, exported, measured
from paceline.gpu.exporter import node_of_labels
from paceline.schema import unit_of
from paceline.visible import visible

from .history import SAMPLES, SeriesSubject
from .memory import Memory
from .subjects import DEVICE, JOBS_S, NODES_S

#: Points of a series in one answer: of thousands of series they are a few ten megabytes.
POINTS = 500
MOST_BYTES = 64 * 2**20
TIMEOUT_S = 30.0


@dataclass(frozen=True)
class Metric:
    """A metric, the field it becomes, the unit of that, its factor, and its largest value where it has one."""

    name: str
    field: str
    unit: str
    factor: float = 1.0
    high: float | None = None
    interval_s: float = NODES_S


#: Per GPU; of several names of one thing the later ones are DCGM 4.6's.
DEVICES = tuple(
    Metric(name, column, unit_of(column), factor, 1.0 if column.endswith("_ratio") else None)
    for column in DEVICE
    for name, factor in exported(column)
)
#: Per job, by the label ``training_job``.
JOBS = (
    Metric("paceline_step_seconds", "step_s", "s", interval_s=JOBS_S),
    Metric("paceline_steps_per_second", "steps_per_s", "1/s", interval_s=JOBS_S),
)


class BackfillError(RuntimeError):
    """Prometheus cannot be read: cause and mend, in one line."""


class RefusedQueryError(ValueError):
    """Prometheus answers that it refuses a query, and why."""


class _Series(msgspec.Struct):
    metric: dict[str, str]
    values: list[tuple[Time, str]]


class _Data(msgspec.Struct):
    result: list[_Series]


class _Answer(msgspec.Struct):
    status: str
    data: _Data | None = None
    error: str = "no reason given"


_decoder = msgspec.json.Decoder(_Answer)
#: Labels, times and values of a series.
Row = tuple[dict[str, str], list[float], list[float]]


def backfill(url: str, memory: Memory, cluster: str = "default", now_s: float | None = None) -> int:
    """Fill ``memory`` from the server at ``url``; how many values were kept.

    Raises:
        BackfillError: it does not answer, or not as Prometheus does.
    """
    end_s = math.floor((time.time() if now_s is None else now_s) / NODES_S) * NODES_S
    kept = 0
    # What unpacks to more than it was is not asked for.
    with httpx.Client(base_url=url, timeout=TIMEOUT_S, headers={"Accept-Encoding": "identity"}) as client:
        for metric in (*DEVICES, *JOBS):
            for labels, times_s, values in _range(client, metric, end_s):
                subject = _subject(metric, labels, cluster)
                if subject is not None:
                    kept += memory.put(subject, times_s, values)
    return kept


def _subject(metric: Metric, labels: Mapping[str, str], cluster: str) -> SeriesSubject | None:
    """Whose values they are; None where the labels do not say."""
    cluster = labels.get("cluster", cluster)
    if metric in JOBS:
        job = labels.get("training_job")
        key = f"{cluster}/job/{job}/{metric.field}"
        return SeriesSubject(key, metric.unit, metric.interval_s, cluster, job=job, high=metric.high) if job else None
    node = node_of_labels(labels)
    device = labels.get("UUID") or labels.get("gpu")
    if not node or not device:
        return None
    key = f"{cluster}/device/{node}/{device}/{metric.field}"
    job = labels.get("hpc_job") or None
    return SeriesSubject(key, metric.unit, metric.interval_s, cluster, job, node, device, high=metric.high)


def _range(client: httpx.Client, metric: Metric, end_s: float) -> Iterator[Row]:
    step_s, query = metric.interval_s, mean(metric)
    begin_s, whole_s = end_s - SAMPLES * step_s, POINTS * step_s
    while begin_s < end_s:
        until_s = min(end_s, begin_s + whole_s)
        asked = {"query": query, "start": f"{begin_s + step_s:.3f}", "end": f"{until_s:.3f}", "step": f"{step_s:g}"}
        yield from _answer(client, metric, asked)
        begin_s = until_s


def mean(metric: Metric) -> str:
    """The query for the means over the intervals that end at each point, without those that have a blank in them.

    A blank is a number as any other to Prometheus: its mean with one that was measured looks like a reading.

    >>> mean(Metric("watts", "power_w", "W"))
    'avg_over_time(watts[60s]) and max_over_time(watts[60s]) < 140737488355328 and min_over_time(watts[60s]) >= 0'
    """
    span = f"{metric.name}[{metric.interval_s:g}s]"
    return f"avg_over_time({span}) and max_over_time({span}) < {FP64_BLANK:.0f} and min_over_time({span}) >= 0"


def _answer(client: httpx.Client, metric: Metric, asked: dict[str, str]) -> list[Row]:
    where = str(client.base_url).rstrip("/")
    try:
        with client.stream("POST", "/api/v1/query_range", data=asked) as response:
            content = _content(response)
    except httpx.HTTPError as error:
        cause = str(error) or type(error).__name__
        raise BackfillError(f"Prometheus at {where}: {cause}; check --prometheus") from error
    except httpx.InvalidURL as error:
        raise BackfillError(f"--prometheus {where}: {error}") from error
    if content is None:
        raise BackfillError(f"Prometheus at {where}: an answer of more than {MOST_BYTES:,} bytes; check --prometheus")
    try:
        return read(metric, content)
    except RefusedQueryError as error:
        raise BackfillError(f"Prometheus at {where}: {error}") from error
    except ValueError as error:
        said = f"status {response.status_code}, no answer of a Prometheus"
        raise BackfillError(f"Prometheus at {where}: {said}; check --prometheus") from error


def _content(response: httpx.Response) -> bytes | None:
    """What was answered, as it came; None where that is more than there is room for."""
    content = bytearray()
    for part in response.iter_raw():
        content += part
        if len(content) > MOST_BYTES:
            return None
    return bytes(content)


def read(metric: Metric, answer: bytes) -> list[Row]:
    """The series in an answer to a range query for ``metric``, without what is not measured.

    Raises:
        RefusedQueryError: Prometheus says that it refuses.
        ValueError: it is no answer of a Prometheus.
    """
    try:
        told = _decoder.decode(answer)
    except (msgspec.DecodeError, RecursionError) as error:
        raise ValueError(str(error)) from error
    if told.status != "success" or told.data is None:
        raise RefusedQueryError(visible(told.error)[:300])
    rows = []
    for series in told.data.result:
        points = [(at - metric.interval_s, measured(float(text))) for at, text in series.values]
        kept = [(at, value * metric.factor) for at, value in points if value is not None and at >= 0.0]
        rows.append((series.metric, [at for at, _ in kept], [value for _, value in kept]))
    return rows
