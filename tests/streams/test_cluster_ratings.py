"""A cluster's ratings: who lies under the middle of its kind or its own best, and what says nothing."""

from typing import Any

import msgspec
import pytest

from paceline import topics
from paceline.accused_units import many_of
from paceline.events import Finding, NodeDescribed, RatedSpeed
from streams.cluster_events import Heard
from streams.cluster_ratings import ClusterRatings
from tests.rated_nodes import described, gpu, speed
from tests.work_done import counted

#: Answers to one message; a crowd begins with the last word on those that were reported one by one.
MOST_ANSWERS = 10


def say(*events: NodeDescribed, to: ClusterRatings | None = None) -> list[Finding]:
    decision = to or ClusterRatings()
    return [finding for event in events for finding in decision.update(Heard(topics.NODE, event, event.time_s))]


def cpu(node: str, value: float, sequence: int = 0, **fields: Any) -> NodeDescribed:
    return described(node, sequence, [speed("cpu", "gemm_float32", value, sequence, **fields)])


def cluster(*values: float, **fields: Any) -> list[NodeDescribed]:
    return [cpu(f"n{at}", value, **fields) for at, value in enumerate(values)]


def test_the_node_under_the_median_of_its_kind_is_named() -> None:
    """With its value, the peers', the rule, and how many there are."""
    (found,) = say(*cluster(100e9, 101e9, 60e9, 99e9))
    assert (found.kind, found.state, found.nodes, found.devices, found.ranks) == (
        "below_rating",
        "confirmed",
        ["n2"],
        [],
        [],
    )
    (number,) = found.evidence
    assert (number.name, number.value, number.unit, number.peers) == ("gemm_float32", 60e9, "flop/s", 100e9)
    assert "over 5% under the median of 3 nodes of its kind (EPYC 9654, 96 processors)" in number.rule
    assert found.summary.startswith(
        "n2 lies under its rating: gemm_float32 60.0 Gflop/s, 40% under the median of 3 nodes"
    )
    assert found.coverage.notes == ["3 nodes of the same kind were measured"]


def test_it_is_found_whenever_its_peers_come() -> None:
    """Nobody knows what is usual before three of a kind were measured."""
    events = cluster(60e9, 100e9, 100e9)
    decision = ClusterRatings()
    assert say(*events[:2], to=decision) == []
    assert [found.nodes for found in say(events[2], to=decision)] == [["n0"]]


def test_a_gpu_is_named_among_gpus_of_its_name() -> None:
    """The slow GPU of one node, beside those of another kind, which are all slower."""
    h100 = [
        described(
            f"h{at}",
            0,
            [speed(f"GPU-{at}-{i}", "gemm_bfloat16", 7e14) for i in (0, 1)],
            *(gpu(f"GPU-{at}-{i}", index=i) for i in (0, 1)),
        )
        for at in range(3)
    ]
    slow = msgspec.structs.replace(h100[1], rated=[h100[1].rated[0], speed("GPU-1-1", "gemm_bfloat16", 5e14)])
    a100 = [
        described(f"a{at}", 0, [speed(f"GPU-A{at}", "gemm_bfloat16", 2.5e14)], gpu(f"GPU-A{at}", "NVIDIA A100"))
        for at in range(3)
    ]
    (found,) = say(h100[0], slow, h100[2], *a100)
    assert (found.nodes, found.devices) == (["h1"], ["GPU-1-1"])
    assert "clocks" in found.summary


def test_a_node_under_its_own_best_is_named_without_any_peer() -> None:
    (found,) = say(cpu("n", 100e9, 0), cpu("n", 80e9, 1))
    assert found.nodes == ["n"]
    assert "its own best" in found.evidence[0].rule
    assert found.evidence[0].peers == 100e9


def test_it_is_over_when_a_later_rating_is_good_again() -> None:
    """The same finding, one revision later; and no word after that."""
    decision = ClusterRatings()
    (found,) = say(*cluster(100e9, 100e9, 60e9), to=decision)
    (over,) = say(cpu("n2", 99e9, 1), to=decision)
    assert (over.id, over.revision, over.state, over.severity) == (found.id, 2, "recovered", "info")
    assert say(cpu("n2", 100e9, 2), to=decision) == []


def test_a_later_rating_that_is_low_too_is_told_with_its_number() -> None:
    decision = ClusterRatings()
    say(*cluster(100e9, 100e9, 60e9), to=decision)
    (again,) = say(cpu("n2", 50e9, 1), to=decision)
    assert (again.revision, again.evidence[0].value) == (2, 50e9)


def test_more_nodes_of_the_kind_are_no_news() -> None:
    decision = ClusterRatings()
    say(*cluster(100e9, 100e9, 60e9), to=decision)
    assert say(*(cpu(f"m{at}", 100e9 + at * 1e8) for at in range(20)), to=decision) == []


QUIET = {
    "within the bar": cluster(100e9, 100e9, 97e9),
    "intervals that touch": [*cluster(100e9, 100e9), cpu("n2", 80e9, low=60e9, high=96e9)],
    "two nodes of a kind": cluster(100e9, 60e9),
    "all of a kind alike slow": cluster(60e9, 60e9, 60e9, 60e9),
    "measured while others used it": [*cluster(100e9, 100e9), cpu("n2", 60e9, busy_ratio=0.5)],
    "busy beyond all numbers": [*cluster(100e9, 100e9), cpu("n2", 60e9, busy_ratio=1e30)],
    "nothing": [*cluster(100e9, 100e9), cpu("n2", 0.0)],
    "less than nothing": [*cluster(100e9, 100e9), cpu("n2", -5.0)],
    "beyond all machines": cluster(100e9, 100e9, 1e30),
    "an interval without its value": [*cluster(100e9, 100e9), cpu("n2", 60e9, low=70e9)],
    "another unit": [*cluster(100e9, 100e9), cpu("n2", 60e9, unit="ops")],
    "another size": [*cluster(100e9, 100e9), cpu("n2", 60e9, size_bytes=8)],
    "another kind of processor": [*cluster(100e9, 100e9), msgspec.structs.replace(cpu("n2", 60e9), cpu_count=48)],
    "no kind": [msgspec.structs.replace(one, cpu_model=None) for one in cluster(100e9, 100e9, 60e9)],
    "a slower disk": [
        described(f"n{at}", 0, [speed("host", "disk_read", value)]) for at, value in enumerate((9e9, 9e9, 8e9))
    ],
}


@pytest.mark.parametrize("events", QUIET.values(), ids=QUIET.keys())
def test_nobody_is_accused_of(events: list[NodeDescribed]) -> None:
    assert say(*events) == []


def test_where_nobody_measured_how_busy_it_was_it_is_suspected() -> None:
    (found,) = say(*cluster(100e9, 100e9, 60e9, busy_ratio=None))
    assert found.state == "suspected"
    assert "was not measured" in found.coverage.notes[1]


def test_a_busy_rating_neither_clears_nor_accuses() -> None:
    """What was known before stands, and the coverage says how many were passed over."""
    decision = ClusterRatings()
    say(*cluster(100e9, 100e9, 60e9), to=decision)
    assert say(cpu("n2", 100e9, 1, busy_ratio=0.9), to=decision) == []
    rated = [speed("cpu", "gemm_float32", 50e9, 2), speed("cpu", "memory_triad", 1.0, 2, busy_ratio=0.9)]
    (again,) = say(described("n2", 2, rated), to=decision)
    assert "1 speeds were measured while others used the machine: not judged" in again.coverage.notes


def test_descriptions_that_come_again_say_nothing_new() -> None:
    decision = ClusterRatings()
    events = [*cluster(100e9, 100e9, 60e9), cpu("n2", 100e9, 1)]
    assert len(say(*events, to=decision)) == 2
    assert say(*events, *events[1:], to=decision) == []
    later = [
        msgspec.structs.replace(one, sequence=50 + at, time_s=one.time_s + 900) for at, one in enumerate(events[:2])
    ]
    assert say(*later, to=decision) == []


def test_two_nodes_of_one_name_do_not_take_turns_in_findings() -> None:
    """The later measurement stands, however often both tell theirs."""
    decision = ClusterRatings()
    say(*cluster(100e9, 100e9, 100e9), to=decision)
    slow = [speed("cpu", "gemm_float32", 60e9, 100)]
    fast = [speed("cpu", "gemm_float32", 100e9, 50)]
    told = [
        finding
        for at in range(20)
        for finding in say(
            described("n3", at, slow, producer="a"), described("n3", at, fast, producer="b"), to=decision
        )
    ]
    assert [(one.state, one.revision) for one in told] == [("confirmed", 1)]


def test_a_clock_that_was_set_back_holds_no_rating_up_for_long() -> None:
    """An earlier measurement counts once its producer has told it three times with nobody between."""
    decision = ClusterRatings()
    say(*cluster(100e9, 100e9), to=decision)
    say(described("n2", 0, [speed("cpu", "gemm_float32", 60e9, 9e6)], producer="a"), to=decision)
    good = [speed("cpu", "gemm_float32", 100e9, 5)]
    told = [say(described("n2", at, good, producer="b", time_s=at), to=decision) for at in range(4)]
    assert [[one.state for one in each] for each in told] == [[], [], ["recovered"], []]


def test_a_node_that_is_renamed_is_judged_under_its_new_name() -> None:
    decision = ClusterRatings()
    say(*cluster(100e9, 100e9, 60e9), to=decision)
    (found,) = say(cpu("renamed", 60e9), to=decision)
    assert found.nodes == ["renamed"]


def test_a_gpu_that_was_replaced_is_forgotten() -> None:
    """Its finding is over, and the new one is judged by its own numbers; one that is only lost stays."""
    decision = ClusterRatings()
    for at in range(3):
        value = 4e14 if at == 2 else 7e14
        told = say(described(f"h{at}", 0, [speed(f"GPU-{at}", "gemm_float16", value)], gpu(f"GPU-{at}")), to=decision)
    assert told[0].devices == ["GPU-2"]
    assert say(described("h2", 1, []), to=decision) == []
    (over,) = say(described("h2", 2, [speed("GPU-9", "gemm_float16", 7e14, 9)], gpu("GPU-9")), to=decision)
    assert over.state == "recovered"


def test_a_best_beyond_belief_is_forgotten() -> None:
    """Once measured in another way, a node is not under its rating for ever."""
    assert say(cpu("n", 1e20, 0), cpu("n", 100e9, 1), cpu("n", 100e9, 2)) == []


def test_nodes_without_ratings_leave_nothing_behind() -> None:
    decision = ClusterRatings()
    before = decision.snapshot()
    say(*(described(f"n{at}", 0, []) for at in range(100)), to=decision)
    assert decision.snapshot() == before


def test_speeds_of_a_node_are_bounded() -> None:
    def many(count: int) -> int:
        decision = ClusterRatings()
        rated: list[RatedSpeed] = [speed("cpu", "all_reduce", 1e9, size_bytes=size) for size in range(count)]
        say(described("n", 0, rated), to=decision)
        return len(decision.snapshot())

    assert many(5000) == many(128)


def test_where_there_is_no_room_a_newcomer_waits_for_a_node_of_last_week(monkeypatch: pytest.MonkeyPatch) -> None:
    """The finding of the node that goes is over."""
    monkeypatch.setattr("streams.cluster_ratings.MOST_NODES", 3)
    decision = ClusterRatings()
    (found,) = say(cpu("n0", 100e9, 5), cpu("n1", 100e9, 5), cpu("n2", 60e9, 0), to=decision)
    assert say(cpu("n3", 60e9, 6), to=decision) == []
    week = 8 * 86_400
    (over, new) = say(cpu("n3", 60e9, week), cpu("n1", 100e9, week + 1), cpu("n3", 60e9, week + 2), to=decision)[:2]
    assert (over.id, over.state) == (found.id, "recovered")
    assert new.nodes == ["n3"]


def halves(slow: int, fast: int) -> list[NodeDescribed]:
    """A kind that falls into two halves: the speed of one is four fifths of the other's."""
    slower = [cpu(f"slow{at}", 80e9) for at in range(slow)]
    return slower + [cpu(f"fast{at}", 100e9) for at in range(fast)]


@pytest.mark.long
def test_a_node_that_moves_the_median_of_hundreds_brings_one_finding() -> None:
    """It counts them all; stored and read back, it goes on, and ends when they are measured to be good again."""
    decision = ClusterRatings()
    assert say(*halves(101, 100), to=decision) == []
    (found,) = say(cpu("one", 100e9), to=decision)
    many = many_of(found)
    assert many is not None
    assert (many.number, many.what, len(found.nodes), found.state) == (101, "nodes", 101, "confirmed")
    decision = ClusterRatings.restore(decision.snapshot())
    told = [say(cpu(f"slow{at}", 100e9, 1), to=decision) for at in range(101)]
    assert max(map(len, told)) == 1
    assert sum(map(len, told)) < 50
    (over,) = told[-1]
    assert (over.id, over.state) == (found.id, "recovered")


@pytest.mark.long
def test_a_median_that_flips_ends_no_finding() -> None:
    """One node more on either side is no news of the others, until five of eight are as slow."""
    decision = ClusterRatings()
    say(*halves(101, 100), to=decision)
    (found,) = say(cpu("one", 100e9), to=decision)
    assert say(cpu("two", 80e9), cpu("three", 80e9), cpu("four", 100e9), cpu("five", 100e9), to=decision) == []
    told = [say(cpu(f"more{at}", 80e9), to=decision) for at in range(100)]
    assert max(map(len, told)) == 1
    (over,) = [finding for answers in told for finding in answers if finding.state == "recovered"]
    assert over.id == found.id


def test_a_few_that_become_many_are_one_finding() -> None:
    """Those that had one each end with it; a single one that recovers is no answer any more."""
    decision = ClusterRatings()
    told = [say(event, to=decision) for event in [*halves(0, 40), *halves(20, 0)]]
    assert max(map(len, told)) <= MOST_ANSWERS
    newest = {finding.id: finding for answers in told for finding in answers}
    (crowd,) = (one for one in newest.values() if one.state != "recovered")
    assert len(crowd.nodes) >= 18
    assert len(newest) == 9


@pytest.mark.long
def test_what_is_usual_is_worked_out_once_a_message() -> None:
    """Whatever the number of nodes that it moves, each with several speeds."""
    names = ["gemm_float32", "memory_copy", "memory_triad", "disk_read"]

    def several(node: str, value: float) -> NodeDescribed:
        return described(node, 0, [speed("cpu", name, value) for name in names])

    decision = ClusterRatings()
    say(*(several(f"n{at}", 80e9 if at < 61 else 100e9) for at in range(121)), to=decision)
    with counted(60_000):
        (found,) = say(several("one", 100e9), to=decision)
    assert len(found.nodes) == 61
