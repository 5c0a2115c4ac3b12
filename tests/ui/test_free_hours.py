"""Free GPUs hour by hour: from quarter hours to hours of the clock, when enough are free, and how the page says it."""

import json
from datetime import UTC
from zoneinfo import ZoneInfo

import numpy as np
import pytest

from tests.ui.forecasts import day_ahead, forecast
from ui.forecast_book import ForecastBook
from ui.free_figure import free_chart
from ui.free_hours import FreeHour, free_hours, free_words, sure_stretches
from ui.theme import DARK

NOON_S = 1_800_014_400.0  # 15 January 2027, 12:00 UTC
HOUR_S = 3600.0


def held(event):
    book = ForecastBook()
    book.upsert(event, event.time_s)
    return book.all()[event.series]


def hour(number: int, sure: float, last: float = HOUR_S) -> FreeHour:
    start_s = NOON_S + number * HOUR_S
    return FreeHour(start_s, start_s + last, sure - 1.0, sure, sure + 2.0, sure + 4.0)


@pytest.mark.parametrize("late_s", [0.0, 900.0, 2700.0])
def test_hours_are_those_of_the_clock(late_s):
    """A day of quarter hours, whenever it begins: no hour twice, none left out, the parts of the ends as they are."""
    hours = free_hours(held(day_ahead(NOON_S + late_s)), NOON_S)
    assert (hours[0].start_s, hours[-1].end_s) == (NOON_S + late_s, NOON_S + late_s + 24 * HOUR_S)
    assert [one.end_s for one in hours[:-1]] == [one.start_s for one in hours[1:]]
    assert all(one.start_s % HOUR_S == 0.0 for one in hours[1:])
    assert len(hours) == (24 if late_s == 0.0 else 25)


@pytest.mark.parametrize(("hours", "left"), [(0.0, 24), (0.5, 24), (10.0, 14), (24.0, 0), (900.0, 0)])
def test_hours_that_are_over_are_not_told(hours, left):
    """A forecaster that has stopped leaves its forecast on the topic: nobody is sent to an hour of yesterday."""
    now_s = NOON_S + hours * HOUR_S
    kept = free_hours(held(day_ahead(NOON_S)), now_s)
    assert len(kept) == left
    assert all(one.end_s > now_s for one in kept)


def test_an_hour_is_as_free_as_its_worst_quarter():
    """A job that wants them for the hour wants them in each quarter."""
    event = day_ahead(NOON_S)
    rows = np.array(event.values)
    rows[5] = 1.0
    (_, second, *_) = free_hours(held(forecast(event.series, NOON_S, interval_s=900.0, values=rows.tolist())), NOON_S)
    assert (second.low, second.sure, second.median, second.high) == (1.0, 1.0, 1.0, 1.0)


@pytest.mark.parametrize(
    "changed", [{"levels": [0.1, 0.5], "values": [[1.0, 2.0]] * 9}, {"values": [[1e300] * 13] * 9}]
)
def test_what_is_no_forecast_of_free_gpus_has_no_hours(changed):
    """Another forecaster's, without these levels or of a number that no cluster has: nothing is made up of it."""
    assert free_hours(held(forecast("c/cluster/free_gpus_15min", NOON_S, interval_s=900.0, **changed)), NOON_S) == []


@pytest.mark.parametrize(
    ("time_s", "interval_s"), [(1e300, 900.0), (-1e9, 900.0), (NOON_S, 1e-6), (NOON_S, 30 * 86_400.0)]
)
def test_times_that_no_clock_has_break_nothing(time_s, interval_s):
    """They come from another process: each step is in one hour, and the page says something."""
    event = day_ahead(NOON_S)
    hours = free_hours(held(forecast(event.series, time_s, interval_s=interval_s, values=event.values)), -1e10)
    assert 1 <= len(hours) <= len(event.values)
    assert free_words(hours, 8, NOON_S, UTC)
    assert free_chart(hours, 8, UTC, DARK).data


@pytest.mark.parametrize(
    ("sure", "wanted", "stretches"),
    [
        ([8, 8, 3, 9], 8, [(0, 2), (3, 4)]),
        ([8, 8, 3, 9], 10, []),
        ([8, 8, 3, 9], 1, [(0, 4)]),
        ([], 1, []),
    ],
)
def test_hours_that_follow_each_other_are_one_stretch(sure, wanted, stretches):
    """From the first to the end of the last."""
    hours = [hour(number, float(one)) for number, one in enumerate(sure)]
    expected = [(NOON_S + first * HOUR_S, NOON_S + last * HOUR_S) for first, last in stretches]
    assert sure_stretches(hours, wanted) == expected


@pytest.mark.parametrize(
    ("sure", "words"),
    [
        ([8, 8, 3, 9], "8 or more GPUs are free from 12:00 to 14:00, from 15:00 to 16:00, with 80 % probability."),
        ([8, 8, 8], "8 or more GPUs are free throughout the next 3 h, with 80 % probability."),
        (
            [1, 5, 2],
            "In no hour of the next 3 h are 8 GPUs free with 80 % probability. Best is 13:00 to 14:00: 5 or more "
            "(80 %), 7 or more (50 %).",
        ),
        (
            [6.2, 7.6, 7.1],
            "In no hour of the next 3 h are 8 GPUs free with 80 % probability. Best is 13:00 to 14:00: 7 or more "
            "(80 %), 9 or more (50 %).",
        ),
        (
            [9, 0, 9, 0, 9, 0, 9, 0, 9, 0],
            "8 or more GPUs are free from 12:00 to 13:00, from 14:00 to 15:00, from 16:00 to 17:00, and 2 times later, "
            "with 80 % probability.",
        ),
    ],
)
def test_when_enough_are_free_is_one_sentence(sure, words):
    """Or when the most are, where enough never are."""
    hours = [hour(number, float(one)) for number, one in enumerate(sure)]
    assert free_words(hours, 8, NOON_S, UTC) == words


def test_each_hour_is_drawn_once():
    """Those with enough GPUs in a colour of their own; the interval around each."""
    hours = free_hours(held(day_ahead(NOON_S)), NOON_S)
    drawn = json.loads(free_chart(hours, 30, UTC, DARK).to_json())["data"]
    assert [trace["name"] for trace in drawn] == ["30 or more with 80 % probability", "fewer"]
    assert sorted(at for trace in drawn for at in trace["x"]) == sorted(
        f"2027-01-1{5 + (12 + number) // 24}T{(12 + number) % 24:02}:30:00" for number in range(24)
    )
    assert len(free_chart(hours, 1_000_000, UTC, DARK).data) == 1


def test_the_hour_that_comes_twice_is_drawn_and_named_twice():
    """On the night when clocks go back: each hour has its place, and a stretch says on which clock it begins."""
    first_s, zone = 1_792_879_200.0, ZoneInfo("Europe/Berlin")  # 25 October 2026, 00:00 there
    hours = [
        FreeHour(first_s + number * HOUR_S, first_s + (number + 1) * HOUR_S, sure, sure, sure, sure)
        for number, sure in enumerate([1.0, 1.0, 9.0, 1.0, 1.0, 1.0])
    ]
    times = [at for trace in free_chart(hours, 8, zone, DARK).data for at in trace.x]
    assert len(set(times)) == len(times) == 6
    words = free_words(hours, 8, first_s, zone)
    assert words == "8 or more GPUs are free from 02:00 CEST to 02:00 CET, with 80 % probability."


@pytest.mark.parametrize(("free", "wanted", "top"), [(0.0, 1, 1.0), (0.0, 8, 8.0), (11.0, 8, 11.0), (0.0, 64, 64.0)])
def test_hours_have_an_axis_of_whole_gpus(free, wanted, top):
    """From 0, which is a line to see, to what is free or wanted."""
    hours = [FreeHour(NOON_S, NOON_S + HOUR_S, 0.0, 0.0, free, free)]
    axis = free_chart(hours, wanted, UTC, DARK).layout.yaxis
    assert axis.range == pytest.approx((-0.04 * top, 1.04 * top))
    assert axis.dtick == (1 if top <= 12 else None)
