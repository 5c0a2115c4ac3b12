import numpy as np
import pytest

from tests.ui.forecasts import forecast, profile
from ui.forecast_book import ForecastBook, ProfileBook, scope_of

NOW_S = 1_000_000.0
FREE = "default/cluster/free_gpus"


def test_the_newest_forecast_of_a_series_counts_whatever_the_order():
    """Repeated and late messages change nothing."""
    book = ForecastBook()
    for at_s, model in ((20.0, "b"), (10.0, "a"), (20.0, "late"), (30.0, "c")):
        book.upsert(forecast(FREE, NOW_S, model=model), at_s)
    assert book.all()[FREE].event.model == "c"
    book.upsert(forecast(FREE, NOW_S, model="repeated"), 30.0)
    assert book.all()[FREE].event.model == "c"


@pytest.mark.long
def test_of_too_many_series_single_devices_go_first():
    """The cluster's forecast is never pushed out by those of its GPUs."""
    book = ForecastBook(most=80)
    book.upsert(forecast(FREE, NOW_S), 0.0)
    for number in range(300):
        book.upsert(forecast(f"default/device/n/GPU-{number}/power_w", NOW_S), float(number))
    assert FREE in book.all()
    assert len(book.all()) <= 90


def test_forecasts_larger_than_ours_leave_room_for_the_whole():
    """However large each is, all together are bounded, and the cluster's stays."""
    book = ForecastBook(most=80, cells=20_000)
    book.upsert(forecast(FREE, NOW_S), 0.0)
    large = {"values": [[1.0] * 13] * 300, "naive_values": []}
    for number in range(40):
        book.upsert(forecast(f"default/device/n/GPU-{number}/power_w", NOW_S, **large), float(number))
    assert FREE in book.all()
    assert sum(one.fan.size for one in book.all().values()) <= 20_000
    assert "default/device/n/GPU-39/power_w" in book.all()


def test_levels_come_in_any_order_and_twice():
    """Both levels and values are ascending then; quantiles that cross are put right."""
    book = ForecastBook()
    book.upsert(forecast(FREE, NOW_S, levels=[0.9, 0.1, 0.5, 0.5], values=[[1.0, 9.0, 4.0, 4.0]] * 2), 0.0)
    one = book.all()[FREE]
    assert one.levels.tolist() == [0.1, 0.5, 0.9]
    assert one.fan.tolist() == [[1.0, 4.0, 9.0]] * 2
    assert one.level(0.25) is None


REFUSED = {
    "no steps": {"values": []},
    "no levels": {"levels": [], "values": [[]] * 3},
    "ragged": {"values": [[1.0] * 13, [1.0] * 12]},
    "no time between steps": {"interval_s": 0.0},
    "back in time": {"interval_s": -60.0},
    "a level of 1": {"levels": [0.1, 0.5, 1.0], "values": [[1.0, 2.0, 3.0]]},
    "a step an age": {"interval_s": 9e10},
    "too many steps": {"values": [[1.0] * 13] * 3_000},
    "too many levels": {"levels": [n / 100 for n in range(1, 99)], "values": [[1.0] * 98]},
}


@pytest.mark.parametrize("what", REFUSED)
def test_what_cannot_be_drawn_is_refused(what):
    """The reader counts it as unusable, with the reason; what was held stays."""
    book = ForecastBook()
    book.upsert(forecast(FREE, NOW_S), 0.0)
    with pytest.raises(ValueError, match="a forecast"):
        book.upsert(forecast(FREE, NOW_S, **REFUSED[what]), 1.0)
    assert len(book.all()[FREE].fan) == 60


def test_columns_of_other_lengths_are_left_out():
    """A naive forecast or a probability that is not one a step is none; gaps of the past stay gaps."""
    book = ForecastBook()
    odd = {"naive_values": [1.0] * 7, "busy_ratio": [0.5] * 61, "recent_values": [None, 2.0, None]}
    book.upsert(forecast(FREE, NOW_S, **odd), 0.0)
    one = book.all()[FREE]
    assert (one.naive.size, one.busy.size) == (0, 0)
    assert np.isnan(one.past).tolist() == [True, False, True]
    assert one.past_times_s.tolist() == [NOW_S - 120.0, NOW_S - 60.0, NOW_S]
    assert one.times_s[0] == NOW_S + 60.0


def test_profiles_are_of_the_newest_run():
    """An older profile changes nothing; a job that is launched again may begin at a lower attempt."""
    book = ProfileBook(most=16)
    book.upsert(profile("a", NOW_S, attempt=1, kind="training"), 5.0)
    book.upsert(profile("a", NOW_S, attempt=1, kind="idle"), 4.0)
    assert [one.kind for one in book.all().values()] == ["training"]
    book.upsert(profile("a", NOW_S, attempt=0, kind="idle"), 6.0)
    assert [one.kind for one in book.all().values()] == ["idle"]
    for number in range(100):
        book.upsert(profile(f"job-{number}", NOW_S), float(number))
    assert len(book.all()) <= 18


@pytest.mark.parametrize(
    ("key", "scope"),
    [(FREE, "cluster"), ("c/job/a/b/step_s", "job"), ("c/d", "other"), ("x", "other"), ("c/planet/x/y", "other")],
)
def test_what_a_series_is_of(key, scope):
    """By its key; a name that somebody made up is of something else."""
    assert scope_of(key) == scope
