"""Forecasts of series, and what kind of job this is, its cycle and its end."""

from typing import Literal

import msgspec

from paceline.events.base import Count, Event, LongWord, Number, Seconds, Time, Whole, Word

#: The field of a cluster or node whose GPUs nobody uses; behind a field's name: the same by the quarter hour, which is
#: forecast a day ahead.
FREE_GPUS, BY_QUARTER_HOUR = "free_gpus", "_15min"


class Backtest(msgspec.Struct, frozen=True, kw_only=True):
    """How a forecast's model did at earlier moments of the same series, beside the seasonal naive one.

    Both are mean pinball losses in the series' unit, the median's being the absolute error; None is *not measured*:
    the history was too short. ``coverage_80_ratio`` is the share of values inside the 80 % interval.
    """

    moments: Count
    steps: Count
    loss: Number | None
    naive_loss: Number | None
    coverage_80_ratio: Number | None = None


class IntervalScore(msgspec.Struct, frozen=True, kw_only=True):
    """How what was published ``steps`` ahead did: of ``values`` that came, the share inside the 80 % interval.

    ``below_ratios``: for each of ``levels``, ascending, the share of the values at or below that quantile. Where
    forecasts are true, the two are equal. A value that equals several quantiles counts in part for each of them.
    """

    steps: Count
    values: Count
    inside_80_ratio: Number
    levels: list[Number] = []
    below_ratios: list[Number] = []


class Forecast(Event, frozen=True, kw_only=True):
    """What a series will do. Key: series.

    ``values`` has one row a step of the horizon and one number a level of ``levels``, ascending. Step ``i`` (from 1)
    is at ``time_s`` + i * ``interval_s``; ``time_s`` is the time of the newest value. ``unit`` is as in field names.
    ``busy_ratio`` is, a step, the probability of a value above the minimum, for series that often rest on it.
    ``recent_values`` are the newest it was made from, every ``interval_s`` and the last at ``time_s``; None is a gap.
    ``naive_values``, one a step, is what the seasonal naive forecast of the back-test says, or the plain one without a
    season; none where it cannot be made. No value is above ``maximum``: 1 of a ratio, the size of a memory.
    ``interval_scores`` are of the newest published forecasts of this series; none before values came.
    """

    cluster: LongWord
    series: str
    unit: LongWord
    job: LongWord | None = None
    node: LongWord | None = None
    device: LongWord | None = None
    time_s: Time
    interval_s: Seconds
    model: LongWord
    levels: list[Number]
    values: list[list[Number]]
    history: Count
    season_s: Seconds | None = None
    busy_ratio: list[Number] | None = None
    backtest: Backtest
    notes: list[str] = []
    recent_values: list[Number | None] = []
    naive_values: list[Number] = []
    maximum: Number | None = None
    interval_scores: list[IntervalScore] = []


JobKind = Literal["training", "inference", "interactive", "data_prep", "batch_inference", "idle", "unknown"]


class JobProfile(Event, frozen=True, kw_only=True):
    """What kind of job this is, its cycle and its end, as far as known; None is *unknown*. Key: job; compacted.

    ``cycle_period_s`` is None where there is no stable period; ``cycle_drift_ratio`` is its change from the
    first third of what was looked at to the last, as a share of it. The job ends between ``end_low_s`` and
    ``end_high_s`` with 80 %. ``time_s`` is of what was measured last; None is *never*.
    """

    cluster: LongWord
    job: LongWord
    attempt: Whole
    time_s: Time | None
    kind: JobKind | Word | None = None
    kind_probability: Number | None = None
    kind_probabilities: dict[str, Number] = {}
    cycle_period_s: Seconds | None = None
    cycle_confidence: Number | None = None
    cycle_next_s: Time | None = None
    cycle_drift_ratio: Number | None = None
    end_s: Time | None = None
    end_low_s: Time | None = None
    end_high_s: Time | None = None
    notes: list[str] = []
