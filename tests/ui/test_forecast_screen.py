import json
from datetime import UTC

import numpy as np
import pytest

from paceline import events, topics
from tests.ui.forecasts import day_ahead, forecast, profile
from tests.ui.opened_app import opened, text_of
from ui import profile_words
from ui.calibration_figure import calibration_chart
from ui.feed import Feed
from ui.figure_frame import as_csv
from ui.forecast_book import ForecastBook
from ui.forecast_figure import busy_chart, fan_chart
from ui.forecast_view import badge, held_words, staleness
from ui.moments import as_of
from ui.screens.forecast import notice_of
from ui.theme import DARK

pytestmark = [pytest.mark.long, pytest.mark.filterwarnings("ignore::DeprecationWarning")]
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


def held(one):
    book = ForecastBook()
    book.upsert(one, NOW_S)
    return book.all()[one.series]


def drawn(app, place=0):
    return json.loads(app.get("plotly_chart")[place].proto.spec)


@pytest.mark.slow
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


@pytest.mark.slow
def test_search_narrows_the_series(heard, open_page):
    """Words of a name or key; words that nothing has are told."""
    app = open_page(heard(forecast(FREE, NOW_S), forecast(MEMORY, NOW_S, unit="bytes")))
    app.text_input(key="series_words").set_value("gpu-01 MEMORY").run()
    assert app.selectbox(key="series").value == MEMORY
    app.text_input(key="series_words").set_value("nothing of the kind").run()
    assert not app.exception
    assert "None of 2 series matches." in [one.value for one in app.caption]


def test_free_gpus_tonight(heard, open_page):
    """When most GPUs are free, out of how many, and how far the forecast sees."""
    shown = text_of(open_page(heard(forecast(FREE, NOW_S, maximum=16.0))))
    assert "GPUs free in cluster default" in shown
    assert "most from 14:00 to 14:15, 80 %: 9 to 12" in shown
    assert "forecast of 60 min" in shown
    assert "Published 80 % intervals held: 81 % 60 s ahead, 79 % 10 min ahead, 68 % 40 min ahead." in shown


@pytest.mark.parametrize(
    ("scores", "words"),
    [
        ([(1, 240, 0.8), (10, 19, 0.9)], "Published 80 % intervals held: 80 % 60 s ahead."),
        ([(1, 19, 0.8)], ""),
        ([], ""),
        ([(0, 100, 0.8), (-3, 100, 0.8), (1, 100, 1.5), (1, 100, -0.1)], ""),
        ([(step, 100, 0.5) for step in range(1, 1000)], None),
    ],
)
def test_how_published_intervals_did_is_told_once_enough_came(scores, words):
    """Numbers of another process: what is none is left out, and no more are told than a forecaster has."""
    told = [events.IntervalScore(steps=steps, values=values, inside_80_ratio=ratio) for steps, values, ratio in scores]
    shown = held_words(held(forecast(FREE, NOW_S, interval_scores=told)))
    assert shown == words if words is not None else shown.count("ahead") <= 8


@pytest.mark.slow
def test_how_forecasts_did_is_drawn_a_line_for_each_distance_ahead(heard, open_page):
    """Beside the line of true forecasts, from 0 to 100 %."""
    app = open_page(heard(forecast(FREE, NOW_S)))
    assert "How its forecasts did" in text_of(app)
    picture = drawn(app, 1)
    ahead = ["60 s ahead (240 values)", "10 min ahead (240 values)", "40 min ahead (240 values)"]
    assert [trace["name"] for trace in picture["data"]] == ["true", *ahead]
    assert picture["data"][3]["x"] == [0, 2.5, 10, 25, 50, 75, 90, 97.5, 100]
    assert picture["data"][3]["y"] == [0, 8, 17, 31, 52, 70, 85, 94, 100]


@pytest.mark.parametrize(
    ("levels", "below"),
    [
        ([], []),
        ([0.1, 0.9], [0.1]),
        ([0.1, 0.9], [0.1, 1.1]),
        ([-0.1, 0.9], [0.1, 0.9]),
        ([0.9, 0.1], [0.1, 0.9]),
        ([0.1, 0.9], [0.9, 0.1]),
        ([0.5] * 32, [0.5] * 32),
    ],
)
def test_shares_that_are_none_are_not_drawn(levels, below):
    """Of another process; how often intervals held is told all the same."""
    told = events.IntervalScore(steps=1, values=240, inside_80_ratio=0.8, levels=levels, below_ratios=below)
    one = held(forecast(FREE, NOW_S, interval_scores=[told]))
    assert calibration_chart(one, DARK) is None
    assert held_words(one) == "Published 80 % intervals held: 80 % 60 s ahead."


def test_too_few_values_are_not_drawn():
    """They would lie anywhere."""
    few = [events.IntervalScore(steps=1, values=19, inside_80_ratio=0.8, levels=[0.5], below_ratios=[0.5])]
    assert calibration_chart(held(forecast(FREE, NOW_S, interval_scores=few)), DARK) is None


@pytest.mark.parametrize(
    ("low", "high", "words"),
    [
        (600.0, 4200.0, "80 %: 13:56 to 14:56"),
        (600.0, 640.0, ""),
        (None, 600.0, ""),
        (600.0, None, ""),
        (4200.0, 600.0, ""),
    ],
)
def test_a_job_ends_between_two_times(low, high, words):
    """Where both are known and apart."""
    one = profile("a", NOW_S, **{
        name: None if after is None else NOW_S + after for name, after in (("end_low_s", low), ("end_high_s", high))
    })  # fmt: skip
    assert profile_words.end_between(one, NOW_S, UTC) == words


def test_profiles_say_kind_cycle_and_end(heard, open_page):
    """With a probability, the next occurrence, and how far off the end is; unknown stays unknown."""
    nothing = {"kind": "unknown", "kind_probability": 0.4, "kind_probabilities": {"inference": 0.4}}
    nothing |= {"cycle_period_s": None, "cycle_next_s": None, "end_s": None}
    shown = text_of(open_page(heard(profile("a", NOW_S), profile("b", NOW_S, **nothing))))
    wanted = [
        "training 99 %",
        "every 20 min, confidence 93 %",
        "in 4 min 42 s",
        "in 3 h 2 min, 16:50 (80 %: 16:38 to 17:15)",
    ]
    wanted += [
        "unknown (at most inference, 40 %)",
        "no stable period",
        "unknown (total number of steps not given: paceline run --total-steps N)",
    ]
    assert [words for words in wanted if words not in shown] == []


@pytest.mark.slow
@pytest.mark.parametrize("time_s", [None, 0.0])
def test_a_job_that_was_never_measured_has_no_age(heard, open_page, time_s):
    """A forecaster of an earlier version says 0, which is no day in 1970."""
    shown = text_of(open_page(heard(profile("a", NOW_S, time_s=time_s, end_s=None, cycle_next_s=None))))
    assert "never measured" in shown
    assert "days ago" not in shown


@pytest.mark.parametrize("time_s", [0.0, 7.5, 9e6])
def test_what_counts_from_0_has_no_age_and_no_next_time(time_s):
    """A table whose starts begin at 0 was not measured 20,783 days ago, and its next cycle is at no time of today."""
    now_s = 1.8e9
    assert "no date" in staleness(held(forecast(FREE, time_s)), now_s)
    undated = profile("a", time_s)
    assert profile_words.next_cycle_s(undated, now_s) is None
    assert profile_words.end_words(undated, now_s) == "unknown"
    assert profile_words.as_of_words(undated, now_s) == ("an unknown time" if time_s else "never measured")
    assert as_of(time_s, now_s) == "an unknown time"
    assert profile_words.next_cycle_s(profile("a", now_s - 60.0), now_s) == now_s + 252.0


@pytest.mark.slow
def test_memory_that_fills_is_told_with_its_times(heard, open_page):
    """Both when the first tenth of futures is full and when half are."""
    rising = forecast(MEMORY, NOW_S, unit="bytes", middle=70 * 2**30, swing=12 * 2**30, maximum=80.0 * 2**30)
    shown = text_of(open_page(heard(rising)))
    assert "GPU GPU-7 of gpu-01: GPU memory used" in shown
    assert "80.0 GiB" in shown
    assert "full, 50 %" in shown


GATES = {
    "worse than naive: withheld": {
        "model": "seasonal_naive",
        "notes": ["the models lost to seasonal_naive in the back-test; its share of the answer is 100%"],
    },
    "partly naive": {"notes": ["the models lost to seasonal_naive in the back-test; its share of the answer is 40%"]},
    "38 % better than naive": {},
}


@pytest.mark.slow
@pytest.mark.parametrize("title", GATES)
def test_the_badge_says_how_far_to_trust_it(heard, open_page, title):
    """What the gate withheld, and what the back-test measured."""
    shown = text_of(open_page(heard(forecast(FREE, NOW_S, **GATES[title]))))
    assert title in shown
    assert "loss 0.61 against 0.98" in shown
    assert "held 82 %" in shown


@pytest.mark.slow
@pytest.mark.parametrize(("loss", "naive_loss"), [(0.0, 0.0), (2.4e-25, 1e-20), (1e-20, 0.0), (0.001, 0.004)])
def test_nothing_is_no_better_than_nothing(heard, open_page, loss, naive_loss):
    """Where both losses show as 0.00 there is no badge; the sentence says why."""
    backtest = events.Backtest(moments=4, steps=60, loss=loss, naive_loss=naive_loss, coverage_80_ratio=1.0)
    shown = text_of(open_page(heard(forecast(FREE, NOW_S, backtest=backtest))))
    assert 'class="pl-badge"' not in shown
    assert "better than naive" not in shown
    assert "Both had no error that matters" in shown


def test_losses_are_in_the_unit_that_is_shown():
    """A third of a percent of a ratio is no 0.00, and a tenth of a GiB no 107,374,182."""
    small = events.Backtest(moments=4, steps=60, loss=0.003, naive_loss=0.004)
    busy = held(forecast("default/cluster/gpu_busy_ratio", NOW_S, unit="ratio, 0 to 1", backtest=small, middle=0.5))
    assert "loss 0.30 against 0.40 % of the naive forecast" in badge(busy).text
    assert badge(busy).title == "25 % better than naive"
    large = events.Backtest(moments=4, steps=60, loss=0.1 * 2**30, naive_loss=0.2 * 2**30)
    memory = held(forecast(MEMORY, NOW_S, unit="bytes", middle=70 * 2**30, backtest=large))
    assert "loss 0.10 against 0.20 GiB" in badge(memory).text


@pytest.mark.parametrize(
    ("naive", "words"),
    [([4.0] * 60, "(the last value)"), ([4.0, 5.0] * 30, "(the same moment a season before)"), ([], "naive forecast;")],
)
def test_what_is_called_naive_is_what_is_drawn(naive, words):
    """A season that was found may still be too long for a seasonal naive forecast: the words follow the line."""
    assert words in badge(held(forecast(FREE, NOW_S, naive_values=naive, season_s=5280.0))).text


NOTHING = {"values": [[0.0] * 13] * 60, "naive_values": [0.0] * 60, "recent_values": [0.0] * 9}


@pytest.mark.parametrize("least", [0.0, 8e-24, 0.4])
@pytest.mark.parametrize(("maximum", "top"), [(None, 1.0), (8.0, 8.0), (12.0, 12.0)])
def test_counts_have_an_axis_of_whole_numbers(least, maximum, top):
    """No 8x10^-24 free GPUs and no 0.2; of a cluster of few GPUs up to all of them, and what is 0 is a line to see."""
    few = NOTHING | {"values": [[least] * 13] * 60, "maximum": maximum}
    axis = fan_chart(held(forecast(FREE, NOW_S, **few)), UTC, DARK).layout.yaxis
    assert axis.range[0] == pytest.approx(-0.04 * top)
    assert axis.range[1] == pytest.approx(1.04 * top)
    assert (axis.tick0, axis.dtick) == (0, 1)


def test_counts_of_many_have_an_axis_up_to_what_is_drawn():
    """From 0 where that is near; what was below 0 is drawn, too."""
    swinging = fan_chart(held(forecast(FREE, NOW_S, middle=40.0, swing=30.0, maximum=500.0)), UTC, DARK).layout.yaxis
    idle = fan_chart(held(forecast(FREE, NOW_S, **NOTHING | {"maximum": 500.0})), UTC, DARK).layout.yaxis
    assert idle.range == pytest.approx((-20.0, 520.0)), "nothing is flattened"
    assert swinging.range[0] < 0.0
    assert 70.0 < swinging.range[1] < 110.0
    assert swinging.dtick is None
    below = fan_chart(held(forecast(FREE, NOW_S, **NOTHING | {"recent_values": [-3.0]})), UTC, DARK)
    assert below.layout.yaxis.range is None


@pytest.mark.parametrize(("unit", "field"), [("W", "gpu_power_w"), ("ratio, 0 to 1", "gpu_busy_ratio")])
def test_what_is_nothing_has_an_axis_of_its_unit(unit, field):
    """Whatever the unit: nothing is no 1e-24 of it."""
    few = NOTHING | {"values": [[8e-24] * 13] * 60}
    figure = fan_chart(held(forecast(f"default/cluster/{field}", NOW_S, unit=unit, **few)), UTC, DARK)
    assert figure.layout.yaxis.range == (0.0, 1.0)


def test_no_second_forecaster_is_asked_for_before_the_first_can_have_reported(tell, simulated_job, snapshot_of):
    """Fresh, then overdue, then reported: when the first forecast comes, and what to do where none will."""
    feed = Feed()
    tell(feed, [simulated_job.window(NOW_S, 99)], NOW_S)
    fresh = notice_of(snapshot_of(feed, now_s=NOW_S + 30.0))
    assert fresh.title == "No forecast yet"
    assert "2 minutes of a job" in fresh.text
    assert "paceline up runs a forecaster. Otherwise start one" in fresh.text
    overdue = notice_of(snapshot_of(feed, now_s=NOW_S + 90.0))
    assert overdue.title == "No forecaster has reported"
    assert [command for command, _ in overdue.commands] == ["paceline doctor", "paceline forecaster"]
    tell(feed, [(topics.PROFILE, profile("a", NOW_S))], NOW_S)
    reported = notice_of(snapshot_of(feed, now_s=NOW_S + 90.0))
    assert (reported.title, reported.commands) == ("No forecast yet", ())
    assert reported.text.startswith("The forecaster runs. The first forecast comes after 12 values")


@pytest.mark.parametrize(("minutes", "title"), [(10, "No forecast yet"), (16, "No forecaster has reported")])
def test_without_a_job_a_forecaster_has_the_time_that_12_values_of_a_node_take(tell, snapshot_of, minutes, title):
    """Windows of machines alone: there is no job to report."""
    feed = Feed()
    for at_s in np.arange(NOW_S, NOW_S + 60.0 * minutes, 10.0).tolist():
        window = events.HostWindow(cluster="c", start_s=at_s, length_s=10.0, node="n", samples=10, mean={}, max={})
        tell(feed, [(topics.WINDOW, window)], at_s)
    assert notice_of(snapshot_of(feed, now_s=at_s + 1.0)).title == title


@pytest.mark.slow
def test_without_windows_the_command_is_named(open_page):
    """Nothing is measured: the worker and the collector are named."""
    assert "paceline streams" in text_of(open_page(Feed()))


@pytest.mark.slow
def test_a_simulated_clock_that_is_ahead_is_no_future(heard, open_page):
    """A fleet that runs ten times as fast: what was measured was not measured in 3 min 30 s."""
    at_s = NOW_S + 240.0
    shown = text_of(open_page(heard(profile("a", at_s, end_s=None, cycle_next_s=None), forecast(FREE, at_s))))
    assert shown.count("a time 3 min 30 s ahead of this page") == 2
    assert "as of in " not in shown


@pytest.mark.slow
def test_old_forecasts_and_clocks_hours_apart_are_told(heard, open_page):
    """A forecaster that stopped, and one whose times are ahead of ours."""
    assert "No new forecast for 2 h" in text_of(open_page(heard(forecast(FREE, NOW_S)), now_s=NOW_S + 7200.0))
    assert "ahead of this page" in text_of(open_page(heard(forecast(FREE, NOW_S + 4 * 3600.0))))


@pytest.mark.slow
def test_a_lost_broker_keeps_the_last_forecasts(heard, open_page):
    """The cause above, the picture below."""
    app = open_page(heard(forecast(FREE, NOW_S)), state="lost", cause="connection refused")
    assert "connection refused" in text_of(app)
    assert app.get("plotly_chart")


@pytest.mark.slow
def test_an_unknown_series_in_a_link_is_told(heard, open_page):
    """Another one is shown, and why."""
    shown = text_of(open_page(heard(forecast(FREE, NOW_S)), {"series": "default/job/<b>gone</b>/step_s"}))
    assert "No forecast of default/job/&lt;b&gt;gone&lt;/b&gt;/step_s yet" in shown


@pytest.mark.slow
def test_a_series_that_rests_shows_its_probability_to_be_busy(heard, open_page):
    """A second picture, in percent."""
    app = open_page(heard(forecast(FREE, NOW_S, busy_ratio=[0.25] * 60)))
    assert drawn(app, 1)["data"][0]["type"] == "bar"


@pytest.mark.slow
def test_a_forecaster_of_a_release_before_is_drawn(heard, open_page):
    """Without past values, naive forecast and levels of 95 %: what is there is drawn, what is not is said."""
    old = {"recent_values": [], "naive_values": [], "levels": [0.1, 0.5, 0.9], "values": [[1.0, 2.0, 3.0]] * 60}
    app = open_page(heard(forecast(FREE, NOW_S, **old)))
    assert [trace["name"] for trace in drawn(app)["data"]] == ["80 %, low", "80 %", "median"]
    assert any("No history:" in one.value for one in app.caption)


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


@pytest.mark.slow
@pytest.mark.parametrize("what", ABSURD)
def test_absurd_forecasts_are_drawn_or_refused_and_never_break_the_page(what, open_page, tell):
    """Whatever decodes leaves a page; no string of it becomes markup."""
    from msgspec import convert

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
    assert lines[0] == 'series,"time, UTC","free GPUs, B"'
    assert {line.split(",1970")[0] for line in lines[1:]} >= {'"95 %, low"', "95 %", "measured", "naive", "median"}
    assert len(as_csv(busy_chart(one, UTC, DARK)).splitlines()) == 61


@pytest.mark.slow
def test_the_page_answers_for_as_many_as_are_wanted(heard, open_page):
    """Eight at first; another number gets another answer. Each cluster has its own."""
    app = open_page(heard(day_ahead(NOW_S), day_ahead(NOW_S, "east", 8.0)))
    assert app.number_input(key="gpus_wanted").value == 8
    shown = text_of(app)
    assert "Free GPUs, hour by hour" in shown
    assert "Cluster default: 8 or more GPUs are free from " in shown
    assert "Cluster east: In no hour of the next 24 h are 8 GPUs free" in shown
    app.number_input(key="gpus_wanted").set_value(60).run()
    assert not app.exception
    assert "Cluster default: In no hour of the next 24 h are 60 GPUs free" in text_of(app)


@pytest.mark.slow
def test_clusters_whose_names_begin_alike_have_a_picture_each(heard, open_page):
    """However long their names are."""
    app = open_page(heard(*(day_ahead(NOW_S, "c" * 80 + last) for last in "ab")))
    assert not app.exception
    assert sum(trace["type"] == "bar" for place in range(2) for trace in drawn(app, place)["data"]) >= 2


def test_without_quarter_hours_nothing_is_asked(heard, open_page):
    """A forecaster that has known the cluster for less than three hours, or an older one."""
    app = open_page(heard(forecast(FREE, NOW_S)))
    assert "hour by hour" not in text_of(app)
    assert not app.number_input
