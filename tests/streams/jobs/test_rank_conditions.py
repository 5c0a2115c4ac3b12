"""What a rank's node and device went through, beside its peers': a cause, or cleared."""

import msgspec
import numpy as np
import pytest

from paceline.events import RankCondition
from paceline.sidecar.condition_columns import condition_columns
from streams.episodes.causes import Verdict
from streams.jobs.rank_conditions import RankConditions, condition_rows

PEERS = [0, 2, 3]
COMPUTE = Verdict("worker_compute", 0.9, [])
HOT = 0x40


@pytest.fixture
def tell(make_training):
    """Makes the rows of conditions that a message brings."""
    message = make_training(seconds=1)[0]
    return lambda told: condition_rows(
        [msgspec.structs.replace(message, conditions=condition_columns(told, message.t0_s))]
    )


@pytest.fixture
def conditions(tell):
    """Ten seconds of four ranks; rank 1's and the others' as given."""

    def made(own, others):
        kept = RankConditions()
        for second in range(10):
            for rank in range(4):
                fields = own if rank == 1 else others
                kept.update(tell([RankCondition(rank=rank, time_s=float(second), span_s=1.0, **fields)]), 4)
        kept.ends_s = np.full(4, 9.0)
        return kept

    return made


FINE = {"throttle_reasons": 0, "sm_clock_mhz": 1900.0, "major_faults": 0, "pressure_memory_ratio": 0.0}


@pytest.mark.parametrize(
    ("own", "others", "cause"),
    [
        ({}, {}, "worker_compute"),
        ({"throttle_reasons": HOT, "sm_clock_mhz": 1200.0}, {}, "throttling"),
        ({"throttle_reasons": HOT}, {}, "worker_compute"),
        ({"throttle_reasons": HOT, "sm_clock_mhz": None}, {}, "throttling"),
        ({"throttle_reasons": HOT, "sm_clock_mhz": None}, {"throttle_reasons": HOT}, "worker_compute"),
        ({"major_faults": 5000}, {}, "memory_pressure"),
        ({"major_faults": 5000}, {"major_faults": 2000}, "worker_compute"),
        ({"pressure_memory_ratio": 0.4}, {}, "memory_pressure"),
    ],
)
def test_only_what_the_peers_do_not_have_is_a_cause(conditions, own, others, cause):
    """A clock below the peers', a reason that they do not share, far more pages from disk, or stalls for memory."""
    kept = conditions(FINE | own, FINE | others)
    assert kept.refine(COMPUTE, 1, PEERS, 8.0).cause == cause
    assert kept.explains(1, PEERS, 8.0) is (cause != "worker_compute")


def test_a_cause_that_the_phases_tell_stands(conditions):
    """Input that is slow is no throttling, whatever the GPU says."""
    kept = conditions(FINE | {"throttle_reasons": HOT, "sm_clock_mhz": 1200.0}, FINE)
    assert kept.refine(Verdict("input_pipeline", 0.9, []), 1, PEERS, 8.0).cause == "input_pipeline"


def test_what_was_looked_at_is_cleared(conditions):
    """With the number; what is not measured is not cleared."""
    cleared = conditions(FINE, FINE).refine(COMPUTE, 1, PEERS, 8.0).cleared
    assert cleared == ["throttling: in 0% of the samples", "memory pressure: 0 major faults/s"]
    blind = conditions({}, {})
    assert blind.refine(COMPUTE, 1, PEERS, 8.0).cleared == []
    assert blind.seen(1, PEERS, 8.0).own.throttled != 0.0


def test_where_nobody_looked_nothing_changes(conditions):
    """The verdict stands, and there are no numbers."""
    empty = RankConditions()
    assert empty.refine(COMPUTE, 1, PEERS, 8.0) is COMPUTE
    assert empty.seen(1, PEERS, 8.0) is None
    assert not empty.troubled(1)


def test_a_quota_is_seen_beside_the_peers_and_is_no_cause_of_its_own(conditions):
    """It says why a thread waits for a processor, where the phases have shown that one does."""
    kept = conditions(FINE | {"cpu_quota_count": 4.0, "cpu_throttled_ratio": 0.4}, FINE)
    seen = kept.seen(1, PEERS, 8.0)
    assert (seen.own.quota, seen.own.held_back) == (4.0, pytest.approx(0.4))
    assert np.isnan(seen.peers.held_back)
    assert kept.refine(COMPUTE, 1, PEERS, 8.0).cause == "worker_compute"


def test_numbers_stand_beside_the_peers(conditions):
    """The means of the last seconds, own and the median peer's."""
    seen = conditions(FINE | {"throttle_reasons": HOT, "sm_clock_mhz": 1200.0}, FINE).seen(1, PEERS, 8.0)
    assert (seen.own.throttled, seen.own.mask, seen.own.clock) == (1.0, HOT, 1200.0)
    assert (seen.peers.throttled, seen.peers.clock) == (0.0, 1900.0)
