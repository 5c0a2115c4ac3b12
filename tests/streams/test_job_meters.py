"""What ``/metrics`` tells of jobs: counted once, bounded, and gone when the job is."""

import pytest

from paceline import events
from paceline.events import CollectiveLine
from paceline.events.silence import SERIES_SILENT_S
from streams.job_meters import (
    COST_S,
    ENDED_S,
    MOST_FINDINGS,
    MOST_JOBS,
    MOST_RANKS_TOLD,
    JobMeters,
)
from streams.keyed_state import Key
from tests.derived_events import described, finding, job_window, rank_window, suggestion

JOB, CLUSTER = Key("job", "c", "train", 0), Key("cluster", "c", "", -1)


@pytest.fixture
def meters():
    return JobMeters()


def test_a_step_is_counted_once(meters):
    """A window that comes again after a restart, and one of another length, adds nothing."""
    for start_s, length_s in ((1000.0, 1.0), (1001.0, 1.0), (1000.0, 1.0), (1000.0, 10.0)):
        meters.hear(JOB, job_window(start_s=start_s, length_s=length_s, steps=3), 0.0, 0.0)
    values = meters.values(0.0, 0.0)
    counts, total = values.step_times["train",]
    assert (sum(counts), total) == (6, 6.0)
    assert sum(values.lateness["train",][0]) == 6
    assert values.lateness["train",][1] == pytest.approx(2.4)


@pytest.mark.parametrize("ahead", [False, True])
def test_a_job_whose_clock_is_set_back_counts_on(meters, ahead):
    """By an hour, or from an hour ahead; what a restart repeats after it counts once."""
    shifts = [3600.0 if ahead and at < 20 else -3600.0 * (not ahead and at >= 60) for at in range(120)]
    windows = [
        job_window(start_s=1e6 + at + shift, length_s=1.0, steps=1, first_step=at, last_step=at)
        for at, shift in enumerate(shifts)
    ]
    for window in [*windows[:70], *windows[40:70], *windows[70:]]:
        meters.hear(JOB, window, 0.0, 0.0)
    assert sum(meters.values(0.0, 0.0).step_times["train",][0]) == 120
    meters.hear(JOB, job_window(start_s=1e6, first_step=0, last_step=9, step_median_s=1.0), 0.0, 0.0)
    meters.hear(JOB, job_window(start_s=1e6 - 3600, first_step=10, last_step=19, step_median_s=3.0), 0.0, 0.0)
    assert meters.values(0.0, 0.0).step_s == {("train",): 3.0}


def test_only_the_slowest_ranks_are_told(meters):
    """Of the newest window that is whole, by their own time."""
    for rank in range(100):
        meters.hear(JOB, rank_window(rank, own_s=0.5 + rank / 1000), 0.0, 0.0)
    assert not meters.values(0.0, 0.0).own_s
    meters.hear(JOB, job_window(), 0.0, 0.0)
    told = meters.values(0.0, 0.0).own_s
    assert told == {("train", str(rank)): 0.5 + rank / 1000 for rank in range(100 - MOST_RANKS_TOLD, 100)}


def test_a_rank_that_is_slow_no_longer_is_gone(meters):
    """The next window tells its own ranks only."""
    for start_s, ranks in ((1000.0, (0, 1)), (1010.0, (1,))):
        for rank in ranks:
            meters.hear(JOB, rank_window(rank, start_s=start_s), 0.0, 0.0)
        meters.hear(JOB, job_window(start_s=start_s), 0.0, 0.0)
    assert list(meters.values(0.0, 0.0).own_s) == [("train", "1")]


def test_bus_bandwidth_is_that_of_the_page(meters):
    """Sizes of one operation together, were all ranks in it; what has no factor is left out."""
    lines = [
        CollectiveLine(operation=name, least_bytes=1, calls=1, bytes=moved, wait_s=0.0, duration_s=1.0)
        for name, moved in (("all_reduce", 100), ("all_reduce_coalesced", 300), ("barrier", 0), ("x" * 999, 5))
    ]
    meters.hear(JOB, job_window(collectives=lines), 0.0, 0.0)
    assert meters.values(0.0, 0.0).bus == {("train", "all_reduce"): 200.0 * 2 * 7 / 8}


def test_findings_open_now_and_what_they_cost(meters):
    """One that is over is open no more; its cost stays for some minutes."""
    meters.hear(JOB, finding(), 0.0, 0.0)
    meters.hear(JOB, finding(revision=2), 1.0, 0.0)
    meters.hear(JOB, finding(id="f2", nodes=["a", "b"]), 1.0, 0.0)
    values = meters.values(1.0, 0.0)
    of = ("train", "node-1", "straggler", "worker_compute", "confirmed", "warning")
    assert values.findings == {of: 1, (*of[:1], "", *of[2:]): 1}
    assert values.lost_s == {("train", "straggler"): 25.0}
    assert values.lost_gpu_s["train", "straggler"] == pytest.approx(2 * 108.0)
    meters.hear(JOB, finding(revision=3, state="recovered"), 2.0, 0.0)
    meters.hear(JOB, finding(id="f2", revision=2, state="recovered"), 2.0, 0.0)
    assert not meters.values(2.0, 0.0).findings
    assert meters.values(2.0, 0.0).lost_s == {("train", "straggler"): 25.0}
    meters.touch(JOB, COST_S)
    assert not meters.values(2.0 + COST_S, 0.0).lost_s
    assert meters.told["straggler", "worker_compute", "recovered"] == 2


def test_suggestions_that_are_open(meters):
    """Until they are closed or expire."""
    meters.hear(CLUSTER, suggestion(), 0.0, 1000.0)
    meters.hear(CLUSTER, suggestion(id="s2", state="applied"), 0.0, 1000.0)
    meters.hear(CLUSTER, suggestion(id="s3", state="dismissed"), 0.0, 1000.0)
    assert meters.values(0.0, 1000.0).suggestions == {("cordon_node", "new"): 1, ("cordon_node", "applied"): 1}
    meters.hear(CLUSTER, suggestion(state="withdrawn"), 0.0, 1000.0)
    assert meters.values(0.0, 1000.0).suggestions == {("cordon_node", "applied"): 1}
    assert not meters.values(0.0, 90_000.0).suggestions


def _told(meters, now_s):
    return {name for name, values in vars(meters.values(now_s, 0.0)).items() if values}


def test_a_silent_job_vanishes_with_all_its_series(meters):
    """Whatever was told of it; one that still speaks stays, though it has no new windows (a hang)."""
    meters.hear(JOB, job_window(length_s=1.0), 0.0, 0.0)
    meters.hear(JOB, rank_window(3), 0.0, 0.0)
    meters.hear(JOB, job_window(), 0.0, 0.0)
    meters.hear(JOB, finding(kind="hang"), 0.0, 0.0)
    meters.touch(JOB, 200.0)
    assert _told(meters, 200.0 + SERIES_SILENT_S - 1) >= {"step_times", "lateness", "own_s", "findings", "lost_s"}
    assert _told(meters, 200.0 + SERIES_SILENT_S) == set()
    meters.touch(JOB, 1000.0)
    assert _told(meters, 1000.0) == set()


def test_a_job_that_has_ended_vanishes_after_a_scrape_or_two(meters):
    """When all nodes have left; one that leaves alone ends nothing, and who comes back is there again."""
    for node in ("a", "b"):
        meters.describe(described(node=node), 0.0)
    meters.hear(JOB, job_window(), 1.0, 0.0)
    meters.describe(described(node="a", ended_s=950.0), 2.0)
    assert _told(meters, 2.0 + ENDED_S)
    meters.describe(described(node="b", ended_s=951.0), 3.0)
    assert _told(meters, 3.0 + ENDED_S - 1)
    assert not _told(meters, 3.0 + ENDED_S)
    meters.hear(JOB, job_window(), 100.0, 0.0)
    assert _told(meters, 100.0)


def test_what_is_held_is_bounded(meters):
    """More jobs, findings or phases than are told of: the oldest go."""
    for number in range(MOST_JOBS + 5):
        meters.hear(Key("job", "c", f"job-{number}", 0), job_window(), 0.0, 0.0)
    assert len(meters.values(0.0, 0.0).ranks) == MOST_JOBS
    for number in range(MOST_FINDINGS + 5):
        meters.hear(JOB, finding(id=f"f{number}", nodes=[f"node-{number}"]), 0.0, 0.0)
    assert len(meters.values(0.0, 0.0).findings) == MOST_FINDINGS
    meters.hear(JOB, job_window(phase_median_s={f"phase {n}": 1.0 for n in range(1000)}), 0.0, 0.0)
    assert len([1 for job, _ in meters.values(0.0, 0.0).phases if job == "train"]) == 16


def test_what_is_given_away_is_told_no_more(meters):
    """Another worker has these partitions; what was counted of all stays."""
    meters.hear(JOB, finding(), 0.0, 0.0)
    meters.clear()
    assert not _told(meters, 0.0)
    assert sum(meters.told.values()) == 1


def test_who_is_no_job_has_no_name_of_one(meters):
    """A node's finding without a job has an empty label."""
    meters.hear(Key("node", "c", "node-1", -1), finding(job="", kind="device_fault"), 0.0, 0.0)
    assert [labels[:3] for labels in meters.values(0.0, 0.0).findings] == [("", "node-1", "device_fault")]


def test_no_answer_is_too_odd(meters):
    """Answers that nothing is told of."""
    meters.hear(JOB, events.Thresholds(cluster="c", job="train", attempt=0, values={}), 0.0, 0.0)
    assert not _told(meters, 0.0)
