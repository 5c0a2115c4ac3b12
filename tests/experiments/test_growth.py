"""The growth benchmark: its arithmetic, its tables, and one small point measured as the large ones are."""

import io

import pytest

from experiments.growth import feed, report, states
from experiments.growth.sizing import Cost, needed
from experiments.throughput.jobs import Load
from experiments.throughput.load import encoded
from paceline import topics

LOAD = Load("growth", 2, 8, 1.0, 20)
COST = Cost(
    ranks_a_job=500,
    steps_a_s=10.0,
    us_a_rank_step=75.0,
    held_bytes_a_rank=10_000.0,
    snapshot_bytes_a_rank=1_000.0,
    stored_bytes_a_rank_s=500.0,
    bytes_a_rank_step=100.0,
    packed_bytes_a_rank_step=50.0,
    window_bytes_a_rank_s=80.0,
)


def test_what_a_cluster_needs_follows_from_what_a_rank_costs():
    """Half of a core is planned; states are in memory twice; a rank's steps make messages, its seconds windows."""
    need = needed(COST, 1000, 100e6)
    assert need.cores == pytest.approx(0.75)
    assert need.workers == 2
    assert need.memory_bytes == pytest.approx(2 * 100e6 + 1000 * 11_000)
    assert need.steps_bytes_a_day == pytest.approx(2 * need.packed_steps_bytes_a_day) == pytest.approx(86.4e9)
    assert need.window_bytes_a_day == pytest.approx(80 * 1000 * 86_400)
    assert need.changelog_bytes_a_day == pytest.approx(500 * 1000 * 86_400)


def test_more_workers_than_jobs_are_of_no_use():
    """One job is one worker's, whatever it costs."""
    assert needed(COST._replace(ranks_a_job=1000), 1000, 0.0).workers == 1
    assert needed(COST._replace(us_a_rank_step=0.0), 1000, 0.0).workers == 1


def test_messages_come_through_the_pipe_as_they_were():
    """All of a load, in its order."""
    pipe = io.BytesIO()
    feed.write(pipe, LOAD)
    pipe.seek(0)
    assert list(feed.read(pipe)) == [message.data for message in encoded(LOAD, feed.BEGAN_S)]


@pytest.mark.slow
def test_a_point_is_measured_and_stands_in_the_tables():
    """Every figure is there and above zero."""
    point = states.measured(LOAD, (message.data for message in encoded(LOAD, feed.BEGAN_S)))
    assert point["snapshot_bytes"] > 2 * 1000
    assert min(point[name] for name in ("us_a_rank_step", "snapshot_s", "restore_s", "stored_bytes_a_s")) > 0
    assert 0 < point["packed_bytes_a_rank_step"] < point["bytes_a_rank_step"]
    assert point["answer_bytes_a_rank_s"][topics.WINDOW.short] > 0
    machine = {"date": "2026-11-22", "cores": 2, "processor": "x", "python": "3.11", "load_before": 0.0}
    tables = report.text({"machine": machine, "quick": True, "took_s": 1.0, "sizing": [point], "states": [point]})
    assert "| 125 of 8 ranks | 1 |" in tables
