"""The page of what happened, over a real archive."""

import json
import re
from html import unescape

import pytest

from tests.derived_events import HOSTILE, finding
from tests.ui.kept import HOUR_S, NOW_S, keep
from tests.ui.opened_app import opened, text_of
from tests.ui.simulated_job import SimulatedJob
from ui.feed import Feed
from ui.history_door import HistoryDoor

pytestmark = [pytest.mark.long, pytest.mark.filterwarnings("ignore::DeprecationWarning")]


def script(source, door):
    from ui.screens import history

    history.show(source, door)


@pytest.fixture
def open_page(snapshot_of):
    """The page over the archive at an address, as of ``NOW_S``."""
    doors = []

    def open_page(url, query=None, feed=None, **changed):
        doors.append(HistoryDoor(str(url), {}))
        source = lambda job, rank=None: snapshot_of(feed or Feed(), **{"now_s": NOW_S, **changed})  # noqa: E731
        return opened(script, (source, doors[-1]), query)

    yield open_page
    for door in doors:
        door.stop()


def drawn(app, place=0):
    return json.loads(app.get("plotly_chart")[place].proto.spec)


def said(app, word):
    value = app.query_params.get(word, "")
    return value[0] if isinstance(value, list) else value


@pytest.mark.slow
def test_a_week_is_shown_with_losses_nodes_jobs_and_findings(open_page, kept_archive):
    """Without a link: the last seven days, everything."""
    app = open_page(kept_archive)
    shown = unescape(text_of(app))
    wanted = (
        "4 findings in this period",
        "Straggler: rank 6",
        "Communication-bound: the whole job",
        "gpu-02",
        "lab/llm-70b",
        "30 % busy on average",
        "Device-hours lost by day, November 2026",
    )
    assert [words for words in wanted if words not in shown] == []
    assert "rank 8," not in shown
    assert len(app.get("plotly_chart")) == 2


@pytest.mark.slow
def test_a_link_narrows_everything_and_the_controls_say_so(open_page, kept_archive):
    """Cause, kind, cluster, node and period are in the address."""
    query = {"cause": "link", "kind": "communication_bound", "cluster": "lab", "past": "24h", "node": "lab-1"}
    app = open_page(kept_archive, query)
    shown = text_of(app)
    assert "Straggler" not in shown
    assert "Communication-bound" in shown
    assert [app.selectbox(key=f"history_{word}").value for word in ("cause", "kind", "cluster")] == [*query.values()][
        :3
    ]
    app.button(key="history-no-node").click().run()
    assert said(app, "node") == ""
    assert said(app, "cause") == "link"


@pytest.mark.slow
def test_what_is_chosen_goes_into_the_address(open_page, kept_archive):
    """And comes out of it again."""
    app = open_page(kept_archive, {"day": "2026-11-21"})
    assert "Straggler: rank 4" in text_of(app)
    app.segmented_control(key="history_past").set_value("30d").run()
    assert (said(app, "past"), said(app, "day")) == ("30d", "")
    app.selectbox(key="history_cause").select("throttling").run()
    assert said(app, "cause") == "throttling"
    app.text_input(key="history_find").set_value(" GPU-04 ").run()
    assert said(app, "find") == "GPU-04"
    assert not app.exception
    app.selectbox(key="history_cause").select("").run()
    assert said(app, "cause") == ""


@pytest.mark.slow
def test_the_calendar_goes_from_month_to_month(open_page, kept_archive):
    """Of a month without anything kept no day has a colour."""
    app = open_page(kept_archive)
    app.button(key="history-month-back").click().run()
    assert said(app, "month") == "2026-10"
    assert "Device-hours lost by day, October 2026" in text_of(app)
    app.button(key="history-month-on").click().run()
    assert said(app, "month") == "2026-11"


@pytest.mark.slow
def test_a_jobs_history_has_episodes_pace_and_a_way_to_its_page(open_page, kept_archive, played):
    """The way is there while the job is heard."""
    app = open_page(kept_archive, {"job": "llm-7b", "past": "30d"})
    assert "It is not running now." in text_of(app)
    episodes, pace = drawn(app, 0), drawn(app, 1)
    assert sum(len(trace["x"]) for trace in episodes["data"]) == 10
    assert [axis for axis in pace["layout"] if axis.startswith("yaxis")] == ["yaxis", "yaxis2", "yaxis3"]
    heard = open_page(kept_archive, {"job": "demo"}, played)
    assert 'href="job?job=demo' in text_of(heard)


@pytest.mark.slow
def test_only_a_job_that_reports_is_said_to_run(open_page, kept_archive, tell):
    """Not one that has ended or is silent, nor any while the page connects or reads; above and in the table."""
    feed, job = Feed(), SimulatedJob(2, 1, 0, 0, "llm-7b")
    tell(feed, job.described(NOW_S - 60.0), NOW_S - 10.0)

    def shown(**changed):
        return text_of(open_page(kept_archive, {"job": "llm-7b", "past": "30d"}, feed, **changed))

    running = shown()
    assert "It is running now: <a" in running
    assert ">live page</a>" in running
    assert "It is silent: <a" in shown(now_s=NOW_S + 60.0)
    for state in ("connecting", "reading", "lost", "failed"):
        text = shown(state=state)
        assert [words for words in ("running now", "live page", "last picture") if words in text] == []
    tell(feed, job.described(NOW_S - 60.0, ended_s=NOW_S - 5.0, exit_status=0), NOW_S - 5.0)
    ended = shown()
    assert "running now" not in ended
    assert ">last picture</a>" in ended
    assert "It has ended: <a" in ended
    assert ">its last picture</a>" in ended


@pytest.mark.slow
def test_names_in_results_lead_to_their_own_history(open_page, kept_archive):
    """Jobs and nodes, as links of this page."""
    shown = text_of(open_page(kept_archive))
    assert 'href="history?job=lab%2Fllm-70b"' in shown
    assert 'href="history?node=gpu-04"' in shown


@pytest.mark.slow
@pytest.mark.parametrize(
    ("query", "words"),
    [
        ({"day": "2026-13-01"}, "day='2026-13-01' is no day"),
        ({"month": "x" * 5000}, "is no month"),
        ({"past": "forever"}, "past='forever' is no length"),
        ({"cause": HOSTILE}, "No findings in this period"),
        ({"job": "';--", "node": "\\", "find": "%"}, "No findings in this period"),
        ({"day": "2999-12-31", "month": "1971-01"}, "No findings in this period"),
        ({"job": "nobody"}, "No finding in this period"),
    ],
)
def test_whatever_a_link_says_the_page_opens(query, words, open_page, kept_archive):
    """It is told what was left out, or that there is nothing."""
    assert words in unescape(text_of(open_page(kept_archive, query)))


@pytest.mark.slow
def test_hostile_names_stay_text(open_page, tmp_path):
    """Everything in an archive came from other people's jobs, and from later versions of Paceline."""
    name = f"<img src=x onerror=alert(1)>{HOSTILE}"
    words = {"job": name, "nodes": [name], "cause": name, "kind": name, "state": name, "summary": name, "cluster": name}
    keep(tmp_path / "archive", [(NOW_S - HOUR_S, finding(**words))])
    for query in ({}, {"cause": name[:200], "kind": name[:200], "cluster": name[:200]}, {"find": "<img"}):
        app = open_page(tmp_path / "archive", query)
        assert "<img" not in text_of(app)
        assert "<img" not in str([chart.proto.spec for chart in app.get("plotly_chart")])
    assert re.search(r"No .* in this period", text_of(app)) or "&lt;img" in text_of(app)


@pytest.mark.slow
def test_without_a_setting_one_sentence_says_the_mend(open_page):
    """The page names the setting and the command."""
    shown = text_of(open_page(""))
    assert "No archive" in shown
    assert "PACELINE_ARCHIVE=/srv/paceline paceline archive" in shown


@pytest.mark.slow
def test_an_archive_that_cannot_be_read_is_told_with_the_mend(open_page, tmp_path):
    """No control is shown that would lead nowhere."""
    app = open_page(tmp_path / "nowhere")
    assert "The archive cannot be read" in text_of(app)
    assert "fix: paceline archive --to" in text_of(app)
    assert app.get("plotly_chart") == []


@pytest.mark.slow
def test_an_empty_archive_says_that_there_is_nothing(open_page, tmp_path):
    """No GPU watched is not no hour lost."""
    keep(tmp_path / "archive", [])
    shown = text_of(open_page(tmp_path / "archive"))
    assert "No findings in this period" in shown
    assert "no GPU was measured" in shown


@pytest.mark.slow
def test_jobs_findings_and_nodes_lead_here(played, snapshot_of, simulated_job):
    """Each live page names the history of what it shows."""

    def page(path, source):
        from ui.screens.navigation import PAGES

        next(entry for entry in PAGES if entry.path == path).show(source)

    source = lambda job, rank=None: snapshot_of(played, rank=rank)  # noqa: E731
    job = text_of(opened(page, ("job", source)))
    assert 'href="history?job=demo"' in job
    assert 'href="history?cause=worker_compute"' in job
    node = played.machines.view().nodes[0]
    assert f'href="history?node={node}"' in text_of(opened(page, ("fleet", source), {"node": node}))
