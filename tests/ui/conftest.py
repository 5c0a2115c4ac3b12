import dataclasses

import pytest

from paceline import wire
from tests.ui.simulated_job import SimulatedJob
from ui.feed import Feed
from ui.snapshot import Connection, Snapshot


@pytest.fixture
def simulated_job():
    """A small simulated job: 4 ranks on 2 nodes, rank 2 slow from step 60 on."""
    return SimulatedJob(ranks=4, nodes=2, slow_rank=2, fault_step=60, job="demo")


@pytest.fixture
def tell():
    """Feed events as the reader does: through the wire, written at a given time."""

    def tell(feed, numbered, at_s=1000.0):
        for topic, event in numbered:
            feed.update(topic.short, wire.decode(topic, wire.encode(event)), at_s)

    return tell


@pytest.fixture
def played(simulated_job, tell):
    """A feed that has heard 100 steps of the simulated job and its finding."""
    feed = Feed()
    tell(feed, simulated_job.described(900.0), 900.0)
    for first in range(0, 100, 20):
        tell(feed, simulated_job.timings(900.0 + first, first, 20), 900.0 + first)
    tell(
        feed,
        [
            simulated_job.window(1000.0, 99),
            simulated_job.finding(1, 80, "suspected"),
            simulated_job.finding(2, 99, "confirmed"),
        ],
    )
    tell(feed, simulated_job.machines(1000.0))
    return feed


@pytest.fixture
def snapshot_of():
    """A snapshot of a feed, as the reader makes it."""

    def snapshot_of(feed, now_s=1001.0, state="connected", cause="", rank=None, **changed):
        lines = feed.lines()
        made = Snapshot(
            now_s=now_s,
            connection=Connection(state, "127.0.0.1:9092", now_s - 5, cause),
            jobs=lines,
            job=feed.view(lines[0].cluster, lines[0].job) if lines else None,
            topics=feed.topics(),
            fleet=feed.machines.view(),
            dead_letters=list(feed.dead_letters),
            missing=feed.missing,
            node_findings=feed.node_findings.episodes(),
            rank=feed.rank(lines[0].cluster, lines[0].job, rank) if lines and rank is not None else None,
            senders=list(feed.senders.values()),
        )
        return dataclasses.replace(made, **changed)

    return snapshot_of
