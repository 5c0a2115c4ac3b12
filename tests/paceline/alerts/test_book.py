"""The book of alerts: what holds, whatever order, repetition and clocks events come with."""

from typing import Any

import pytest

from paceline.alerts import book
from paceline.alerts.book import AlertBook
from paceline.events import JobDescribed, RankPlace
from tests.derived_events import HOSTILE, described, finding, suggestion


def fires(held: AlertBook, key: str = "finding:f1", now_s: float = 2000.0) -> bool:
    return held.standing(held.alerts[key], now_s).fires


def after(*told: object) -> AlertBook:
    held = AlertBook()
    for event in told:
        held.update(event, 1500.0)  # type: ignore[arg-type]
    return held


def test_a_confirmed_finding_holds_until_it_has_recovered() -> None:
    assert not fires(after(finding(state="suspected")))
    assert fires(after(finding(state="suspected"), finding(revision=2)))
    assert not fires(after(finding(), finding(revision=2, state="recovered", severity="info")))


def test_what_another_finding_reports_from_now_on_has_not_recovered() -> None:
    """The trouble goes on: it is one of many of its kind."""
    held = after(finding(), finding(revision=2, state="recovered", severity="info", replaced_by="crowd"))
    assert held.standing(held.alerts["finding:f1"], 2000.0)[:2] == (False, "another finding reports it")


def test_the_newest_revision_counts_in_whatever_order_they_come() -> None:
    over = finding(revision=2, state="recovered")
    assert not fires(after(over, finding()))
    assert not fires(after(over, over, finding(), over))


def test_it_began_when_it_was_first_told() -> None:
    held = AlertBook()
    held.update(finding(revision=2), 1700.0)
    held.update(finding(revision=3), 1600.0)
    held.update(finding(revision=3), 1800.0)
    assert (held.alerts["finding:f1"].starts_s, held.alerts["finding:f1"].heard_s) == (1600.0, 1600.0)


def test_states_of_a_newer_version_are_shown_of_findings_and_not_of_suggestions() -> None:
    """What is new about a suggestion is what somebody did with it."""
    assert fires(after(finding(state="escalated", severity="catastrophic")))
    assert not fires(after(suggestion(state="delegated")), "suggestion:s1")


def test_a_suggestion_holds_while_it_is_new_and_has_not_expired() -> None:
    held = after(suggestion())
    assert fires(held, "suggestion:s1")
    assert not fires(held, "suggestion:s1", now_s=90_000.0)
    for state in ("accepted", "dismissed", "applied", "verified", "did_not_help", "expired", "withdrawn"):
        held = after(suggestion(), suggestion(revision=2, state=state))
        assert held.standing(held.alerts["suggestion:s1"], 2000.0).ending == state.replace("_", " ")


def test_a_jobs_findings_are_over_when_its_last_node_has_left() -> None:
    running = [finding(), described(), described(node="node-2")]
    assert fires(after(*running, described(ended_s=1600.0)))
    ended = after(*running, described(ended_s=1600.0), described(node="node-2", ended_s=1650.0))
    assert ended.standing(ended.alerts["finding:f1"], 2000.0)[:3] == (False, "the job has ended", 1650.0)


def test_a_job_that_was_started_again_has_left_its_findings_behind() -> None:
    held = after(described(), finding(), described(attempt=1), described(ended_s=1600.0))
    assert held.standing(held.alerts["finding:f1"], 2000.0).ending == "the job was started again"
    assert fires(after(described(attempt=1), finding(attempt=1)))


def run(started_s: float, **changes: Any) -> JobDescribed:
    """A run of the job on node-1, with one rank."""
    places = [RankPlace(rank=0, local_rank=0, node="node-1", device="", pid=1)]
    return described(started_s=started_s, places=places, producer=f"p-{started_s}", **changes)


@pytest.mark.parametrize("kind", ["straggler", "died"])
@pytest.mark.parametrize("again", [run(4000.0), run(4000.0, ended_s=5000.0)])
def test_another_run_of_the_same_name_and_attempt_leaves_findings_behind(kind: str, again: JobDescribed) -> None:
    """Also after a restart, when the compacted topic holds its description alone."""
    held = after(run(900.0), finding(kind=kind), run(900.0, ended_s=1600.0), again)
    restored = AlertBook()
    restored.restore(held.snapshot())
    restored.update(again, 1500.0)
    for one in (held, restored):
        assert one.standing(one.alerts["finding:f1"], 6000.0)[:3] == (False, "the job was started again", 1500.0)
        one.update(finding(id="f2", kind=kind), 4500.0)
        assert one.standing(one.alerts["finding:f2"], 6000.0).ending in ("", "the job has ended")


def test_a_finding_of_another_run_that_has_an_old_id_is_no_old_revision() -> None:
    """Of a run whose earlier one is forgotten, a fault at the same step has the id of the earlier one's."""
    held = after(run(900.0), finding(revision=7), run(900.0, ended_s=1600.0), run(4000.0))
    held.update(finding(revision=1), 4500.0)
    assert held.standing(held.alerts["finding:f1"], 4600.0).fires
    assert held.alerts["finding:f1"].starts_s >= 4000.0


def test_a_run_goes_on_whose_sidecar_was_started_again_or_whose_clock_is_ahead() -> None:
    assert fires(after(run(900.0), finding(), run(900.0, node="node-2"), run(1510.0)))
    assert fires(after(run(9000.0), finding()))


def test_what_a_node_says_outlives_another_run() -> None:
    assert fires(after(run(900.0), finding(kind="device_fault", first_step=-1), run(900.0, ended_s=1.0), run(1900.0)))


def test_the_end_of_a_job_of_another_cluster_is_none_of_its_business() -> None:
    assert fires(after(finding(), described(cluster="d", ended_s=1600.0)))


def test_a_nodes_finding_outlives_the_job() -> None:
    assert fires(after(finding(kind="device_fault", first_step=-1), described(ended_s=1600.0)))


def test_what_ended_a_job_holds_until_it_is_started_again() -> None:
    died = [described(), finding(kind="died"), described(ended_s=1600.0)]
    assert fires(after(*died))
    again = after(*died, described(attempt=1))
    assert again.standing(again.alerts["finding:f1"], 2000.0).ending == "the job was started again"


@pytest.mark.parametrize(("kind", "holds"), [("died", True), ("network", True), ("configuration_mismatch", False)])
def test_what_the_logs_of_a_job_say_outlives_it(kind: str, holds: bool) -> None:
    """It counts no steps, and neither does what is said of a running job's settings."""
    assert fires(after(finding(kind=kind, first_step=-1, nodes=[]), described(ended_s=1600.0))) == holds


def test_what_nobody_speaks_of_for_a_day_is_over() -> None:
    held = after(finding())
    assert fires(held, now_s=1500.0 + book.QUIET_S)
    assert held.standing(held.alerts["finding:f1"], 1501.0 + book.QUIET_S).ending == "no message for a day"
    assert fires(held, now_s=0.0)


def test_names_are_one_line_of_bounded_length() -> None:
    alert = after(finding(job=HOSTILE, summary=HOSTILE * 1000, nodes=[HOSTILE] * 1000, ranks=list(range(5000)))).alerts
    (held,) = alert.values()
    assert all(word.isprintable() for word in (held.job, held.text, held.title, *held.nodes, *held.lines))
    assert len(held.text) <= 1500
    assert len(held.nodes) == len(held.ranks) == 64


@pytest.mark.long
def test_it_forgets_what_is_over_first_and_is_bounded() -> None:
    held = AlertBook()
    held.update(finding(id="open"), 0.0)
    for number in range(book.MOST_ALERTS + 10):
        held.update(finding(id=f"over-{number}", state="recovered"), float(number))
        held.update(described(job=f"job-{number}"), 0.0)
    assert len(held.alerts) == book.MOST_ALERTS
    assert "finding:open" in held.alerts
    assert held.shed == 11
    for number in range(book.MOST_JOBS + 10):
        held.update(described(job=f"job-{number}"), 0.0)
    assert len(held.jobs) == book.MOST_JOBS


def test_a_restored_book_goes_on_as_if_nothing_had_been() -> None:
    held = after(finding(), suggestion(), finding(id="f2", state="recovered"))
    again = AlertBook()
    again.restore(held.snapshot())
    assert again.alerts == held.alerts
    later = finding(revision=2, state="recovered")
    for one in (held, again):
        one.update(later, 1700.0)
    assert again.alerts == held.alerts


def test_jobs_under_names_of_any_length_are_bounded_in_bytes(monkeypatch: pytest.MonkeyPatch) -> None:
    """The newest job's life is known, and an old one has left nothing behind."""
    monkeypatch.setattr(book, "JOB_BYTES", 2**20)
    held = AlertBook()
    for at in range(50):
        held.update(described(job=f"{at}{'x' * 100_000}", ended_s=5.0), 1500.0)
    assert 0 < len(held.jobs) <= 10
    assert len(held._ended_heard_s) == len(held.jobs)
    assert next(reversed(held.jobs))[1].startswith("49x")
    held.forget_jobs()
    held.update(described(job="next"), 1500.0)
    assert len(held.jobs) == 1
