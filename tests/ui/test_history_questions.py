"""Questions of the page, asked of a real archive.

What they assume of it: times in Unix seconds, costs that grow within an episode, revisions in any order and told more
than once, names that hold anything.
"""

import datetime

import pytest
from msgspec import structs

from paceline.history.query import History
from paceline.history.views import Scope
from tests.derived_events import HOSTILE, described, finding, job_window
from tests.ui.kept import DAY_S, HOUR_S, NOW_S, cost, keep
from ui import history_questions as questions
from ui.history_link import Sought, midnight

pytestmark = pytest.mark.long

ALL = (questions.findings, questions.jobs, questions.lost_by_day, questions.worst_nodes, questions.causes,
       questions.use, questions.episodes, questions.pace)  # fmt: skip
MONTH = Sought(past="30d")


def answer(folder, question):
    """The rows of ``question``, by name."""
    with History.open(str(folder), {}).connect(Scope(question.since_s, question.until_s), question.views) as connection:
        told = connection.ask(question.sql, question.values, question.most)
    return [dict(zip(told.columns, row, strict=True)) for row in told.rows]


@pytest.fixture
def kept_of(tmp_path):
    """An archive of these events, each published at its time."""

    def kept_of(*told):
        keep(tmp_path / "archive", told)
        return tmp_path / "archive"

    return kept_of


def ids(rows):
    return sorted(row["id"] for row in rows)


def test_the_last_seven_days_are_shown_where_nothing_else_is_asked(kept_archive):
    """Of a finding the newest revision."""
    rows = answer(kept_archive, questions.findings(Sought(), NOW_S))
    assert ids(rows) == ["link-1", "straggler-2", "straggler-4", "straggler-6"]
    assert {row["state"] for row in rows if row["id"] != "link-1"} == {"recovered"}


@pytest.mark.parametrize(
    ("changed", "wanted"),
    [
        ({"job": "lab/llm-70b"}, 1),
        ({"job": "llm-70b"}, 0),
        ({"job": "llm-7b"}, 10),
        ({"node": "lab-2"}, 1),
        ({"node": "lab"}, 0),
        ({"find": "LAB-"}, 1),
        ({"find": "7B"}, 10),
        ({"cause": "throttling"}, 2),
        ({"kind": "communication_bound"}, 1),
        ({"cluster": "lab"}, 1),
        ({"cluster": "lab", "cause": "throttling"}, 0),
        ({"past": "24h"}, 1),
        ({"day": datetime.date(2026, 11, 21)}, 1),
        ({"day": datetime.date(2020, 1, 1)}, 0),
    ],
)
def test_each_word_narrows_the_findings(changed, wanted, kept_archive):
    """Names of jobs and nodes are whole, a search is a part of one; all of them hold together."""
    assert len(answer(kept_archive, questions.findings(MONTH._replace(**changed), NOW_S))) == wanted


@pytest.mark.slow
def test_jobs_are_found_by_name_node_and_what_was_found_in_them(kept_archive):
    """With their pace and what they lost."""

    def names(**changed):
        return [row["job"] for row in answer(kept_archive, questions.jobs(MONTH._replace(**changed), NOW_S))]

    assert names() == ["llm-70b", "llm-7b"]
    assert names(node="gpu-03") == names(find="gpu-0") == names(cause="throttling") == names(job="llm-7b") == ["llm-7b"]
    assert names(cluster="lab") == names(kind="communication_bound") == names(find="70B") == ["llm-70b"]
    (row,) = answer(kept_archive, questions.jobs(MONTH._replace(job="llm-7b"), NOW_S))
    assert (row["ranks"], row["nodes"], row["findings"]) == (64, 6, 10)
    assert row["lost_gpu_hours"] == pytest.approx(1.7 * sum(range(2, 21, 2)))


def test_a_job_that_ended_before_the_period_is_not_of_it(kept_of):
    """Descriptions of jobs are kept for as long as they may matter: not all of them are of this week."""
    old = described(job="old", cluster="default", started_s=NOW_S - 20 * DAY_S, ended_s=NOW_S - 19 * DAY_S)
    long_one = structs.replace(old, job="long", ended_s=NOW_S - DAY_S)
    folder = kept_of((NOW_S - 19 * DAY_S, old), (NOW_S - DAY_S, long_one))
    assert [row["job"] for row in answer(folder, questions.jobs(Sought(), NOW_S))] == ["long"]


def test_what_an_episode_costs_belongs_to_the_days_in_which_it_grew(kept_archive):
    """The slow link cost 4 device-hours on the one day and 6 more on the next."""
    rows = answer(kept_archive, questions.lost_by_day(Sought(cause="link"), NOW_S))
    told = {questions.day_of(row["day"]).isoformat(): row["gpu_hours"] for row in rows}
    assert told == {"2026-11-24": pytest.approx(4.0), "2026-11-25": pytest.approx(6.0)}


def test_the_days_of_a_month_add_up_to_what_its_episodes_cost(kept_archive):
    """Nothing is lost twice, however many revisions told it."""
    by_day = answer(kept_archive, questions.lost_by_day(MONTH, NOW_S))
    by_cause = answer(kept_archive, questions.causes(MONTH, NOW_S))
    assert sum(row["gpu_hours"] for row in by_day) == pytest.approx(sum(row["gpu_hours"] for row in by_cause))


def test_an_episode_that_began_the_month_before_costs_only_what_it_grew_in_this(kept_of):
    """Its revisions before the month are looked at, and not counted."""
    first_s = midnight(datetime.date(2026, 11, 1))
    same = {"id": "long", "cluster": "default", "job": "llm"}
    folder = kept_of(
        (first_s - DAY_S, finding(revision=1, cost=cost(5.0), **same)),
        (first_s + HOUR_S, finding(revision=2, cost=cost(7.0), **same)),
    )
    (row,) = answer(folder, questions.lost_by_day(Sought(), NOW_S))
    assert (questions.day_of(row["day"]), row["gpu_hours"]) == (datetime.date(2026, 11, 1), pytest.approx(2.0))


def test_revisions_told_twice_late_or_falling_count_once(kept_of):
    """Delivery is at least once, and a later revision may take some of a cost back."""
    same = {"id": "f", "cluster": "default", "job": "llm"}
    costs = {1: 2.0, 2: 6.0, 3: 5.0}
    told = [finding(revision=revision, cost=cost(hours), **same) for revision, hours in costs.items()]
    places = (2, 0, 1, 1, 0)
    folder = kept_of(*((NOW_S - HOUR_S + at, told[place]) for at, place in enumerate(places)))
    (row,) = answer(folder, questions.lost_by_day(Sought(), NOW_S))
    assert (row["gpu_hours"], row["findings"]) == (pytest.approx(6.0), 1)


def test_what_a_finding_of_several_nodes_cost_is_shared(kept_archive):
    """Nodes add up to the whole; a node that was chosen stands alone."""
    rows = answer(kept_archive, questions.worst_nodes(MONTH, NOW_S))
    assert sum(row["gpu_hours"] for row in rows) == pytest.approx(1.7 * sum(range(2, 21, 2)) + 10.0)
    (row,) = answer(kept_archive, questions.worst_nodes(MONTH._replace(node="lab-1"), NOW_S))
    assert (row["node"], row["gpu_hours"]) == ("lab-1", pytest.approx(5.0))


def test_hours_of_gpus_are_told_by_use(kept_archive):
    """What nobody measured is neither idle nor at work."""
    (row,) = answer(kept_archive, questions.use(MONTH, NOW_S))
    names = ("watched", "busy", "idle_held", "idle_free", "unmeasured")
    assert [row[name] for name in names] == [80.0, 20.0, 20.0, 20.0, 20.0]
    assert row["utilization_ratio"] == pytest.approx((0.9 + 0.01 + 0.0) / 3)
    (row,) = answer(kept_archive, questions.use(MONTH._replace(node="gpu-99"), NOW_S))
    assert row["watched"] is None


def test_a_jobs_pace_is_told_in_bounded_points(kept_archive, kept_of):
    """The median's and the worst's, weighted by steps."""
    rows = answer(kept_archive, questions.pace(MONTH._replace(job="llm-7b"), NOW_S))
    assert 20 < len(rows) <= questions.POINTS + 2
    same = {"cluster": "default", "job": "llm", "length_s": 60.0}
    windows = [(NOW_S, job_window(start_s=NOW_S - HOUR_S - 60 * at, **same)) for at in range(2000)]
    rows = answer(kept_of(*windows), questions.pace(Sought(job="llm"), NOW_S))
    assert questions.POINTS <= len(rows) <= questions.POINTS + 2
    assert [row["own_worst_s"] for row in rows] == pytest.approx([0.9] * len(rows))


def test_a_jobs_waiting_is_a_share_of_its_time(kept_of):
    """Of two windows in one point the slow one counts for more, as in `paceline history jobs`."""
    same = {"cluster": "default", "job": "llm", "length_s": 60.0, "steps": 40}
    start_s = NOW_S // 3600 * 3600 - HOUR_S
    quick = job_window(start_s=start_s, step_median_s=0.05, own_median_s=0.045, wait_ratio=0.1, **same)
    slow = job_window(start_s=start_s + 1, step_median_s=0.5, own_median_s=0.35, wait_ratio=0.3, **same)
    (row,) = answer(kept_of((NOW_S, quick), (NOW_S, slow)), questions.pace(Sought(job="llm"), NOW_S))
    assert row["wait_ratio"] == pytest.approx((0.1 * 2 + 0.3 * 20) / 22)


def test_a_name_with_slashes_means_one_job_alone(kept_of):
    """Job b of cluster a, and job a/b of the cluster without a name of its own, are called alike; a/b/c is another."""
    told = [finding(id=f"{at}", cluster=cluster, job=job) for at, (cluster, job) in enumerate(
        [("a", "b"), ("default", "a/b"), ("a", "b/c"), ("a/b", "c"), ("default", "b"), ("b", "a")])]  # fmt: skip
    folder = kept_of(*((NOW_S - HOUR_S, one) for one in told))
    found = lambda job: ids(answer(folder, questions.findings(Sought(job=job), NOW_S)))  # noqa: E731
    assert found("a/b") == ["0", "1"]
    assert found("a/b/c") == ["2", "3"]
    assert found("b") == ["4"]
    assert found("/" * 300) == []


@pytest.mark.slow
@pytest.mark.parametrize("name", [HOSTILE, "o'clock'; DROP TABLE finding; --", '"', "\\", "%_", "?", "$1", "\0", "ß/İ"])
def test_hostile_names_are_values_and_nothing_else(name, kept_of):
    """They are found under just their name, and change no question."""
    clean = name.replace("\0", "") or "x"
    one = finding(id="f", cluster=clean, job=clean, nodes=[clean], cause=clean, kind=clean)
    folder = kept_of((NOW_S - HOUR_S, one), (NOW_S - HOUR_S, finding(id="g", cluster="default")))
    own = Sought(job=f"{clean}/{clean}", node=clean, find=clean, cause=clean, kind=clean, cluster=clean)
    assert ids(answer(folder, questions.findings(own, NOW_S))) == ["f"]
    for made in ALL:
        question = made(Sought(job=name, node=name, find=name, cause=name, kind=name, cluster=name), NOW_S)
        assert name == "?" or name not in question.sql
        answer(folder, question)
    assert ids(answer(folder, questions.findings(Sought(), NOW_S))) == ["f", "g"]


@pytest.mark.parametrize("made", ALL)
def test_an_archive_or_a_period_without_anything_is_answered(made, kept_of, kept_archive):
    """No row, or one of nulls; never an error."""
    empty = kept_of()
    for folder, now_s in ((empty, NOW_S), (kept_archive, 40 * DAY_S), (kept_archive, 0.0)):
        rows = answer(folder, made(MONTH._replace(job="llm-7b"), now_s))
        assert all(value is None for row in rows for value in row.values())


def test_answers_are_bounded(kept_of):
    """However much there is."""
    names = range(questions.LISTED + 100)
    told = [(NOW_S - at, finding(id=f"f{at}", job=f"job-{at}", nodes=[f"node-{at}"])) for at in names]
    folder = kept_of(*told)
    assert len(answer(folder, questions.findings(Sought(), NOW_S))) == questions.LISTED
    assert len(answer(folder, questions.worst_nodes(Sought(), NOW_S))) == questions.WORST
    assert len(answer(folder, questions.episodes(Sought(), NOW_S))) == questions.EPISODES


def test_clusters_are_those_that_told_of_a_job_or_a_finding(kept_archive):
    assert [row["cluster"] for row in answer(kept_archive, questions.clusters(NOW_S))] == ["default", "lab"]
