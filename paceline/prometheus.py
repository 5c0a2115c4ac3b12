"""What is asked of a Prometheus about DCGM's metrics, and how its answers are read.

Rule of this file: pure. What a metric cannot be, DCGM's blanks among it, is not measured: it is dropped and counted,
and so is the mean over an interval that has one. What a server says beside an answer (a part of the data is missing)
is kept.
"""

import math
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass

import msgspec

from paceline.decoders import json_decoder
from paceline.events import Time
from paceline.gpu.dcgm import measured
from paceline.gpu.limits import FP64_BLANK, blank, limit, possible
from paceline.visible import visible

#: No more of an answer is read.
MOST_BYTES = 64 * 2**20
MINUTE_S = 60.0
#: Warnings of one answer that are kept.
_MOST_WARNINGS = 8


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
    """Prometheus cannot be read: cause and fix, in one line."""


class RefusedQueryError(ValueError):
    """Prometheus answers that it refuses a query, and why."""


class _Series(msgspec.Struct):
    metric: dict[str, str]
    values: list[tuple[Time, str]]


class _Data(msgspec.Struct):
    result: list[_Series] | None


class _Answer(msgspec.Struct):
    """What servers written in Go have nothing of, some write as null."""

    status: str
    data: _Data | None = None
    error: str | None = None
    warnings: list[str] | None = None
    #: Of VictoriaMetrics: some of its storage did not answer.
    is_partial: bool = msgspec.field(name="isPartial", default=False)


_decoder = json_decoder(_Answer)
#: Labels, times and values of a series.
Row = tuple[dict[str, str], list[float], list[float]]


def mean(metric: Metric) -> str:
    """The query for the means over the intervals that end at each point, without those that have a blank in them.

    A blank is a number as any other to Prometheus: its mean with one that was measured looks like a reading.

    >>> mean(Metric("watts", "power_w", "W"))
    'avg_over_time(watts[60s]) and max_over_time(watts[60s]) <= 10000 and min_over_time(watts[60s]) >= 0'
    """
    return f"avg_over_time({_span(metric)}) and {highest(metric)}"


def highest(metric: Metric) -> str:
    """The query for the highest value in the intervals that end at each point, of those that ``mean`` tells.

    >>> highest(Metric("watts", "power_w", "W"))
    'max_over_time(watts[60s]) <= 10000 and min_over_time(watts[60s]) >= 0'
    """
    most = min(limit(metric.field).high / metric.factor, math.nextafter(FP64_BLANK, 0.0))
    return f"max_over_time({_span(metric)}) <= {most:.15g} and min_over_time({_span(metric)}) >= 0"


def _span(metric: Metric) -> str:
    return f"{metric.name}[{metric.interval_s:g}s]"


def asked(metric: Metric, begin_s: float, end_s: float, question: Callable[[Metric], str] = mean) -> dict[str, str]:
    """The parameters of a range query for the intervals between ``begin_s`` and ``end_s``."""
    step_s = metric.interval_s
    times = {"start": f"{begin_s + step_s:.3f}", "end": f"{end_s:.3f}", "step": f"{step_s:g}"}
    return {"query": question(metric), **times}


def read(metric: Metric, answer: bytes, left_out: Counter[str] | None = None) -> list[Row]:
    """The series in an answer to a range query for ``metric``, without what is not measured.

    The time of a value is where its interval begins. ``left_out`` counts the points that cannot be, and what the server
    says beside its answer.

    Raises:
        RefusedQueryError: Prometheus says that it refuses.
        ValueError: it is no answer of a Prometheus.
    """
    try:
        told = _decoder.decode(answer)
    except (msgspec.DecodeError, RecursionError) as error:
        raise ValueError(str(error)) from error
    if told.status != "success" or told.data is None:
        raise RefusedQueryError(visible(told.error or "no reason given")[:300])
    left_out = Counter() if left_out is None else left_out
    for warning in (told.warnings or [])[:_MOST_WARNINGS]:
        left_out[f"the answer is not complete: {visible(warning)[:200]}"] += 1
    if told.is_partial and not told.warnings:
        left_out["the answer is not complete: a part of its storage did not answer"] += 1
    return [(series.metric, *_points(metric, series.values, left_out)) for series in told.data.result or []]


def _points(metric: Metric, values: list[tuple[Time, str]], left_out: Counter[str]) -> tuple[list[float], list[float]]:
    """The times and values of a series, in our unit."""
    times_s, kept = [], []
    for at, text in values:
        raw = measured(float(text))
        if raw is None or at < metric.interval_s:
            continue
        value = raw * metric.factor
        if blank(raw) or not possible(metric.field, value):
            low, high, unit = limit(metric.field)
            left_out[f"points of {metric.name} that cannot be (from {low:g} to {high:g} {unit})"] += 1
            continue
        times_s.append(at - metric.interval_s)
        kept.append(value)
    return times_s, kept
