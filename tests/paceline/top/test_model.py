"""What is known: the newest of each, in whatever order, and bounded."""

import pytest

from paceline.top import model
from paceline.top.model import Model
from tests.derived_events import described, finding, job_window, rank_window, suggestion

JOB = ("c", "train")


def after(*told: object) -> Model:
    held = Model()
    for event in told:
        held.update(event, 1500.0)
    return held


def shown_start(held: Model) -> float:
    window = held.jobs[JOB].window
    assert window is not None
    return window.start_s


def test_the_newest_window_counts_in_whatever_order_they_come() -> None:
    assert shown_start(after(job_window(start_s=1010.0), job_window(), job_window(start_s=1010.0))) == 1010.0
    held = after(rank_window(0, start_s=1010.0), rank_window(0))
    assert held.jobs[JOB].ranks[0].start_s == 1010.0


def test_a_clock_that_is_set_back_freezes_no_window() -> None:
    """Of later steps is the newer one, of the job and of its ranks; and the job can end."""
    held = after(described(), job_window(start_s=4_600.0, last_step=99), rank_window(0, start_s=4_600.0, last_step=99))
    held.update(job_window(start_s=1_010.0, last_step=199), 1_500.0)
    held.update(rank_window(0, start_s=1_010.0, last_step=199), 1_500.0)
    assert (shown_start(held), held.jobs[JOB].ranks[0].start_s) == (1_010.0, 1_010.0)
    held.update(described(ended_s=1_020.0, exit_status=0), 1_500.0)
    assert held.jobs[JOB].life.ended_by(held.jobs[JOB].measured_s) == 1_020.0


def test_ten_seconds_are_shown_unless_they_are_late() -> None:
    second = {"length_s": 1.0}
    assert shown_start(after(job_window(start_s=1015.0, **second))) == 1015.0
    assert shown_start(after(job_window(), job_window(start_s=1015.0, **second))) == 1000.0
    assert shown_start(after(job_window(), job_window(start_s=1040.0, **second))) == 1040.0
    ranks = after(rank_window(0, start_s=1009.0, **second), rank_window(0), rank_window(0, start_s=1015.0, **second))
    assert ranks.jobs[JOB].ranks[0].length_s == 10.0
    ranks.update(rank_window(0, start_s=1060.0, length_s=1.0), 0.0)
    ranks.update(rank_window(0, start_s=1080.0, length_s=60.0), 0.0)
    assert ranks.jobs[JOB].ranks[0].start_s == 1060.0


def test_a_later_attempt_takes_the_place_of_the_one_before() -> None:
    held = after(described(ended_s=1200.0), job_window(attempt=1), job_window(start_s=2000.0))
    assert held.jobs[JOB].life.attempt == 1
    assert held.jobs[JOB].life.ended_s is None
    assert shown_start(held) == 1000.0


def test_another_run_of_the_same_attempt_is_shown_from_its_beginning() -> None:
    """It began after the end of the first; whoever describes the first once more begins nothing."""
    held = after(described(ended_s=1200.0), job_window(), rank_window(5), described(started_s=1300.0))
    assert (held.jobs[JOB].life.ended_s, held.jobs[JOB].window, held.jobs[JOB].ranks) == (None, None, {})
    held = after(described(ended_s=1200.0), job_window(), described(ended_s=1200.0, exit_status=0))
    assert shown_start(held) == 1000.0


def test_findings_of_an_earlier_run_are_not_those_of_the_next() -> None:
    """Their last revision comes after the next has begun; with its first an id is one of the next run."""
    held = after(described(ended_s=1200.0), finding(kind="device_fault", id="node", first_step=-1, last_step=-1))
    held.update(finding(), 1150.0)
    held.update(described(started_s=1300.0), 1300.0)
    held.update(finding(revision=2, state="recovered"), 1301.0)

    def shown() -> list[tuple[str, int]]:
        (found,) = held.findings_of(held.jobs.values()).values()
        return [(one.id, one.revision) for one in found]

    assert shown() == [("node", 1)]
    held.update(finding(), 1400.0)
    assert shown() == [("node", 1), ("f1", 1)]


def test_a_job_has_ended_when_its_last_node_has() -> None:
    held = after(described(), described(node="b"), described(ended_s=1200.0, exit_status=1))
    assert held.jobs[JOB].life.ended_s is None
    held.update(described(node="b", ended_s=1300.0, exit_status=0), 1500.0)
    assert (held.jobs[JOB].life.ended_s, held.jobs[JOB].life.exit_status) == (1300.0, 1)


def test_the_newest_revision_counts() -> None:
    held = after(finding(revision=3, state="recovered"), finding(revision=2), finding(revision=3))
    assert held.findings["f1"].event.state == "recovered"
    held = after(suggestion(revision=2, state="accepted"), suggestion())
    assert held.suggestions["s1"].event.state == "accepted"
    held.forget_suggestion("s1")
    held.forget_suggestion("never heard of")
    assert held.suggestions == {}


def test_jobs_of_one_name_in_two_clusters_are_two() -> None:
    assert len(after(job_window(), job_window(cluster="d")).jobs) == 2


@pytest.mark.slow
def test_it_is_bounded() -> None:
    held = Model()
    held.update(finding(id="open"), 0.0)
    for number in range(6_000):
        held.update(job_window(job=f"job-{number}"), float(number))
        held.update(rank_window(number), 5_999.0)
        held.update(finding(id=f"f{number}", state="recovered"), float(number))
        held.update(suggestion(id=f"s{number}", state="withdrawn"), float(number))
        held.update(described(job="job-5999", node=f"n{number}"), 5_999.0)
    assert len(held.jobs) == model.MOST_JOBS
    assert len(held.jobs[JOB].ranks) == model.KEPT_RANKS
    assert len(held.findings) == model.MOST_FINDINGS
    assert "open" in held.findings
    assert len(held.suggestions) == model.MOST_SUGGESTIONS


@pytest.mark.parametrize(("kind", "shown"), [("device_fault", 1), ("died", 0)])
def test_of_an_earlier_attempt_only_its_nodes_findings_are_shown(kind: str, shown: int) -> None:
    """A node's fault outlasts the attempt; a verdict on its ranks does not, though neither counts steps."""
    held = after(described(attempt=1), finding(kind=kind, attempt=0, first_step=-1, last_step=-1))
    (found,) = held.findings_of(held.jobs.values()).values()
    assert len(found) == shown
