"""Whether an attempt goes on: told by each node for itself, in any order, more than once."""

import random

import msgspec
import pytest

from paceline import events, job_life, wire
from paceline.job_life import JobLife
from paceline.topics import JOB
from tests.derived_events import described


def test_it_has_ended_when_all_nodes_have_left() -> None:
    life = JobLife(0)
    assert life.ended_s is None
    for event in (described(ended_s=5.0), described(node="b"), described(ended_s=5.0)):
        life.update(event)
    assert life.ended_s is None
    life.update(described(node="b", ended_s=4.0))
    assert life.ended_s == 5.0


def test_a_node_with_a_sidecar_for_each_task_has_left_when_all_of_them_have() -> None:
    """The part of another task says nothing of the first one's, and has a key of its own in the compacted topic."""
    life, first, second = JobLife(0), described(), described(part="1")
    assert (wire.key_of(JOB, first), wire.key_of(JOB, second)) == ("train/node-1", "train/node-1/1")
    for event in (first, second, described(ended_s=5.0)):
        life.update(event)
    assert life.ended_s is None
    life.update(described(part="1", ended_s=6.0, exit_status=3))
    assert (life.ended_s, life.exit_status) == (6.0, 3)


def test_a_pod_that_was_killed_and_replaced_keeps_no_job_alive() -> None:
    """It said no goodbye; the next pod speaks for its ranks, and a late word of the dead one says nothing."""
    life = JobLife(0)
    places = [events.RankPlace(rank=0, local_rank=0, node="node-1", device="", pid=1)]
    killed = described(labels={"kubernetes_pod": "train-a"}, places=places, started_s=1.0)
    for event in (killed, described(labels={"kubernetes_pod": "train-b"}, places=places, started_s=9.0), killed):
        life.update(event)
    assert life.ended_s is None
    life.update(described(labels={"kubernetes_pod": "train-b"}, places=places, started_s=9.0, ended_s=20.0))
    assert life.ended_s == 20.0


def test_of_two_runs_of_one_name_the_last_goodbye_counts() -> None:
    """On two nodes, with the same ranks: the first ends after the second; on one node it is the later word."""
    places = [events.RankPlace(rank=0, local_rank=0, node="n", device="", pid=1)]
    first = described(node="a", places=places, started_s=1.0)
    second = described(node="b", places=places, started_s=9.0)
    life = JobLife(0)
    for event in (first, second, msgspec.structs.replace(second, ended_s=20.0)):
        life.update(event)
    assert life.ended_s == 20.0
    assert (life.ended_by(39.0), life.ended_by(41.0)) == (20.0, None)
    life.update(msgspec.structs.replace(first, ended_s=90.0))
    assert (life.ended_s, life.ended_by(88.0)) == (90.0, 90.0)


def test_it_has_begun_with_the_first_of_those_that_run() -> None:
    """What a node said last of an earlier run of this name, on the compacted topic, is of that run."""
    first, second, gone = on("a", 0, started_s=9.0), on("b", 8, started_s=8.0), on("c", 16, started_s=1.0)
    life = JobLife(0)
    for event in (first, second, msgspec.structs.replace(gone, ended_s=5.0)):
        life.update(event)
    assert (JobLife(0).begun_s, life.begun_s) == (None, 8.0)
    for event in (first, second):
        life.update(msgspec.structs.replace(event, ended_s=20.0))
    assert life.begun_s == 1.0


def test_what_it_remembers_of_its_times_is_what_its_nodes_say() -> None:
    """In any order, with nodes that are started again, replaced and set back, whoever asks in between."""
    chance, life = random.Random(7), JobLife(0)
    for _ in range(500):
        event = on(chance.choice("abcd"), chance.randrange(3), started_s=float(chance.randrange(9)))
        life.update(msgspec.structs.replace(event, ended_s=chance.choice([None, *map(float, range(5, 15))])))
        fresh = JobLife(0, dict(life.nodes), speakers=dict(life.speakers))
        if chance.random() < 0.7:
            assert (life.ended_s, life.begun_s) == (fresh.ended_s, fresh.begun_s)
    kept = msgspec.to_builtins(life)
    assert set(kept) == {"attempt", "nodes", "exit_status", "speakers", "name_bytes"}
    again = msgspec.convert(kept, JobLife)
    assert (again, again.ended_s, again.begun_s) == (life, life.ended_s, life.begun_s)


def on(node: str, rank: int, started_s: float) -> events.JobDescribed:
    """What ``node`` says of its one rank."""
    places = [events.RankPlace(rank=rank, local_rank=0, node=node, device="", pid=1)]
    return described(node=node, places=places, started_s=started_s)


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


@pytest.mark.long
def test_it_is_bounded() -> None:
    life = JobLife(0)
    for number in range(job_life.MOST_NODES + 5):
        life.update(described(node=f"n{number}"))
    assert len(life.nodes) == job_life.MOST_NODES
