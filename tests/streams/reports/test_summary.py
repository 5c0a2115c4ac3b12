"""What a recording amounts to: totals by job and rank, and the last word on each finding."""

import msgspec
import pytest

from paceline.events import Cost, Coverage, Finding
from streams.reports.summary import Summary
from tests.timings import changed, listed


@pytest.fixture
def finding():
    """A straggler, first revision."""
    return Finding(
        id="a1",
        revision=1,
        kind="straggler",
        state="suspected",
        cluster="c",
        job="job",
        attempt=0,
        cause="worker_compute",
        ranks=[1],
        stage=None,
        group=None,
        nodes=["node-0"],
        devices=[],
        first_step=10,
        last_step=20,
        severity="warning",
        confidence=0.9,
        cost=Cost(lost_s=1.0, gpu_hours=0.0, throughput_lost_ratio=0.1),
        coverage=Coverage(ranks_expected=2, ranks_heard=2, events_missing=0, notes=[]),
        evidence=[],
        exonerated=[],
        summary="Rank 1 is slow.",
    )


def told(*events, **more):
    summary = Summary(**more)
    for event in events:
        summary.update(event)
    return summary


def test_steps_and_seconds_are_counted_by_rank(make_training):
    """Without the warm-up, as the verdicts do."""
    (job,) = told(*make_training(ranks=2, seconds=2)).jobs.values()
    assert (job.steps, job.first_step, job.last_step) == (20, 0, 19)
    assert job.timed_steps == {0: 15, 1: 15}
    assert job.step_s == pytest.approx({0: 1.5, 1: 1.5})
    assert job.median_step_s == pytest.approx(0.1, rel=0.01)
    assert job.nodes == {0: "node-0", 1: "node-1"}


def test_the_order_of_nodes_changes_no_total_and_a_repeat_adds_nothing(make_training):
    """Each producer's messages in order, twice, the second node's first."""
    events = make_training(ranks=2, seconds=2)
    (usual,) = told(*events).jobs.values()
    turned = sorted(events, key=lambda event: -listed(event.speakers.ranks)[0])
    (job,) = told(*(event for event in turned for _ in range(2))).jobs.values()
    assert (job.phase_s, job.rank_steps) == (usual.phase_s, usual.rank_steps)


def test_rows_that_cannot_be_are_left_out(make_training):
    """Negative and NaN seconds, absurd ranks and steps, and a phase of no name."""
    (event, *_) = make_training(ranks=1, nodes=1, seconds=1)
    count = len(listed(event.rank))
    nothing = {name: [float("nan")] * count for name in event.phases}
    (usual,) = told(event).jobs.values()
    for fields in (
        {"step_s": [-1.0] * count, "phases": {name: [-1.0] * count for name in event.phases}},
        {"step_s": [float("nan")] * count, "phases": nothing},
        {"rank": [10**9] * count},
        {"step": [-1] * count},
        {"step_s": [float("nan")] * count, "phases": {"tea": [1.0] * count}},
    ):
        (job,) = told(event, changed(event, sequence=1, **fields)).jobs.values()
        assert (job.phase_s, job.rank_steps) == (usual.phase_s, usual.rank_steps)


def test_nothing_heard_is_nothing_known(make_training):
    """No median before the first step; an empty message is a rank that was heard."""
    (event, *_) = make_training(ranks=1, nodes=1, seconds=1)
    names = ("rank", "step", "start_s", "step_s")
    (job,) = told(changed(event, phases={}, **{name: [] for name in names})).jobs.values()
    assert (job.median_step_s, job.steps, job.first_step) == (None, 0, None)
    assert (told().jobs, told().found) == ({}, False)


def test_the_last_word_on_a_finding_is_kept_whatever_the_order(finding):
    """By its revision."""
    newer = msgspec.structs.replace(finding, revision=2, state="confirmed")
    for events in ((finding, newer), (newer, finding)):
        summary = told(*events)
        assert [job.findings for job in summary.jobs.values()] == [{"a1": newer}]
        assert summary.found


def test_a_finding_of_a_node_is_of_no_job(finding):
    """It knows no step."""
    summary = told(msgspec.structs.replace(finding, kind="device_fault", first_step=-1, last_step=-1))
    assert (list(summary.node_findings), summary.jobs, summary.found) == (["a1"], {}, True)


@pytest.mark.parametrize("kind", ["died", "network", "configuration_mismatch"])
def test_a_verdict_on_a_job_that_counts_no_steps_is_the_jobs(finding, kind):
    """As what its logs say of it: the nodes of the ranks are named."""
    verdict = msgspec.structs.replace(finding, kind=kind, first_step=-1, last_step=-1, nodes=["n"])
    summary = told(verdict)
    assert [job.findings for job in summary.jobs.values()] == [{"a1": verdict}]
    assert summary.node_findings == {}


def test_without_totals_jobs_are_named_alone(make_training):
    """What is not asked for is not worked out."""
    (job,) = told(*make_training(seconds=1), totals=False).jobs.values()
    assert (job.job, job.phase_s) == ("job", {})
