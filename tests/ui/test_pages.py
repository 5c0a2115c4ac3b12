import base64
import html
import json
import re
from urllib.parse import parse_qs, urlsplit

import msgspec
import numpy as np
import pytest

from paceline import events
from tests.ui.opened_app import opened
from tests.ui.simulated_job import SimulatedJob
from ui.feed import Feed
from ui.screens.navigation import PAGES
from ui.snapshot import Connection

pytestmark = [pytest.mark.long, pytest.mark.filterwarnings("ignore::DeprecationWarning")]
MINE = [entry.path for entry in PAGES if entry.path in ("fleet", "job", "rank", "collectives", "health")]
HOSTILE = "<img src=x onerror=alert(1)>[a](javascript:alert(2))"


def script(path, source):
    from ui.screens.navigation import PAGES

    next(entry for entry in PAGES if entry.path == path).show(source)


@pytest.fixture
def source_of(snapshot_of):
    """A feed as pages draw from it."""

    def source_of(feed, **changed):
        def source(job, rank=None):
            return snapshot_of(feed, rank=rank, **changed)

        return source

    return source_of


@pytest.fixture
def open_page(source_of):
    """A page over a feed, opened by a link."""

    def open_page(path, feed, query=None, **changed):
        return opened(script, (path, source_of(feed, **changed)), query)

    return open_page


def text_of(app):
    return " ".join([*(element.proto.body for element in app.get("html")), *(one.value for one in app.caption)])


def said(app, word):
    """What the address says; AppTest gives a text or a list of one."""
    value = app.query_params[word]
    return value[0] if isinstance(value, list) else value


def specs(app):
    return [json.loads(chart.proto.spec) for chart in app.get("plotly_chart")]


@pytest.mark.slow
@pytest.mark.parametrize("path", MINE)
@pytest.mark.parametrize("state", ["connecting", "connected", "lost", "failed"])
def test_a_page_without_data_opens_and_names_a_command(path, state, open_page):
    """No topic holds anything, or no broker answers: every page says what to run."""
    assert "paceline " in text_of(open_page(path, Feed(), state=state, cause="connection refused"))


@pytest.mark.parametrize(
    ("path", "query", "names"),
    [
        ("job", {}, {"run", "doctor"}),
        ("fleet", {"node": "x"}, {"run", "collect"}),
        ("forecast", {}, {"streams", "collect", "forecaster"}),
        ("health", {}, {"doctor"}),
        ("collectives", {"span": "all"}, {"streams"}),
    ],
)
def test_every_command_on_a_page_names_its_brokers(path, query, names, played, simulated_job, tell, open_page):
    """Typed in another terminal it reaches what this page reads: notices, sentences and what fixes a trouble alike."""
    feed = played if path == "collectives" else Feed()
    if path == "health":  # Samples that no worker reads: the command stands in a sentence.
        feed.traffic["window"].lag = 0
        for at_s in range(1000, 1031, 5):
            tell(feed, simulated_job.machines(at_s), at_s)
    page = open_page(path, feed, query, now_s=1030.0, connection=Connection("connected", "kafka-1:9093", 996.0, ""))
    typed = re.findall("<code>(paceline [^<]*)", text_of(page))
    assert {one.split()[1] for one in typed} >= names
    assert [one for one in typed if "--brokers kafka-1:9093" not in one] == []


@pytest.mark.slow
@pytest.mark.parametrize("path", MINE)
def test_a_page_denies_nothing_while_it_is_read_for_the_first_time(path, played, open_page):
    """Findings, nodes and forecasts may still come: none is said to be missing."""
    text = text_of(open_page(path, played, state="reading"))
    assert "Reading what the broker at" in text
    assert [word for word in ("No ", "not slow", "Nothing", "None", "nothing") if word in text] == []


def test_a_topic_that_is_not_read_yet_is_not_said_to_be_empty(open_page):
    """Only what was read to its end never held a message."""
    assert "never" in text_of(open_page("health", Feed(), state="connected"))
    assert "never" not in text_of(open_page("health", Feed(), state="connecting"))


def test_a_paused_page_waits_for_no_read(played, open_page):
    """It is drawn once: what it has then is shown, below the notice."""
    text = text_of(open_page("job", played, {"live": "0"}, state="reading"))
    assert "Reading what the broker at" in text
    assert "Findings" in text


@pytest.mark.slow
@pytest.mark.parametrize("path", MINE)
def test_a_lost_broker_is_told_on_every_page_and_the_picture_stays(path, played, open_page):
    """The banner is above what came before."""
    app = open_page(path, played, {"rank": "2"}, state="lost", cause="connection refused")
    assert "No connection to the broker at 127.0.0.1:9092" in text_of(app)


@pytest.mark.slow
@pytest.mark.parametrize("path", MINE)
@pytest.mark.parametrize(
    "query",
    [
        {"rank": "99999999999999"},
        {"rank": "-3", "span": "1e9", "live": "x"},
        {"from": "1e308", "to": "nan"},
        {"from": "999999999999", "to": "5"},
        {"metric": "none", "node": "gpu-99", "find": "[["},
        {"job": "unknown", "rank": "500000"},
        {"from": "1", "to": "2", "rank": "2"},
    ],
)
def test_a_wrong_link_opens_all_the_same(path, query, played, open_page):
    """Unknown jobs, ranks, nodes and metrics, impossible numbers, a time from which nothing is held."""
    open_page(path, played, query)


def test_what_is_wrong_with_a_link_is_told(played, open_page):
    """By its word, its value and what it is not."""
    assert "rank=&#x27;-3&#x27; is no rank" in text_of(open_page("fleet", played, {"rank": "-3"}))


@pytest.mark.slow
def test_an_unknown_rank_is_told(played, open_page):
    """And the page offers those that are worth a look."""
    app = open_page("rank", played, {"rank": "77"})
    assert "Rank 77 of this job has not reported" in text_of(app)
    assert app.button(key="worth-2").label == "Rank 2: named in a finding"


@pytest.mark.parametrize("path", MINE)
def test_hostile_names_stay_text_on_every_page(path, tell, open_page):
    """Names of jobs, nodes and GPUs come from others: no page makes markup of them."""
    job, feed = SimulatedJob(ranks=4, nodes=2, slow_rank=2, fault_step=10, job=HOSTILE), Feed()
    job._name = lambda node: f"{HOSTILE}{node}"
    tell(feed, [*job.described(900.0), *job.timings(900.0, 0, 40), job.finding(1, 30, "confirmed")])
    tell(feed, job.machines(1000.0))
    app = open_page(path, feed, {"rank": "2", "node": f"{HOSTILE}0", "find": HOSTILE})
    assert "<img" not in text_of(app)
    assert "](javascript" not in " ".join(one.value for one in app.markdown)
    drawn = [{**trace, "customdata": None} for spec in specs(app) for trace in spec["data"]]
    assert "<img" not in json.dumps([drawn, [spec["layout"] for spec in specs(app)]])


def test_the_fleet_shows_gpus_jobs_and_what_they_lost(played, open_page):
    """A tile a GPU, the least busy GPU on top, the job with its lost time and a link."""
    app = open_page("fleet", played)
    shown = text_of(app)
    wanted = ("4 GPUs on 2 nodes", "1 confirmed", 'href="job?job=demo"', 'href="fleet?node=gpu-01"')
    assert [words for words in wanted if words not in shown] == []
    assert len(specs(app)[0]["data"][-1]["hovertext"]) == 4


@pytest.mark.slow
def test_the_fleet_says_which_job_is_stuck_and_where(played, simulated_job, tell, open_page):
    """In the column of its state, as text whatever the line is called."""
    hang = {"id": "hang", "kind": "hang", "cause": "unknown", "ranks": [2], "line": f"{HOSTILE}.py:45 evaluate"}
    tell(played, [simulated_job.finding(1, 99, "confirmed", first_step=99, **hang)])
    shown = text_of(open_page("fleet", played))
    assert "stuck at step 99: rank 2, &lt;img" in shown
    assert "<img" not in shown


@pytest.mark.slow
def test_choosing_a_metric_and_searching_change_the_link(played, open_page):
    """What is looked at can be sent to somebody."""
    app = open_page("fleet", played)
    app.selectbox(key="metric").select("temperature_celsius").run()
    app.text_input(key="find").set_value("gpu-02").run()
    assert said(app, "metric") == "temperature_celsius"
    assert said(app, "find") == "gpu-02"
    assert "2 GPUs on 1 node ·" in text_of(app)


@pytest.mark.slow
def test_a_node_in_full_shows_every_gpu(played, open_page):
    """Opened by a link, closed by its button."""
    app = open_page("fleet", played, {"node": "gpu-02"})
    assert "GPU-00000003" in text_of(app)
    app.button(key="close-node").click().run()
    assert "GPU-00000003" not in text_of(app)


@pytest.mark.slow
def test_clocks_that_are_hours_off_are_told_and_hide_nothing(simulated_job, tell, open_page):
    """Ahead: said so. Behind: its numbers are shown as the past."""
    feed = Feed()
    tell(feed, simulated_job.machines(1000.0), 20_000.0)
    assert "2 nodes' clocks are ahead" in text_of(open_page("fleet", feed))
    tell(feed, [*simulated_job.described(5.0), *simulated_job.timings(5.0, 0, 40)], 5.0)
    app = open_page("job", feed)
    assert specs(app)[0]["data"][0]["y"] == ["0", "1", "2", "3"]


@pytest.mark.slow
def test_a_rank_stands_beside_its_cohort(played, open_page):
    """Its place, how much slower it is and in what, its finding, its GPU."""
    shown = text_of(open_page("rank", played, {"rank": "2"}))
    wanted = ("gpu-02", "4 ranks, no stages known", "backward", "Straggler: rank 2", "Next:", "3 peers")
    assert [words for words in wanted if words not in shown] == []


@pytest.mark.slow
def test_a_finding_that_says_what_is_next_is_not_contradicted(played, simulated_job, tell, open_page):
    """Neither by the advice on its cause, nor by its own words a second time."""
    next_ = "py-spy dump --pid 41 on node gpu-02"
    said = {"cause": "unknown", "next": next_, "summary": f"Rank 2 has not called it. Next: {next_}"}
    tell(played, [simulated_job.finding(3, 99, "confirmed", **said)])
    shown = text_of(open_page("rank", played, {"rank": "2"}))
    assert (shown.count(next_), shown.count("Next:"), "record a minute" in shown) == (1, 1, False)
    tell(played, [simulated_job.finding(4, 99, "confirmed", **said | {"summary": "Rank 2 has not called it."})])
    assert f"<b>Next:</b> {next_}." in text_of(open_page("rank", played, {"rank": "2"}))


@pytest.mark.slow
def test_a_rank_without_peers_is_compared_with_nobody(tell, open_page):
    """One rank on one node without a GPU that is measured: no median, no dotted line, no collector to start."""
    job, feed = SimulatedJob(ranks=1, nodes=1, slow_rank=0), Feed()
    tell(feed, [*job.described(900.0), *job.timings(900.0, 0, 30)], 900.0)
    tell(feed, [one for one in job.machines(900.0) if one[1].node and not hasattr(one[1], "uuids")], 900.0)
    app = open_page("rank", feed, {"rank": "0"})
    captions = " ".join(one.value for one in app.caption)
    assert "No peers' hosts to compare with." in captions
    assert "0 peers" not in captions
    host = specs(app)[-1]["data"]
    assert not [trace for trace in host if trace.get("line", {}).get("dash") == "dot"]
    shown = text_of(app)
    assert "Its collector found no GPU on this node." in shown
    assert "paceline collect" not in shown
    fleet = text_of(open_page("fleet", feed))
    assert fleet.count("No node has a GPU.") == 2, "the tiles, and the lowest utilisation"
    assert "paceline collect" not in fleet
    assert "1 rank, no stages known" in shown
    assert "nothing to compare with" in shown


@pytest.mark.slow
def test_a_healthy_rank_has_no_finding_of_another(played, open_page):
    """Only its own episodes."""
    assert "Straggler: rank 2" not in text_of(open_page("rank", played, {"rank": "1"}))


@pytest.mark.slow
def test_choosing_a_rank_changes_the_link(played, open_page):
    """By number, or by the button of one worth a look."""
    app = open_page("rank", played, {"rank": "0"})
    app.button(key="worth-2").click().run()
    assert said(app, "rank") == "2"
    app.number_input(key="rank").set_value(1).run()
    assert said(app, "rank") == "1"


@pytest.mark.slow
def test_collectives_are_told_by_operation_and_size(played, simulated_job, tell, open_page):
    """Calls, bytes and bus bandwidth of a window's lines."""
    topic, window = simulated_job.window(1000.0, 99)
    line = events.CollectiveLine(
        operation="all_reduce", least_bytes=1 << 20, calls=7, bytes=1 << 24, wait_s=0.5, duration_s=0.01
    )
    tell(played, [(topic, msgspec.structs.replace(window, collectives=[line]))])
    shown = text_of(open_page("collectives", played))
    wanted = ("all_reduce", "1 to 2 MiB", "1.68 GB/s", "2.52 GB/s", "is not known")
    assert [words for words in wanted if words not in shown] == []


@pytest.mark.slow
def test_collectives_of_processors_have_no_rated_speed(tell, open_page):
    """A job on one node whose collector found no GPU; small amounts keep their digits."""
    job, feed = SimulatedJob(ranks=2, nodes=1, slow_rank=0), Feed()
    tell(feed, [*job.described(900.0), *job.timings(900.0, 0, 30)], 900.0)
    tell(feed, [one for one in job.machines(900.0) if one[1].node and not hasattr(one[1], "uuids")], 900.0)
    topic, window = job.window(1000.0, 30)
    line = events.CollectiveLine(
        operation="broadcast", least_bytes=32, calls=1, bytes=40, wait_s=0.001, duration_s=0.002
    )
    tell(feed, [(topic, msgspec.structs.replace(window, collectives=[line]))])
    shown = text_of(open_page("collectives", feed))
    wanted = ("There is no rated speed: its node has no GPU.", ">40 B<", "20.0 kB/s", "exposed")
    assert [words for words in wanted if words not in shown] == []
    assert "is not known" not in shown


@pytest.mark.slow
def test_lateness_names_the_rank_that_others_wait_for(played, open_page):
    """The slow rank is the first bar."""
    app = open_page("collectives", played, {"from": "960", "to": "1100"})
    assert specs(app)[-1]["data"][0]["y"][0] == "2"


@pytest.mark.slow
def test_a_box_in_the_link_is_what_is_shown(played, open_page):
    """Steps within from and to alone, by the time that they began; the way back is a button."""
    app = open_page("job", played, {"from": "920", "to": "921"})
    shown = specs(app)[0]["data"][0]["x"]
    assert 0 < len(np.frombuffer(base64.b64decode(shown["bdata"]), shown["dtype"])) < 60
    app.button(key="unzoom").click().run()
    assert "from" not in app.query_params


@pytest.mark.slow
def test_the_time_range_and_the_pause_are_in_the_link(played, open_page):
    """They belong to all pages over time; the fleet and Paceline's own health are of now."""
    app = open_page("job", played)
    app.segmented_control(key="span").set_value("6h").run()
    app.segmented_control(key="mode").set_value("Paused").run()
    assert (said(app, "span"), said(app, "live")) == ("6h", "0")
    for path in ("fleet", "health"):
        assert [one.key for one in open_page(path, played).segmented_control] == ["mode"]


@pytest.mark.slow
def test_every_picture_can_be_exported(played, open_page):
    """A CSV button for each, named after it."""
    for path in ("fleet", "job", "rank", "collectives"):
        app = open_page(path, played, {"rank": "2"})
        assert len(app.get("download_button")) == len(app.get("plotly_chart")) > 0


@pytest.mark.slow
def test_no_page_leads_to_another_host(played, open_page):
    """Every link of every table is of this site."""
    for path in MINE:
        shown = text_of(open_page(path, played, {"rank": "2", "node": "gpu-01"}))
        for href in re.findall(r'href="([^"]*)"', shown):
            assert urlsplit(href).netloc == ""
            assert set(parse_qs(urlsplit(html.unescape(href)).query)) <= {"job", "rank", "node", "cause"}


@pytest.mark.slow
def test_opened_without_a_rank_the_page_is_that_of_the_accused_or_the_slowest(played, simulated_job, tell, open_page):
    """Nobody has to guess a number; an address that names one is left as it is."""
    app = open_page("rank", played)
    assert app.query_params["rank"] in ("2", ["2"])
    assert "Straggler: rank 2" in text_of(app)
    healthy = Feed()
    tell(healthy, [*simulated_job.described(900.0), *simulated_job.timings(900.0, 0, 20)], 900.0)
    tell(healthy, [simulated_job.window(1000.0, 99)])
    assert open_page("rank", healthy).query_params["rank"] in ("2", ["2"])
    assert open_page("rank", played, {"rank": "1"}).query_params["rank"] in ("1", ["1"])
