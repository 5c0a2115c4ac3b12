"""Whether an attempt goes on: told by each node for itself, in any order, more than once."""

from paceline import job_life
from paceline.job_life import JobLife
from tests.derived_events import described


def test_it_has_ended_when_all_nodes_have_left() -> None:
    life = JobLife(0)
    assert life.ended_s is None
    for event in (described(ended_s=5.0), described(node="b"), described(ended_s=5.0)):
        life.update(event)
    assert life.ended_s is None
    life.update(described(node="b", ended_s=4.0))
    assert life.ended_s == 5.0


def test_one_that_failed_tells_how_it_ended() -> None:
    life = JobLife(0)
    for status in (None, 0, 137, 0, None):
        life.update(described(exit_status=status))
    assert life.exit_status == 137


def test_another_attempt_is_another_life() -> None:
    life = JobLife(1)
    life.update(described(ended_s=5.0, exit_status=1))
    life.update(described(attempt=2, ended_s=5.0))
    assert (life.nodes, life.exit_status) == ({}, None)


def test_it_is_bounded() -> None:
    life = JobLife(0)
    for number in range(job_life.MOST_NODES + 5):
        life.update(described(node=f"n{number}"))
    assert len(life.nodes) == job_life.MOST_NODES
