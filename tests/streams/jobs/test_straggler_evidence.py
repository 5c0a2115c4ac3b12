"""What is said of a straggler, and the numbers that speak for it."""

import math

import msgspec
import pytest

from paceline.gpu import throttle
from streams.jobs.accused import AccusedRank
from streams.jobs.rank_conditions import ConditionsSeen, View
from streams.jobs.straggler_config import StragglerConfig
from streams.jobs.straggler_evidence import StragglerEpisode, StragglerEvidence, said, said_by_lateness

RANK = AccusedRank(2, "node-1", "GPU-a", group="dp")
WELL = View(throttled=0.0, mask=0, clock=1980.0, faults_per_s=0.0, stalled=0.0)
UNKNOWN = View(*(math.nan, 0, math.nan, math.nan, math.nan))
HOT = View(throttled=0.75, mask=throttle.HARDWARE_THERMAL.bit, clock=900.0, faults_per_s=0.0, stalled=math.nan)


@pytest.fixture
def episode():
    """Rank 2 works 150 ms where its peers work 100 ms, confirmed."""
    seen = StragglerEvidence(
        margin=4.0,
        own_s=0.150,
        peers_s=0.100,
        work_ratio=0.4,
        starved_ratio=0.1,
        waited_ratio=0.45,
        base_s=0.110,
        ticks=10,
        parts_s={"forward": 0.010, "backward": 0.040, "data": 0.001},
        conditions=None,
    )
    return StragglerEpisode(subject=2, cause="worker_compute", first=60.0, last=120.0, state="confirmed", evidence=seen)


def words(episode, **seen):
    episode.evidence = msgspec.structs.replace(episode.evidence, **seen)
    return said(episode, RANK, StragglerConfig(), 0.2)


def numbers(told):
    return {item.name: (item.value, item.peers) for item in told.evidence}


def test_the_excess_is_work_and_time_without_a_processor(episode):
    """Both lengthen the step of all."""
    assert episode.measured.excess_ratio == pytest.approx(0.5)


def test_a_sentence_names_rank_times_cause_and_who_waits(episode):
    """Sure of a confirmed episode, careful of a suspected one."""
    assert words(episode).summary == (
        "Rank 2 on node-1 works 150 ms a step where its peers work 100 ms, since about step 60. "
        "The reason is its own computing; everyone else waits for it."
    )
    episode.state = "suspected"
    assert "It looks like its own computing;" in words(episode).summary


@pytest.mark.parametrize(
    ("parts", "recognised", "reason"),
    [
        ({"other": 0.03, "backward": 0.02}, True, "its own computing (outside of all phases +30.0 ms)"),
        ({"other": 0.05}, False, "its own computing"),  # All is outside of phases that nobody measures.
        ({"checkpoint": 0.05}, False, "its own computing (its checkpoints +50.0 ms)"),
        ({"other": 0.009, "forward": 0.041}, True, "its own computing"),
    ],
)
def test_what_the_program_does_beside_the_phases_is_not_blamed_on_the_device(episode, parts, recognised, reason):
    """A log, a metric or a checkpoint of one rank: its device is as fast as the others."""
    assert f"The reason is {reason}; everyone" in words(episode, parts_s=parts, recognised=recognised).summary


def test_the_numbers_are_told_with_their_rules(episode):
    """Own time and the peers', the excess, the lateness, and the parts of the excess, the largest first."""
    told = words(episode)
    assert list(numbers(told)) == ["own_time", "excess", "lateness", "excess_backward", "excess_forward"]
    assert numbers(told)["own_time"] == (0.15, 0.1)
    assert told.evidence[0].rule == "median of 10 measurements of at least 0.2 s; 4.0 times the threshold"
    assert told.evidence[1].rule == "share of the step without it (110.0 ms); reported from 0.05"


def test_parts_that_are_small_or_many_are_not_told(episode):
    """Four at most, each of more than a twentieth of the excess."""
    parts = dict(zip(("data", "forward", "backward", "optimizer", "gc"), (0.01, 0.02, 0.03, 0.04, 0.05), strict=True))
    told = numbers(words(episode, parts_s=parts))
    assert [name for name in told if name.startswith("excess_")] == [
        *("excess_gc", "excess_optimizer", "excess_backward", "excess_forward")
    ]
    assert [name for name in numbers(words(episode, parts_s={"data": 0.001, "gc": 0.0})) if "excess_" in name] == []


def test_a_part_in_which_the_rank_is_faster_is_no_part(episode):
    """What the others took less is taken off them before."""
    told = numbers(words(episode, parts_s={"data": 0.05, "forward": -0.08}))
    assert [name for name in told if name.startswith("excess_")] == ["excess_data"]


def test_conditions_are_told_where_they_are_measured_and_there(episode):
    """NaN is not measured; 0 is no trouble; a peer that is not measured is left out."""
    told = numbers(words(episode, conditions=ConditionsSeen(HOT, UNKNOWN)))
    assert (told["throttled_share"], told["sm_clock"]) == ((0.75, None), (900.0, None))
    assert not {"major_faults", "memory_pressure"} & told.keys()
    assert numbers(words(episode, conditions=ConditionsSeen(HOT, WELL)))["throttled_share"] == (0.75, 0.0)
    assert "sm_clock" not in numbers(words(episode, conditions=ConditionsSeen(UNKNOWN, WELL)))


def test_a_throttled_rank_is_told_with_the_reason_of_its_gpu(episode):
    """The gravest one; of a rank whose GPU told none, the cause alone."""
    episode.cause = "throttling"
    told = words(episode, conditions=ConditionsSeen(HOT, WELL))
    assert "(hardware thermal slowdown); everyone else waits" in told.summary
    assert "(" not in words(episode, conditions=None).summary


@pytest.mark.parametrize(("held_back", "named"), [(0.38, True), (0.01, False), (0.0, False), (math.nan, False)])
def test_a_quota_is_named_where_it_explains_the_contention(episode, held_back, named):
    """With its processors and how often it was hit; one that was hardly hit explains nothing."""
    episode.cause = "cpu_contention"
    told = words(episode, conditions=ConditionsSeen(WELL._replace(quota=4.0, held_back=held_back), WELL))
    quota = "waiting for a processor (its container may use 4 CPUs (quota) and was throttled in 38% of its periods)"
    assert (quota in told.summary) is named
    assert ("quota" in told.summary) is named
    assert numbers(told)["cpu_quota"] == (4.0, None)
    episode.cause = "worker_compute"
    assert (
        "quota" not in words(episode, conditions=ConditionsSeen(WELL._replace(quota=4.0, held_back=0.4), WELL)).summary
    )


def test_what_was_cleared_and_what_is_said_in_the_end(episode):
    """Both go with every revision."""
    told = words(episode, cleared=("throttling: in 0% of the samples",))
    assert told.cleared == ("throttling: in 0% of the samples",)
    assert told.over.startswith("Rank 2 on node-1 is back among its peers at step 120")


def test_lateness_alone_tells_no_cause(episode):
    """Found in the collectives of a group without phases: how late, in which group, and that more is not known."""
    told = said_by_lateness(episode, RANK, 0.2)
    late = "comes 150 ms a step late to the collectives of group dp, its peers 100 ms, since about step 60"
    assert late in told.summary
    assert told.summary.endswith("Without phases the reason is unknown.")
    assert numbers(told) == {"lateness": (0.15, 0.1)}
