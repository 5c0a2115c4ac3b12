"""A cluster a day ahead: what is kept by the quarter hour, and what days and weeks say."""

from collections.abc import Callable

import numpy as np
import pytest

from forecaster import quarters
from forecaster.context import ForecastContext
from forecaster.forecast import forecast
from forecaster.held_forecast import DAY_AHEAD, LEVELS, question
from forecaster.history import SAMPLES, History, SeriesSubject
from forecaster.memory import Memory
from forecaster.models.calendar import FEWEST_DAYS, calendar
from forecaster.models.model import UnsuitedError
from forecaster.models.registry import shipped
from forecaster.question import Question
from forecaster.series import Array, Series
from forecaster.standing_forecasts import StandingForecasts

DAY, WEEK = 96, 672
MEDIAN = LEVELS.index(0.5)
MINUTES = SeriesSubject("c/cluster/free_gpus", "GPUs", 60.0, "c", high=64.0)
KEY = "c/cluster/free_gpus_15min"


def ahead(values: Array, interval_s: float = 900.0, horizon: int = DAY) -> Array:
    """The median that days and weeks alone say."""
    context = ForecastContext(Series.of(values, interval_s), horizon, np.array(LEVELS))
    return np.asarray(calendar(context)[:, MEDIAN])


def week(weeks: int, rest: tuple[int, ...] = (5, 6), noise: float = 0.0) -> Array:
    """Use by day, little of it on days of ``rest``; days count from the first."""
    at = np.arange(weeks * WEEK)
    values = 20.0 + 10.0 * np.sin(2.0 * np.pi * at / DAY) * np.where(np.isin(at // DAY % 7, rest), 0.2, 1.0)
    return np.asarray(values + noise * np.random.default_rng(1).standard_normal(len(at)))


@pytest.mark.parametrize("rest", [(5, 6), (4, 5), (0,), ()])
@pytest.mark.parametrize("days", [0, 1, 4, 5])
def test_a_week_end_is_known_wherever_it_lies(rest: tuple[int, ...], days: int) -> None:
    """No day has a name: from weeks that end on any day the next one is forecast, also the first after a change."""
    whole = week(6, rest, noise=0.5)
    end = 4 * WEEK + days * DAY
    came = week(6, rest)[end : end + DAY]
    error, of_yesterday = (np.abs(made - came).mean() for made in (ahead(whole[:end]), week(6, rest)[end - DAY : end]))
    assert error < (0.5 * of_yesterday if of_yesterday > 1.0 else 2.5)


def test_an_unusual_moment_fades() -> None:
    """What is far from usual now is nearer to it hour by hour, as it was after earlier such moments."""
    rng = np.random.default_rng(2)
    deviation = np.zeros(4 * WEEK)
    for at in range(1, len(deviation)):
        deviation[at] = 0.9 * deviation[at - 1] + rng.standard_normal()
    deviation[-1] = 12.0
    off = ahead(week(4) + deviation) - week(5)[4 * WEEK : 4 * WEEK + DAY]
    assert off[0] == pytest.approx(0.9 * 12.0, abs=3.0)
    assert abs(off[-10:].mean()) < 2.0


@pytest.mark.parametrize(
    ("interval_s", "days"),
    [(60.0, 9), (900.0, FEWEST_DAYS - 1), (1000.0, 9), (90_000.0, 400)],
    ids=["too fine", "too short", "no whole day", "coarser than a day"],
)
def test_what_it_cannot_do_it_says(interval_s: float, days: int) -> None:
    """Others forecast such a series alone."""
    values = np.random.default_rng(3).random(round(days * 86_400 / interval_s))
    with pytest.raises(UnsuitedError):
        ahead(values, interval_s, 10)


@pytest.mark.parametrize("measured", [1.0, 0.4, 0.1])
def test_gaps_are_no_zeros(measured: float) -> None:
    """However few values there are, those that are missing say nothing: the level stays."""
    values = week(4)
    values[np.random.default_rng(4).random(len(values)) > measured] = np.nan
    values[0] = values[-1] = 20.0
    made = ahead(values)
    assert np.isfinite(made).all()
    assert made.mean() == pytest.approx(20.0, abs=3.0)


@pytest.mark.parametrize("values", [np.full(WEEK, 7.0), np.zeros(WEEK), np.full(WEEK, 1e300), np.full(WEEK, 1e-300)])
def test_a_cluster_that_stays_as_it_is(values: Array) -> None:
    """Nothing is made of nothing, and no number is too large or too small."""
    asked = Question(values, 900.0, DAY, np.array(LEVELS), 0.0)
    assert forecast(asked, shipped()).values == pytest.approx(np.full((DAY, len(LEVELS)), values[0]), rel=1e-6)


@pytest.mark.long
@pytest.mark.parametrize(
    ("values", "least", "most"),
    [
        (week(4, noise=1.0), 0.5, 0.9),
        (week(1, noise=1.0)[: 3 * DAY], 0.0, 0.0),
        (np.arange(4.0 * WEEK), 0.0, 0.05),
        (np.cumsum(np.random.default_rng(7).random(4 * WEEK)), 0.0, 0.05),
    ],
    ids=["weeks", "three days", "a rise", "a counter"],
)
def test_its_share_is_by_how_it_does_beside_the_others(values: Array, least: float, most: float) -> None:
    """Most of what weeks say alone, none of what only grows; the back-test is of all together."""
    made = forecast(Question(values, 900.0, DAY, np.array(LEVELS), 0.0), shipped())
    assert least <= made.weights.get("calendar", 0.0) <= most
    assert sum(made.weights.values()) == pytest.approx(1.0)
    assert made.moments > 0
    assert made.loss is not None


@pytest.fixture
def minute() -> Callable[..., History]:
    """A history of minutes, from a list of values that begin at a time; NaN is not sent."""

    def kept(values: Array, first_s: float = 0.0, order: Array | None = None) -> History:
        history = History()
        for at in range(len(values)) if order is None else order:
            if np.isfinite(values[at]):
                quarters.put(history, MINUTES, first_s + 60.0 * float(at), float(values[at]))
        return history

    return kept


def quarter_hours(history: History) -> list[float]:
    """What is held by the quarter hour."""
    track = history.find(KEY)
    return [] if track is None else track.values().tolist()


def test_a_quarter_hour_is_known_when_it_is_over(minute: Callable[..., History]) -> None:
    """Never before, at whatever minute the values begin; half of its minutes are enough."""
    values = np.arange(60.0)
    assert quarter_hours(minute(values[:14])) == []
    assert quarter_hours(minute(values[:15])) == [7.0]
    assert quarter_hours(minute(values[:44])) == [7.0, 22.0]
    assert quarter_hours(minute(values[:45])) == [7.0, 22.0, 37.0]
    assert quarter_hours(minute(values[:40], 60.0 * 7)) == [3.5, 15.0, 30.0]
    assert quarter_hours(minute(values[:30], 60.0 * 8)) == [14.0]


def test_minutes_come_in_any_order_and_may_be_missing(minute: Callable[..., History]) -> None:
    """Late ones are counted in, missing ones left out; a last minute that never comes is no loss."""
    values = np.random.default_rng(5).random(90)
    order = np.concatenate([[89], np.random.default_rng(6).permutation(89)])
    assert quarter_hours(minute(values, order=order)) == pytest.approx(quarter_hours(minute(values)))
    values[[3, 7, 14, 44]] = np.nan
    expected = [float(np.nanmean(values[at : at + 15])) for at in range(0, 90, 15)]
    assert quarter_hours(minute(values)) == pytest.approx(expected)


def test_an_outage_takes_no_quarter_hour_with_it(minute: Callable[..., History]) -> None:
    """That in which it began is over when the next sample comes, hours later."""
    values = np.full(120, 4.0)
    values[28:75] = np.nan
    assert quarter_hours(minute(values)) == pytest.approx([4.0, 4.0, *[np.nan] * 3, 4.0, 4.0, 4.0], nan_ok=True)


def test_what_is_taken_back_changes_its_quarter_hour(minute: Callable[..., History]) -> None:
    """An aggregate of which GPUs are found to be missing is not measured."""
    history = minute(np.arange(30.0))
    for at in range(8):
        quarters.put(history, MINUTES, 60.0 * at, float("nan"))
    assert quarter_hours(history) == [22.0]


def test_only_clusters_are_kept_twice(minute: Callable[..., History]) -> None:
    """Ten thousand GPUs have no second series each; nor has a series of a name that looks like one."""
    for key in ("c/device/n/g/power_w", "c/node/n/free_gpus", "c/cluster/own", "x/cluster/free_gpus", KEY):
        assert quarters.of(SeriesSubject(key, "", 60.0, "c")) is None
    assert quarters.of(SeriesSubject("a/b/cluster/free_gpus", "", 60.0, "a/b")) is not None
    for interval_s in (3600.0, 900.0, 400.0, 7.0):  # Whoever posts a series says how far apart its values are.
        assert quarters.of(SeriesSubject("posted/cluster/free_gpus", "", interval_s, "posted")) is None


@pytest.mark.slow
def test_weeks_are_kept_where_minutes_are_not() -> None:
    """After a month the minutes hold three days, the quarter hours all, and a day of them is published."""
    memory, minutes = Memory(), 28 * 1440
    free = np.repeat(week(4, noise=0.5), 15)
    memory.put(MINUTES, [60.0 * at for at in range(minutes)], free.tolist())
    held, whole = memory.find(MINUTES.key), memory.find(KEY)
    assert held is not None
    assert whole is not None
    assert (len(held.values), len(whole.values)) == (SAMPLES, 4 * WEEK)
    assert question(whole).horizon == DAY_AHEAD
    standing = StandingForecasts(memory, shipped())
    made = standing.forecasts([KEY])[KEY]
    assert (len(made.values), made.interval_s, made.maximum) == (DAY_AHEAD, 900.0, 64.0)
    median = np.array(made.values)[:, made.levels.index(0.5)]
    assert np.abs(median - week(5)[4 * WEEK : 4 * WEEK + DAY]).mean() < 4.0  # yesterday: 5.1
