"""Who has reported: the names that a command is checked against."""

from typing import Any

import pytest
from msgspec import structs

from paceline import reported
from paceline.events import JobDescribed, NodeDescribed
from paceline.reported import Reported

RUNNING = JobDescribed(
    cluster="c",
    producer="p",
    sequence=0,
    job="a",
    attempt=0,
    node="n1",
    world_size=1,
    backend="gloo",
    framework="torch",
    started_s=1.0,
    places=[],
)


def job(name: str = "a", **changes: Any) -> JobDescribed:
    return structs.replace(RUNNING, job=name, **changes)


def told(*events: JobDescribed | NodeDescribed) -> Reported:
    made = Reported("c")
    for event in events:
        made.update(event)
    return made


def test_a_job_that_runs_and_its_node_are_there() -> None:
    """Nothing is refused of them, nor what is asked of others than jobs and nodes."""
    made = told(job())
    for target in ("job:a", "node:n1", "streams", "suggestion:x"):
        assert made.refuses_target(target) is None
    assert made.refuses_job("a") is None


def test_what_there_is_not_is_refused_with_what_there_is() -> None:
    """Names of running jobs, not of those that have ended; and nodes."""
    made = told(job("b"), job("a"), job("over", ended_s=2.0))
    assert made.refuses_target("job:x") == "no job 'x' has reported; running jobs: a, b"
    assert made.refuses_target("job:over") == "job 'over' has ended; running jobs: a, b"
    assert made.refuses_target("node:x") == "no node 'x' has reported; node: n1"
    assert made.refuses_job("over") is None


def test_a_job_has_ended_when_all_its_nodes_have_in_any_order_and_twice() -> None:
    """One node that has left is no end; a later run of that name goes on."""
    ends = [job(node="n1", ended_s=2.0), job(node="n2")]
    assert told(*ends, *ends).refuses_target("job:a") is None
    ended = told(*ends, job(node="n2", ended_s=3.0))
    assert "has ended" in str(ended.refuses_target("job:a"))
    ended.update(job(node="n1", started_s=4.0))
    assert ended.refuses_target("job:a") is None


def test_an_attempt_that_is_over_is_refused() -> None:
    """The default of 0 would change nothing of a job that was started again; a later one may still come."""
    made = told(job(), job(attempt=1))
    assert made.refuses_attempt("a", 0) == "job 'a' is at attempt 1: give --attempt 1"
    assert made.refuses_attempt("a", 1) is made.refuses_attempt("a", 2) is made.refuses_attempt("x", 0) is None
    ended = told(job(attempt=1, ended_s=2.0), job("b"))
    assert ended.refuses_attempt("a", 1) == "job 'a', attempt 1, has ended; running job: b"
    assert ended.refuses_attempt("a", 2) is None
    again = told(job(ended_s=2.0), job(started_s=3.0))
    assert again.refuses_attempt("a", 0) is None


def test_another_cluster_is_none_of_ours() -> None:
    """The same name there is another job; who means that one is shown the fix."""
    made = told(job(cluster="west"), job(cluster="east"), job("b"), job("b", cluster="east"))
    there = "not in cluster c, but it runs in east and west: name it with --cluster"
    assert made.refuses_job("a") == f"no job 'a' has reported; {there}"
    assert made.refuses_job("b") is None
    assert told(job(cluster="west")).refuses_target("node:n1") == "no node 'n1' has reported; there is no node"
    over = told(job(ended_s=2.0), job(cluster="east"), job(cluster="west", ended_s=2.0))
    assert over.refuses_target("job:a") == (
        "job 'a' has ended; not in cluster c, but it runs in east: name it with --cluster"
    )
    assert told(job(cluster="west", ended_s=2.0)).refuses_job("a") == "no job 'a' has reported; there is no running job"


def test_it_is_bounded_and_a_long_name_is_cut(monkeypatch: pytest.MonkeyPatch) -> None:
    """Names come from outside."""
    monkeypatch.setattr(reported, "MOST_JOBS", 2)
    monkeypatch.setattr(reported, "MOST_NODES", 2)
    made = told(*(job(str(number), node=str(number)) for number in range(5)))
    assert [name for name in "01234" if made.refuses_job(name) is None] == ["3", "4"]
    assert [name for name in "01234" if made.refuses_target(f"node:{name}") is None] == ["3", "4"]
    assert len(str(made.refuses_job("x" * 10_000))) < 300
