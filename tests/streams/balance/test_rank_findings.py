"""What a balancer tells of single ranks becomes findings: out of memory, and slow though nobody waits for it."""

import msgspec
import numpy as np
import pytest

from paceline.events import BalanceObserved
from streams.balance.job_balance import JobBalance
from streams.balance.rank_findings import CALM_S, RankFindings, median_of_others
from streams.episodes.crowd import MOST_SINGLE
from tests.balanced_job import BalancedJob


def told(job, decision, seconds, **changed):
    """What ``seconds`` more of a job bring to light."""
    return [found for _ in range(seconds) for found in decision.update(job.observed(**changed))]


def balanced(job, seconds=40):
    """The job, after its balancer has had so many seconds."""
    balancer = JobBalance()
    for _ in range(seconds):
        for plan in balancer.update(job.observed(source="kafka")):
            job.follow(plan)
    return job


def states(found):
    return [(one.kind, one.ranks, one.state) for one in found]


def test_a_slow_rank_that_takes_less_work_stays_named_while_it_does():
    """Nobody waits for it, so no straggler is found; it is over when it takes as many samples as the others."""
    job, decision = BalancedJob((400.0, 400.0, 100.0, 400.0)), RankFindings()
    assert told(job, decision, 5) == []
    found = told(balanced(job), decision, 5)
    assert states(found) == [("balanced_straggler", [2], state) for state in ("suspected", "confirmed")]
    latest = found[-1]
    (share,) = latest.evidence
    assert (share.value, share.peers) == (job.shares[2], float(np.median(np.delete(job.shares, 2))))
    assert (latest.cause, latest.severity, latest.cost.lost_s, latest.first_step) == ("worker_compute", "info", 0.0, -1)
    assert f"fewer samples ({job.shares[2]} instead of " in latest.summary
    job.speeds[2] = 400.0
    over = told(balanced(job), decision, 5)
    assert states(over) == [("balanced_straggler", [2], "recovered")]
    assert over[0].id == latest.id


@pytest.mark.parametrize(
    "speeds", [(100.0,) * 8, (100.0,) * 7 + (300.0,), (100.0, 98.0, 103.0, 95.0)], ids=["equal", "one fast", "nearly"]
)
def test_nobody_is_named_where_no_rank_is_much_slower_than_most(speeds):
    """One that is faster than all others makes none of these slow."""
    job = balanced(BalancedJob(speeds, noise=0.05))
    assert told(job, RankFindings(), 30) == []


@pytest.mark.parametrize("changed", [{"mode": "static"}, {"mode": "uniform"}, {"version": 0}])
def test_shares_that_nobody_measured_name_nobody(changed):
    """Somebody wrote them down, or they are what training began with."""
    job = balanced(BalancedJob())
    assert told(job, RankFindings(), 5, **changed) == []


@pytest.mark.parametrize(
    ("shares", "ready_s", "tile"),
    [
        ([24, 24, 16, 16], [0.252, 0.255, 0.169, 0.174], 8),
        ([24, 24, 16], [0.259, 0.251, 0.171], 8),
        ([5, 5, 4, 4], [0.060, 0.061, 0.050, 0.051], 1),
        ([5, 5, 4, 4], [None, 0.061, None], 1),
    ],
    ids=["tiles", "micro-batches", "few samples", "not measured"],
)
def test_a_rank_that_takes_one_tile_less_is_not_called_slow(shares, ready_s, tile):
    """Shares are whole tiles: that much is rounding."""
    job = BalancedJob((100.0,) * len(shares))
    assert told(job, RankFindings(), 9, version=3, shares=shares, ready_s=ready_s, tile=tile) == []


def test_a_rank_that_is_ready_before_its_peers_is_not_called_slow():
    """As where shares follow a node's rating that does not hold."""
    job = BalancedJob((100.0,) * 4)
    started = {"version": 1, "shares": [64, 64, 64, 32]}
    assert told(job, RankFindings(), 9, ready_s=[0.654, 0.664, 0.645, 0.338], **started) == []
    assert told(job, RankFindings(), 9, ready_s=[0.654, None, None, 0.338], **started) == []
    found = told(job, RankFindings(), 3, ready_s=[0.654, None, 0.645, None], **started)
    assert {one.ranks[0] for one in found} == {3}


def test_a_rank_at_the_cap_of_its_memory_is_not_called_slow():
    """It takes less because more does not fit."""
    job = BalancedJob((100.0,) * 4)
    job.version, job.shares = 3, [40, 72, 72, 72]
    assert told(job, RankFindings(), 5, most=[40, None, None, None]) == []


def test_each_time_that_a_rank_runs_out_of_memory_is_told_at_once():
    """With how often, and what it takes from now on; over when it has not happened for a while."""
    job, decision = BalancedJob((100.0,) * 4), RankFindings()
    assert told(job, decision, 10) == []
    (first,) = told(job, decision, 1, ran_out=[0, 1, 0, 0], most=[None, 56, None, None])
    assert (first.kind, first.state, first.ranks, first.cause) == ("out_of_memory", "confirmed", [1], "memory_pressure")
    assert [one.value for one in first.evidence] == [1.0, 56.0]
    assert "1 time so far" in first.summary
    assert "56 samples at most" in first.summary
    assert first.cost.lost_s == pytest.approx(0.65, rel=0.1)  # one step of all ranks
    (second,) = told(job, decision, 10, ran_out=[0, 3, 0, 0], most=[None, 42, None, None])
    assert (second.id, second.revision) == (first.id, 2)
    assert "3 times so far" in second.summary
    over = told(job, decision, int(CALM_S) + 2, ran_out=[0, 3, 0, 0], most=[None, 42, None, None])
    assert states(over) == [("out_of_memory", [1], "recovered")]


def test_no_more_time_is_lost_than_has_passed():
    """A count is anybody's word."""
    job, decision = BalancedJob((100.0,) * 4), RankFindings()
    told(job, decision, 10)
    (found,) = told(job, decision, 1, ran_out=[2**53, 0, 0, 0])
    assert found.cost.lost_s == pytest.approx(10.0)
    assert found.cost.throughput_lost_ratio <= 1.0


def test_another_run_under_the_same_name_counts_from_its_own_beginning():
    """Less than was known of is news; none at all is not."""
    job, decision = BalancedJob((100.0,) * 4), RankFindings()
    told(job, decision, 1, ran_out=[0, 3, 0, 0])
    assert told(job, decision, 1, ran_out=[]) == []
    (again,) = told(job, decision, 1, ran_out=[0, 1, 0, 0])
    assert again.evidence[0].value == 1.0


def test_what_comes_twice_or_late_or_is_garbage_changes_nothing():
    """A spool sends the past; a sender gives lists of any length."""
    job, decision = balanced(BalancedJob()), RankFindings()
    early, late = job.observed(ran_out=[1, 0, 0, 0], producer="spool"), job.observed()
    decision.update(late)
    assert decision.update(late) == []
    assert decision.update(early) == []
    for shares in ([5], [1, 2**31], [7] * 9):
        told(job, decision, 3, shares=shares, ran_out=[1] * 3, most=[None, 3], ready_s=[None])
    assert len(decision.shares.open()) <= 9


@pytest.mark.long
def test_many_ranks_out_of_memory_are_one_finding_that_names_them_all():
    """A model that is too large for all of them; the single findings end, and one lasts until there is calm."""
    ranks = 1024
    job, decision = BalancedJob((100.0,) * ranks, total=8 * ranks), RankFindings()
    first = told(job, decision, 1, ran_out=[1, 1] + [0] * (ranks - 2))
    assert states(first) == [("out_of_memory", [rank], "confirmed") for rank in (0, 1)]
    second = told(job, decision, 1, ran_out=[1] * ranks, most=[6] * ranks)
    everyone = list(range(ranks))
    together = ("out_of_memory", everyone, "confirmed")
    assert states(second) == [*[("out_of_memory", [rank], "recovered") for rank in (0, 1)], together]
    assert "one finding names them all" in second[0].summary
    assert {one.replaced_by for one in second[:-1]} == {second[-1].id}
    assert second[-1].summary.startswith("1024 ranks (0-1023) ran out of memory, up to 1 time each so far")
    assert [one.value for one in second[-1].evidence] == [1.0, 6.0]
    third = told(job, decision, 1, ran_out=[2, 1, 5] + [1] * (ranks - 3))
    assert [(one.id, one.revision) for one in third] == [(second[-1].id, 2)]
    over = told(job, decision, int(CALM_S) + 2, ran_out=[2, 1, 5] + [1] * (ranks - 3))
    assert states(over) == [("out_of_memory", everyone, "recovered")]
    again = told(job, decision, 1, ran_out=[3, 1, 5] + [1] * (ranks - 3))
    assert states(again) == [("out_of_memory", [0], "confirmed")]


def test_many_slow_ranks_are_one_finding_that_names_them_all():
    """As on two kinds of nodes; whoever joins them is in it, and it is over when all take as much as the others."""
    job, decision = BalancedJob((100.0,) * 40), RankFindings()
    job.version = 3

    def seen(slow, seconds=4, share=20):
        return told(job, decision, seconds, shares=[share if rank in slow else 40 for rank in range(40)])

    assert states(seen({5})) == [("balanced_straggler", [5], state) for state in ("suspected", "confirmed")]
    found = seen(set(range(12)))
    assert states(found) == [
        ("balanced_straggler", [5], "recovered"),
        *[("balanced_straggler", list(range(12)), state) for state in ("suspected", "confirmed")],
    ]
    assert found[-1].summary.startswith("12 ranks (0-11) are slow and get fewer samples (the slowest 20")
    assert seen({20, 21}, seconds=1) == []
    over = seen({20, 21}, seconds=1, share=37) + seen(set())
    assert states(over) == [("balanced_straggler", [20, 21], "recovered")]
    assert [one.ranks for one in seen({7})] == [[7], [7]]


@pytest.mark.long
@pytest.mark.parametrize("ranks", [9, 1024, pytest.param(16_384, marks=pytest.mark.slow)])
def test_one_message_never_brings_more_than_a_few_findings(ranks):
    """However many ranks it speaks for, and whatever they come to next."""
    decision = RankFindings()
    job = BalancedJob((100.0,) * 2)
    job.version = 2
    some, none = [8] * (ranks // 2) + [16] * (ranks - ranks // 2), [16] * ranks
    for second in range(60):
        several = [second * (rank < (second % 4) * 5) for rank in range(ranks)]
        shares = some if second % 12 < 6 else none if second % 12 < 9 else [8] * 5 + none[5:]
        found = told(
            job, decision, 1, shares=shares, ready_s=[1.0] * ranks, ran_out=several if second % 7 else [second] * ranks
        )
        assert len(found) <= 2 * (MOST_SINGLE + 1)


@pytest.mark.parametrize("more", [0, 30], ids=["one rank", "many ranks"])
def test_a_restored_decision_goes_on_as_if_nothing_had_happened(more):
    """At any point, the same findings."""
    job = balanced(BalancedJob((400.0, 400.0, *[100.0] * (1 + more // 3), *[400.0] * (1 + more))))
    events = [job.observed(ran_out=[0, *[at // 3] * (1 + more)]) for at in range(12)]
    whole, pieces = RankFindings(), RankFindings()
    for event in events:
        expected = whole.update(event)
        pieces = RankFindings.restore(pieces.snapshot())
        assert pieces.update(event) == expected


@pytest.mark.parametrize("data", [b"", b"x" * 40, RankFindings().snapshot()[:-3]])
def test_what_is_no_snapshot_is_refused(data):
    """With a ValueError, whatever is wrong."""
    with pytest.raises(ValueError, match="not a snapshot"):
        RankFindings.restore(data)


def test_the_median_of_the_others_leaves_each_out():
    """As numpy has it, one after the other; ties and both parities."""
    for size in range(2, 9):
        values = np.random.default_rng(size).integers(1, 6, size).astype(float)
        expected = [np.median(np.delete(values, at)) for at in range(size)]
        assert median_of_others(values).tolist() == expected


def test_an_event_of_before_has_no_counts():
    """The column is new: who does not send it has told nothing."""
    data = msgspec.json.encode(BalancedJob().observed())
    plain = {name: value for name, value in msgspec.json.decode(data).items() if name != "ran_out"}
    assert msgspec.convert(plain, BalanceObserved).ran_out == []
