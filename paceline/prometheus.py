"""What is asked of a Prometheus about DCGM's metrics, and how its answers are read.

Rule of this file: pure. Blank values that DCGM sends for *not measured* are dropped, and so is the mean over an
interval that has one.
"""

from collections.abc import Callable
from dataclasses import dataclass

import msgspec

from paceline.events import Time
from paceline.gpu.dcgm import FP64_BLANK, measured
from paceline.visible import visible

#: No more of an answer is read.
MOST_BYTES = 64 * 2**20
MINUTE_S = 60.0


@dataclass(frozen=True)
class Metric:
    """A metric, the field it becomes, the unit of that, its factor, and its largest value where it has one."""

    name: str
    field: str
    unit: str
    factor: float = 1.0
    high: float | None = None
    interval_s: float = MINUTE_S


class PrometheusError(RuntimeError):
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


def mean(metric: Metric) -> str:
    """The query for the means over the intervals that end at each point, without those that have a blank in them.

    A blank is a number as any other to Prometheus: its mean with one that was measured looks like a reading.

    >>> mean(Metric("watts", "power_w", "W"))
    'avg_over_time(watts[60s]) and max_over_time(watts[60s]) < 140737488355328 and min_over_time(watts[60s]) >= 0'
    """
    span = f"{metric.name}[{metric.interval_s:g}s]"
    return f"avg_over_time({span}) and max_over_time({span}) < {FP64_BLANK:.0f} and min_over_time({span}) >= 0"


def highest(metric: Metric) -> str:
    """The query for the highest value in the intervals that end at each point, of those that ``mean`` tells.

    >>> highest(Metric("watts", "power_w", "W"))
    'max_over_time(watts[60s]) < 140737488355328 and min_over_time(watts[60s]) >= 0'
    """
    span = f"{metric.name}[{metric.interval_s:g}s]"
    return f"max_over_time({span}) < {FP64_BLANK:.0f} and min_over_time({span}) >= 0"


def asked(metric: Metric, begin_s: float, end_s: float, question: Callable[[Metric], str] = mean) -> dict[str, str]:
    """The parameters of a range query for the intervals between ``begin_s`` and ``end_s``."""
    step_s = metric.interval_s
    times = {"start": f"{begin_s + step_s:.3f}", "end": f"{end_s:.3f}", "step": f"{step_s:g}"}
    return {"query": question(metric), **times}


def read(metric: Metric, answer: bytes) -> list[Row]:
    """The series in an answer to a range query for ``metric``, without what is not measured.

    The time of a value is where its interval begins.

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
