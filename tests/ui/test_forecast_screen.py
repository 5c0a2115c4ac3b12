import json
from datetime import UTC

import pytest

from paceline import topics
from tests.ui.forecasts import forecast, profile
from tests.ui.opened_app import opened, text_of
from ui.feed import Feed
from ui.figure_frame import as_csv
from ui.forecast_book import ForecastBook
from ui.forecast_figure import busy_chart, fan_chart
from ui.theme import DARK

pytestmark = pytest.mark.filterwarnings("ignore::DeprecationWarning")
NOW_S = 1_000_000.0
FREE = "default/cluster/free_gpus"
MEMORY = "default/device/gpu-01/GPU-7/fb_used_bytes"


def script(source):
    from ui.screens import forecast as screen

    screen.show(source)


@pytest.fixture
def open_page(snapshot_of):
    """The forecast page over a feed."""

    def open_page(feed, query=None, **changed):
        given = {"now_s": NOW_S + 30.0, **changed}
        return opened(script, (lambda job, rank=None: snapshot_of(feed, **given),), query)

    return open_page


@pytest.fixture
def heard(tell):
    """A feed that has heard these forecasts and profiles."""

    def heard(*said, at_s=NOW_S):
        feed = Feed()
        known = {"Forecast": topics.FORECAST, "JobProfile": topics.PROFILE}
        tell(feed, [(known[type(one).__name__], one) for one in said], at_s)
        return feed

    return heard


def drawn(app, place=0):
    return json.loads(app.get("plotly_chart")[place].proto.spec)


def test_the_picture_has_history_intervals_median_and_the_naive_forecast(heard, open_page):
    """Everything that the forecaster sent is drawn, with its unit."""
    picture = drawn(open_page(heard(forecast(FREE, NOW_S, maximum=16.0))))
    names = [trace["name"] for trace in picture["data"]]
    bands = [name for share in (95, 80, 50) for name in (f"{share} %, low", f"{share} %")]
    assert names == [*bands, "measured", "naive", "median"]
    assert picture["layout"]["yaxis"]["title"]["text"] == "free GPUs"


@pytest.mark.slow
def test_the_cluster_comes_first_and_a_link_chooses(heard, open_page):
    """Without a link the whole is shown; with one, what it names; the choice goes into the address."""
    feed = heard(forecast(MEMORY, NOW_S, unit="bytes"), forecast(FREE, NOW_S), forecast("default/job/a/step_s", NOW_S))
    app = open_page(feed)
    assert app.selectbox(key="series").value == FREE
    assert "Cluster" not in app.selectbox(key="series").options[0]
    assert open_page(feed, {"series": MEMORY}).selectbox(key="series").value == MEMORY
    app.selectbox(key="series").select("default/job/a/step_s").run()
    assert app.query_params["series"] in ("default/job/a/step_s", ["default/job/a/step_s"])


def test_search_narrows_the_series(heard, open_page):
    """Words of a name or key; words that nothing has are told."""
    app = open_page(heard(forecast(FREE, NOW_S), forecast(MEMORY, NOW_S, unit="bytes")))
    app.text_input(key="series_words").set_value("gpu-01 MEMORY").run()
    assert app.selectbox(key="series").value == MEMORY
    app.text_input(key="series_words").set_value("nothing of the kind").run()
    assert not app.exception
    assert "None of 2 series has these words." in [one.value for one in app.caption]


def test_free_gpus_tonight(heard, open_page):
    """When most GPUs are free, out of how many, and how far the forecast sees."""
    shown = text_of(open_page(heard(forecast(FREE, NOW_S, maximum=16.0))))
    assert "GPUs free in cluster default" in shown
    assert "most from 14:00 to 14:15, 80 %: 9 to 12" in shown
    assert "it sees 60 min ahead" in shown


def test_profiles_say_kind_cycle_and_end(heard, open_page):
    """With a probability, the next occurrence, and how far off the end is; unknown stays unknown."""
    nothing = {"kind": "unknown", "kind_probability": 0.4, "kind_probabilities": {"inference": 0.4}}
    nothing |= {"cycle_period_s": None, "cycle_next_s": None, "end_s": None}
    shown = text_of(open_page(heard(profile("a", NOW_S), profile("b", NOW_S, **nothing))))
    wanted = ["training 99 %", "every 20 min, confidence 93 %", "in 4 min 42 s", "in 3 h 2 min"]
    wanted += [
        "unknown (at most inference, 40 %)",
        "no stable period",
        "unknown: without a total of steps (paceline run --total-steps N)",
    ]
    assert [words for words in wanted if words not in shown] == []


@pytest.mark.parametrize("time_s", [None, 0.0])
def test_a_job_that_was_never_measured_has_no_age(heard, open_page, time_s):
    """A forecaster of an earlier version says 0, which is no day in 1970."""
    shown = text_of(open_page(heard(profile("a", NOW_S, time_s=time_s, end_s=None, cycle_next_s=None))))
    assert "never measured" in shown
    assert "days ago" not in shown


def test_memory_that_fills_is_told_with_its_times(heard, open_page):
    """Both when the first tenth of futures is full and when half are."""
    rising = forecast(MEMORY, NOW_S, unit="bytes", middle=70 * 2**30, swing=12 * 2**30, maximum=80.0 * 2**30)
    shown = text_of(open_page(heard(rising)))
    assert "GPU GPU-7 of gpu-01: GPU memory used" in shown
    assert "80.0 GiB" in shown
    assert "half full" in shown


GATES = {
    "worse than naive: withheld": {
        "model": "seasonal_naive",
        "notes": ["the pool lost to seasonal_naive in the back-test, which answers for 100%"],
    },
    "partly naive": {"notes": ["the pool lost to seasonal_naive in the back-test, which answers for 40%"]},
    "38 % better than naive": {},
}


@pytest.mark.parametrize("title", GATES)
def test_the_badge_says_how_far_to_trust_it(heard, open_page, title):
    """What the gate withheld, and what the back-test measured."""
    shown = text_of(open_page(heard(forecast(FREE, NOW_S, **GATES[title]))))
    assert title in shown
    assert "loss 0.61 against 0.98" in shown
    assert "held 82 %" in shown


@pytest.mark.slow
def test_without_a_forecaster_the_command_is_named(heard, open_page, simulated_job, tell):
    """No windows, then windows but no forecaster: two causes, two mends."""
    assert "paceline streams" in text_of(open_page(Feed()))
    feed = Feed()
    tell(feed, [simulated_job.window(NOW_S, 99)], NOW_S)
    shown = text_of(open_page(feed))
    assert "No forecaster has spoken" in shown
    assert "paceline forecaster" in shown
    tell(feed, [(topics.PROFILE, profile("a", NOW_S))], NOW_S)
    shown = text_of(open_page(feed))
    assert "No forecast yet" in shown
    assert "No forecaster has spoken" not in shown


@pytest.mark.slow
def test_old_forecasts_and_clocks_hours_apart_are_told(heard, open_page):
    """A forecaster that stopped, and one whose times are ahead of ours."""
    assert "No new forecast for 2 h" in text_of(open_page(heard(forecast(FREE, NOW_S)), now_s=NOW_S + 7200.0))
    assert "ahead of this page" in text_of(open_page(heard(forecast(FREE, NOW_S + 4 * 3600.0))))


def test_a_lost_broker_keeps_the_last_forecasts(heard, open_page):
    """The cause above, the picture below."""
    app = open_page(heard(forecast(FREE, NOW_S)), state="lost", cause="connection refused")
    assert "connection refused" in text_of(app)
    assert app.get("plotly_chart")


def test_an_unknown_series_in_a_link_is_told(heard, open_page):
    """Another one is shown, and why."""
    shown = text_of(open_page(heard(forecast(FREE, NOW_S)), {"series": "default/job/<b>gone</b>/step_s"}))
    assert "No forecast of default/job/&lt;b&gt;gone&lt;/b&gt;/step_s has been heard" in shown


def test_a_series_that_rests_shows_its_probability_to_be_busy(heard, open_page):
    """A second picture, in percent."""
    app = open_page(heard(forecast(FREE, NOW_S, busy_ratio=[0.25] * 60)))
    assert drawn(app, 1)["data"][0]["type"] == "bar"


def test_a_forecaster_of_a_release_before_is_drawn(heard, open_page):
    """Without past values, naive forecast and levels of 95 %: what is there is drawn, what is not is said."""
    old = {"recent_values": [], "naive_values": [], "levels": [0.1, 0.5, 0.9], "values": [[1.0, 2.0, 3.0]] * 60}
    app = open_page(heard(forecast(FREE, NOW_S, **old)))
    assert [trace["name"] for trace in drawn(app)["data"]] == ["80 %, low", "80 %", "median"]
    assert any("no history is drawn" in one.value for one in app.caption)


ABSURD = {
    "huge": {
        "values": [[1e30] * 13] * 3,
        "naive_values": [-1e30] * 3,
        "recent_values": [1e30, None],
        "unit": "x" * 500,
    },
    "zero": {"values": [[0.0] * 13], "recent_values": [None], "naive_values": [], "maximum": 0.0},
    "negative": {"values": [[-1.0] * 13] * 2, "recent_values": [-5.0], "maximum": -2.0},
    "tiny steps": {"interval_s": 1e-9},
    "year 5138": {"time_s": 9.9e10},
    "1970": {"time_s": 0.0},
    "one level": {"levels": [0.37], "values": [[1.0]] * 9, "naive_values": []},
    "levels unsorted": {"levels": [0.9, 0.1, 0.5], "values": [[3.0, 1.0, 2.0]] * 9, "naive_values": []},
    "losses": {"backtest": {"moments": 0, "steps": 0, "loss": 0.0, "naive_loss": 0.0, "coverage_80_ratio": -7.0}},
    "names": {"series": "<img src=x onerror=alert(1)>/" * 40, "model": "<b>" * 99, "notes": ["<script>" * 99] * 99},
    "template": {"unit": "%{customdata}", "series": "default/cluster/%{y}"},
}


@pytest.mark.parametrize("what", ABSURD)
def test_absurd_forecasts_are_drawn_or_refused_and_never_break_the_page(what, open_page, tell):
    """Whatever decodes leaves a page; no string of it becomes markup."""
    from msgspec import convert

    from paceline import events

    changed = dict(ABSURD[what])
    if "backtest" in changed:
        changed["backtest"] = convert(changed["backtest"], events.Backtest)
    feed = Feed()
    tell(feed, [(topics.FORECAST, forecast(FREE, NOW_S, **changed))], NOW_S)
    shown = text_of(open_page(feed))
    assert "<img" not in shown
    assert "<script" not in shown
    assert "<b><b>" not in shown


def test_the_picture_exports_its_numbers():
    """Both edges of each band, with times and the unit."""
    book = ForecastBook()
    book.upsert(forecast(FREE, NOW_S, unit="bytes", busy_ratio=[0.5] * 60), NOW_S)
    one = book.all()[FREE]
    lines = as_csv(fan_chart(one, UTC, DARK)).decode().splitlines()
    assert lines[0] == 'series,"time, UTC","free GPUs, bytes"'
    assert {line.split(",1970")[0] for line in lines[1:]} >= {'"95 %, low"', "95 %", "measured", "naive", "median"}
    assert len(as_csv(busy_chart(one, UTC, DARK)).splitlines()) == 61
