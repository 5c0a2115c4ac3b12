"""Forecasts against what came: by what later forecasts say that they were made from."""

import pytest

from paceline.events import Backtest, Forecast
from streams.reports.forecast_scores import ForecastScores


def forecast(at, median, recent, **changes):
    held = {
        "cluster": "c", "series": "free", "unit": "gpus", "time_s": at * 60.0, "interval_s": 60.0, "model": "m",
        "levels": [0.1, 0.5, 0.9], "values": [[median - 1, median, median + 1]] * 5, "history": 10,
        "backtest": Backtest(moments=1, steps=1, loss=None, naive_loss=None), "recent_values": recent,
    }  # fmt: skip
    return Forecast(**(held | changes))


@pytest.fixture
def scores_of():
    def of(*forecasts):
        scores = ForecastScores()
        for one in forecasts:
            scores.update(one)
        return scores

    return of


def test_an_error_is_what_came_less_what_was_foretold(scores_of):
    """Five minutes foretold as 10, and 10, 10.5, 12 came."""
    (score,) = scores_of(forecast(100, 10.0, []), forecast(103, 11.0, [10.0, 10.5, 12.0])).scores()
    assert (score.forecasts, score.values) == (1, 3)
    assert score.error == pytest.approx(2.5 / 3)
    assert score.covered_ratio == pytest.approx(2 / 3)


def test_a_value_scores_a_forecast_once(scores_of):
    """Recent values overlap from one forecast to the next."""
    (score,) = scores_of(
        forecast(100, 10.0, []), forecast(101, 10.0, [10.0]), forecast(102, 10.0, [10.0, 10.0])
    ).scores()
    assert score.values == 3  # the first forecast twice, the second once


def test_gaps_and_repetitions_score_nothing(scores_of):
    """None is not measured, and a forecast told twice is told once."""
    scores = scores_of(forecast(100, 10.0, []), forecast(100, 10.0, [9.0]), forecast(101, 10.0, [None]))
    assert scores.scores() == []


def test_without_a_median_nothing_is_scored(scores_of):
    """Nor where a row has not a value a level, or an interval no length."""
    broken = [
        forecast(100, 10.0, [], levels=[0.2, 0.8], values=[[1.0, 2.0]]),
        forecast(100, 10.0, [], series="b", values=[[1.0]]),
        forecast(100, 10.0, [], series="c", interval_s=0.0),
    ]
    scores = scores_of(*broken, forecast(101, 1.0, [1.0]), forecast(101, 1.0, [1.0], series="b"))
    assert scores.scores() == []


def test_the_naive_error_is_over_the_same_values(scores_of):
    """Else it is not told."""
    naive = forecast(100, 10.0, [], naive_values=[8.0] * 5)
    (score,) = scores_of(naive, forecast(102, 1.0, [10.0, 10.0])).scores()
    assert (score.error, score.naive_error) == (0.0, 2.0)


def test_what_is_to_come_is_of_the_cluster_alone(scores_of):
    """Forecasts of a job are its own."""
    scores = scores_of(forecast(100, 10.0, []), forecast(100, 1.0, [], series="job", job="j"))
    assert [one.series for one in scores.next()] == ["free"]
