import json

import msgspec
import pytest

from paceline import events
from tests.ui.opened_app import opened, text_of
from ui.feed import Feed

pytestmark = [pytest.mark.long, pytest.mark.filterwarnings("ignore::DeprecationWarning")]


def script(source):
    from ui.screens import job

    job.show(source)


@pytest.fixture
def open_page(snapshot_of):
    """The job's screen over a feed; everything it wrote as one text."""

    def open_page(feed, query=None, **changed):
        return opened(script, (lambda job, rank=None: snapshot_of(feed, rank=rank, **changed),), query)

    return open_page


@pytest.mark.slow
def test_the_headline_names_median_and_worst_rank(played, open_page):
    """Both numbers, and no average."""
    shown = text_of(open_page(played))
    assert "Slowest rank: 2" in shown
    assert "1.83\u00d7 the median rank" in shown
    assert "average" not in shown


@pytest.mark.slow
def test_no_box_says_that_no_rank_is_slow_above_a_rank_that_works_longer(simulated_job, tell, open_page):
    """The tiles have the number; no finding has come yet. Before the fault no rank is slow."""
    feed = Feed()
    tell(feed, [*simulated_job.described(900.0), *simulated_job.timings(900.0, 0, 50)])
    shown = text_of(open_page(feed))
    assert "<b>No rank is slow</b>" in shown
    assert "no slow rank" in shown
    tell(feed, simulated_job.timings(900.0, 50, 50))
    shown = text_of(open_page(feed))
    assert "<b>No finding names a slow rank</b>" in shown
    assert "Rank 2 works " in shown
    assert "rank 2 works longer than the others" in shown
    assert "no slow rank" not in shown.replace("No finding names a slow rank", "")


HANG = {"id": "hang", "kind": "hang", "cause": "unknown", "ranks": [2], "line": "train.py:45 evaluate"}


def test_a_job_that_hangs_says_so_in_its_title(played, simulated_job, tell, open_page):
    """Where it is stuck, in place of "running"; its card names the line, and links to no unknown cause."""
    tell(played, [simulated_job.finding(1, 99, "confirmed", first_step=99, **HANG)])
    shown = text_of(open_page(played))
    assert "stuck at step 99: rank 2, train.py:45 evaluate · 4 of 4 ranks reporting" in shown
    assert "Hang: rank 2, train.py:45 evaluate" in shown
    assert "cause unknown" not in shown


def test_a_reader_that_failed_is_told_above_the_picture(played, open_page):
    """With its cause; the last picture stays."""
    shown = text_of(open_page(played, state="failed", cause="the page's reader of raw events failed (KeyError)"))
    assert "The page cannot read the messages" in shown
    assert "reader of raw events failed (KeyError)" in shown
    assert "Slowest rank: 2" in shown


@pytest.mark.slow
def test_a_finding_shows_cause_evidence_coverage_and_cost(played, open_page):
    """All that a verdict rests on is on its card."""
    shown = text_of(open_page(played))
    wanted = (
        "Straggler: rank 2, slow computation",
        "94.0 ms",
        "47.7 ms",
        "4 of 4 ranks reported",
        "device-hours",
        "97 %",
    )
    assert [words for words in wanted if words not in shown] == []


NOBODY = {"ranks": [], "nodes": [], "devices": []}
OF_A_NODE = {"first_step": -1, "last_step": -1, "nodes": ["gpu-01"], "devices": ["GPU-7"], "attempt": 0}
KINDS = {
    "stage_imbalance": ({**NOBODY, "stage": 3, "cause": "pipeline_stage"}, "Uneven stages: stage 3"),
    "data_imbalance": ({**NOBODY, "cause": "sequence_length"}, "Uneven data: the whole job, uneven sequence lengths"),
    "communication_bound": ({**NOBODY, "cause": "link"}, "Communication-bound: the whole job"),
    "data_bound": ({**NOBODY, "cause": "input_pipeline"}, "Data-bound: the whole job, slow input"),
    "hang": ({"ranks": [1], "cause": "unknown"}, "Hang: rank 1"),
    "slowdown": ({**NOBODY, "cause": "unknown"}, "Job-wide slowdown: the whole job"),
    "insufficient_data": ({**NOBODY, "cause": "unknown"}, "Not enough data: the whole job"),
    "configuration_mismatch": (
        {**NOBODY, "cause": "configuration"},
        "Different configuration of ranks: the whole job, different configuration",
    ),
    "device_fault": ({**OF_A_NODE, "ranks": [2], "cause": "throttling"}, "Device fault: rank 2, GPU throttling"),
    "idle_device": ({**OF_A_NODE, "ranks": [], "cause": "unknown"}, "Idle GPU: GPU-7"),
    "out_of_memory_risk": ({**OF_A_NODE, "cause": "memory_pressure"}, "Memory is filling up: rank 2, memory pressure"),
    "load_imbalance": ({**OF_A_NODE, "ranks": [], "cause": "unknown"}, "Uneven load: GPU-7"),
}


@pytest.mark.slow
@pytest.mark.parametrize("kind", KINDS)
def test_every_kind_of_finding_has_its_card(kind, simulated_job, tell, open_page):
    """Whoever or whatever it is about, a card says kind, cause, numbers, rule, coverage and what was cleared."""
    changed, title = KINDS[kind]
    feed = Feed()
    tell(feed, simulated_job.described(900.0))
    tell(feed, [simulated_job.finding(1, 99, "confirmed", kind=kind, **changed)])
    shown = text_of(open_page(feed))
    wanted = (title, "46.3 ms a step", "last into 30 of 30 steps", "4 of 4 ranks reported", "CPU contention: 0.2 %")
    assert [words for words in wanted if words not in shown] == []


NEWER = {"kind": "tilted_rack", "state": "under_review", "cause": "loose_<b>bolt</b>", "severity": "grave"}


@pytest.mark.slow
def test_a_finding_of_a_newer_version_is_shown_in_its_own_words(played, simulated_job, tell, open_page):
    """A kind, state, cause and severity that this page has no words for: told as they are, and marked like the rest."""
    tell(played, [simulated_job.finding(1, 99, id="newer", first_step=70, **NEWER)])
    app = open_page(played)
    wanted = ("Tilted rack: rank 2, loose &lt;b&gt;bolt&lt;/b&gt;", "under_review", "grave")
    assert [words for words in wanted if words not in text_of(app)] == []
    marks = json.loads(app.get("plotly_chart")[0].proto.spec)["layout"]["annotations"]
    assert "under_review: loose &lt;b&gt;bolt&lt;/b&gt;" in [mark["text"] for mark in marks]


@pytest.mark.slow
def test_a_finding_of_a_node_knows_no_steps(simulated_job, tell, open_page):
    """Steps are left out where there are none, and a cost that is not known is not called 0."""
    feed = Feed()
    tell(feed, simulated_job.described(900.0))
    nothing = events.Cost(lost_s=0.0, gpu_hours=0.0, throughput_lost_ratio=0.0)
    tell(feed, [simulated_job.finding(1, -1, "confirmed", kind="device_fault", cost=nothing, **OF_A_NODE)])
    shown = text_of(open_page(feed))
    assert "cost not estimated" in shown
    assert "steps -1" not in shown


@pytest.mark.slow
def test_a_finding_of_no_job_stands_with_the_machines(played, simulated_job, tell, open_page):
    """A fault of a GPU that nobody uses is told, makes no job, and accuses no rank of the one shown."""
    tell(played, [simulated_job.finding(1, -1, "confirmed", kind="device_fault", id="x", **{**OF_A_NODE, "job": ""})])
    app = open_page(played)
    assert app.selectbox(key="job").options == ["demo"]
    assert "Device fault: rank 2" in text_of(app)


@pytest.mark.slow
def test_a_fault_of_a_node_outlives_the_jobs_restart(played, simulated_job, tell, open_page):
    """A node does not know attempts: its finding stays when the job starts anew."""
    tell(played, [simulated_job.finding(1, -1, "confirmed", kind="device_fault", id="x", **OF_A_NODE)])
    again = [(topic, msgspec.structs.replace(event, attempt=1)) for topic, event in simulated_job.described(950.0)]
    tell(played, again)
    assert "Device fault: rank 2" in text_of(open_page(played))


@pytest.mark.slow
def test_the_figure_holds_every_rank(played, open_page):
    """The heatmap has a row a rank and the finding's mark."""
    charts = open_page(played).get("plotly_chart")
    heatmap = json.loads(charts[0].proto.spec)
    assert heatmap["data"][0]["y"] == ["0", "1", "2", "3"]
    assert len(heatmap["layout"]["shapes"]) == 1


@pytest.mark.slow
def test_without_a_broker_the_page_opens_and_says_the_mend(open_page):
    """No broker: no error, but the cause and the commands."""
    shown = text_of(open_page(Feed(), state="lost", cause="connection refused"))
    assert "No connection to the broker at 127.0.0.1:9092" in shown
    assert "paceline doctor" in shown


@pytest.mark.slow
def test_without_data_the_page_names_the_commands(open_page):
    """Connected, no data: how to get some."""
    shown = text_of(open_page(Feed()))
    assert "paceline run -- torchrun" in shown
    assert "paceline doctor" in shown


@pytest.mark.slow
def test_a_described_job_without_a_step_has_a_page(simulated_job, tell, open_page):
    """The first seconds of a job, before its first step."""
    feed = Feed()
    tell(feed, simulated_job.described(1000.0))
    assert "not measured" in text_of(open_page(feed))


def test_an_ended_job_keeps_its_picture(played, simulated_job, tell, open_page):
    """The end is told and the heatmap stays."""
    tell(played, simulated_job.described(900.0, 1000.0, 0))
    app = open_page(played)
    assert "This job ended" in text_of(app)
    assert app.get("plotly_chart")


def test_hostile_names_stay_text(simulated_job, tell, open_page):
    """A finding's words come from other people's jobs and never become markup."""
    feed = Feed()
    tell(feed, [simulated_job.finding(1, 9, "confirmed", summary="<img src=x onerror=alert(1)>", job="<b>x</b>")])
    shown = text_of(open_page(feed))
    assert "<img" not in shown
    assert "<b>x" not in shown


@pytest.mark.slow
def test_a_pause_keeps_the_picture(played, simulated_job, tell, open_page):
    """Paused, new data does not move the page; live again, it does."""
    app = open_page(played)
    app.segmented_control(key="mode").set_value("Paused").run()
    tell(played, [simulated_job.finding(3, 140, "recovered")])
    assert "recovered</span>" not in text_of(app.run())
    app.segmented_control(key="mode").set_value("Live").run()
    assert "recovered</span>" in text_of(app)


@pytest.mark.slow
def test_choosing_a_job_changes_the_link(played, tell, open_page):
    """The address of the page can be shared."""
    from tests.ui.simulated_job import SimulatedJob

    tell(played, SimulatedJob(2, 1, 0, 0, "another").described(0.0), 2.0)
    app = open_page(played)
    app.selectbox(key="job").select("another").run()
    assert app.query_params["job"] in ("another", ["another"])


@pytest.mark.slow
def test_a_job_lists_its_own_machines_and_their_faults(played, simulated_job, tell, open_page):
    """Those of other jobs would be taken for its own."""
    tell(played, simulated_job.machines(1000.0))
    of_others = {**OF_A_NODE, "job": "other", "nodes": ["elsewhere-7"], "devices": ["GPU-x"]}
    tell(played, [simulated_job.finding(1, -1, "confirmed", kind="device_fault", id="x", **of_others)])
    shown = text_of(open_page(played))
    assert "Machines" in shown
    assert "elsewhere-7" not in shown


@pytest.mark.slow
def test_a_job_without_known_nodes_lists_no_machines_of_others(simulated_job, tell, open_page):
    """Nor their faults: they would be taken for its own."""
    feed = Feed()
    fault = simulated_job.finding(1, -1, "confirmed", kind="device_fault", id="x", **{**OF_A_NODE, "job": "other"})
    tell(feed, [simulated_job.window(1000.0, 99), fault])
    tell(feed, simulated_job.machines(1000.0))
    shown = text_of(open_page(feed))
    assert "Machines" not in shown
    assert "Device fault" not in shown
    tell(feed, simulated_job.described(900.0))
    assert "Machines" in text_of(open_page(feed))
