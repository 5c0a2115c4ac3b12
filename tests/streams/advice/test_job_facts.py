"""What is known of a job from its nodes, each of which may speak by several sidecars."""

import msgspec
import pytest

from paceline.events import RankPlace
from streams.advice import job_facts
from streams.advice.job_facts import Jobs
from tests.derived_events import described


def place(rank: int) -> RankPlace:
    return RankPlace(rank=rank, local_rank=rank, node="node-1", device="cpu", pid=100 + rank)


def test_a_job_is_over_when_every_part_of_every_node_has_left():
    """Two tasks on one node, a sidecar each: the one that goes first does not speak for the other."""
    jobs = Jobs()
    for part, rank in (("", 0), ("1", 1)):
        jobs.describe(described(world_size=2, part=part, places=[place(rank)]))
    jobs.describe(described(world_size=2, part="1", places=[place(1)], ended_s=5.0))
    assert not jobs.of("train").over
    jobs.describe(described(world_size=2, places=[place(0)], ended_s=6.0))
    assert jobs.of("train").over


def test_a_pod_that_was_killed_and_replaced_keeps_no_job_open():
    """It said no goodbye; the job is over when the next pod of its ranks has left."""
    jobs = Jobs()
    places = [place(0)]
    jobs.describe(described(world_size=1, labels={"kubernetes_pod": "a"}, places=places, started_s=1.0))
    jobs.describe(described(world_size=1, labels={"kubernetes_pod": "b"}, places=places, started_s=9.0))
    assert not jobs.of("train").over
    jobs.describe(described(world_size=1, labels={"kubernetes_pod": "b"}, places=places, started_s=9.0, ended_s=20.0))
    assert jobs.of("train").over
    restored = Jobs()
    restored.load(msgspec.msgpack.decode(msgspec.msgpack.encode(jobs.state())))
    assert restored.of("train").over


def test_a_job_of_long_names_is_bounded_in_bytes():
    """Ranks beyond it have no place, and labels beyond theirs are left out."""
    jobs, long = Jobs(), "x" * 100_000
    for rank in range(200):
        places = [msgspec.structs.replace(place(rank), node=f"{rank}{long}")]
        jobs.describe(described(node=f"{rank}{long}", places=places, labels={"short": "a", "long": long}))
    facts = jobs.of("train")
    assert 50 < len(facts.places) < 90
    assert facts.labels == {"short": "a"}
    assert facts.held_bytes < 20 * 2**20


def test_jobs_of_long_names_are_bounded_in_bytes(monkeypatch: pytest.MonkeyPatch):
    """The newest stay; read back, they are counted as before."""
    monkeypatch.setattr(job_facts, "JOB_BYTES", 2**20)
    jobs = Jobs()
    for at in range(50):
        jobs.describe(described(job=f"{at}{'x' * 100_000}", places=[place(0)]))
        jobs.steps("train", 0)
    assert 2 <= len(jobs.facts) <= 11
    assert "train" in jobs.facts
    restored = Jobs()
    restored.load(msgspec.msgpack.decode(msgspec.msgpack.encode(jobs.state())))
    assert restored._held.bytes == jobs._held.bytes
