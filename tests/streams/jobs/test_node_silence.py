"""A node that falls silent while its peers go on is told; silence of all, and whoever says goodbye, is not."""

import copy
from collections.abc import Iterable
from typing import Any

import msgspec
import pytest

from paceline.columns import durations, offsets, whole
from paceline.events import JobDescribed, Speakers, StepTimings
from paceline.topics import OP
from streams.processor import Processor
from tests.streams.job_lines import JobDiagnosis

NODES = 4
BEGAN_S = 1.7e9


def message(node: int, second: float, number: int, step: int = -1, ahead_s: float = 0.0, **more: Any) -> StepTimings:
    """What a node of two ranks says in one second: a step of both, or (step -1) only that they are there."""
    ranks = [2 * node, 2 * node + 1]
    rows = 2 if step >= 0 else 0
    now_s = BEGAN_S + ahead_s + second
    return StepTimings(
        cluster="c",
        producer=f"p{node}",
        sequence=number,
        job="job",
        attempt=0,
        node=f"node-{node}",
        t0_s=now_s,
        speakers=Speakers(ranks=whole(ranks), world_sizes=whole([2 * NODES] * 2), devices=["", ""]),
        rank=whole(ranks[:rows]),
        step=whole([step] * rows),
        start_s=offsets([0.0] * rows),
        step_s=durations([1.0] * rows),
        phases={"forward": durations([1.0] * rows)},
        **({"now_s": now_s} if step < 0 else {}),
        **more,
    )


def told(
    until: dict[int, float],
    seconds: int = 110,
    nodes: int = NODES,
    ahead_s: dict[int, float] | None = None,
    beats: Iterable[int] = (),
) -> list[StepTimings]:
    """A message a node and second, of node n until ``until[n]``; in ``beats`` no step ends."""
    quiet = set(beats)
    return [
        message(node, second, second, -1 if second in quiet else second, (ahead_s or {}).get(node, 0.0))
        for second in range(seconds)
        for node in range(nodes)
        if second < until.get(node, seconds)
    ]


def judge(messages: Iterable[Any], diagnosis: JobDiagnosis | None = None) -> list[Any]:
    diagnosis = diagnosis or JobDiagnosis()
    found = [finding for one in messages for finding in diagnosis.update(one)]
    return [finding for finding in found if finding.kind == "node_silent"]


@pytest.mark.slow
def test_a_node_that_falls_silent_is_told_with_its_ranks() -> None:
    """Suspected after 30 s of its peers' time, confirmed after twice that, and no more is said of it."""
    findings = judge(told({1: 100}, seconds=200))
    assert [(finding.state, finding.nodes, finding.ranks) for finding in findings] == [
        ("suspected", ["node-1"], [2, 3]),
        ("confirmed", ["node-1"], [2, 3]),
    ]
    assert findings[0].first_step == 99
    assert 128 <= findings[0].last_step <= 132
    assert findings[0].summary.startswith(
        "Node node-1 (ranks 2-3) has sent nothing for 30 s by its peers' clocks, since step 99. "
    )
    assert len({finding.id for finding in findings}) == 1


@pytest.mark.slow
def test_it_is_over_when_the_node_is_heard_again() -> None:
    """And the next silence is another episode, also where no step has ended between the two."""
    messages = told({}, seconds=130)
    gone = [one for one in messages if one.node != "node-1" or not 50 <= one.t0_s - BEGAN_S < 100]
    findings = judge(gone)
    assert [finding.state for finding in findings] == ["suspected", "recovered"]
    standing = told({}, seconds=180, beats=range(180))
    twice = [one for one in standing if one.node != "node-1" or one.t0_s - BEGAN_S in (1, 50, 100)]
    again = judge(twice)
    assert [finding.state for finding in again] == ["suspected", "recovered"] * 2 + ["suspected", "confirmed"]
    assert len({(finding.id, finding.revision) for finding in again}) == len(again)


@pytest.mark.slow
def test_silence_of_all_accuses_nobody() -> None:
    """Nor does that of more than half of the nodes: it may be the way to Kafka that is broken."""
    assert judge(told(dict.fromkeys(range(NODES), 40.0))) == []
    assert judge(told({0: 40, 1: 40, 2: 41})) == []
    assert {finding.nodes[0] for finding in judge(told({0: 40, 1: 50}))} == {"node-0", "node-1"}


@pytest.mark.slow
def test_of_two_nodes_the_silent_one_is_told() -> None:
    """By the one peer that it has."""
    assert {finding.nodes[0] for finding in judge(told({0: 40}, nodes=2))} == {"node-0"}


@pytest.mark.slow
def test_a_node_that_said_goodbye_is_not_silent() -> None:
    """Nodes end at different times; one that comes back is watched again."""
    left = told({1: 40})
    left.insert(left.index(next(one for one in left if one.t0_s == BEGAN_S + 40)), message(1, 40.0, 40, ended=True))
    assert judge(left) == []
    back = [*left, *(message(node, second, second, second) for second in range(110, 120) for node in range(NODES))]
    back += [message(node, second, second, second) for second in range(120, 170) for node in (0, 2, 3)]
    assert {finding.nodes[0] for finding in judge(back)} == {"node-1"}


@pytest.mark.long
def test_a_long_step_in_which_all_say_that_they_are_there_accuses_nobody() -> None:
    """Compiling for minutes: every node tells that its ranks live, every five seconds."""
    beats = [one for one in told({}, seconds=300, beats=range(300)) if (one.t0_s - BEGAN_S) % 5 == 0]
    assert judge(beats) == []


@pytest.mark.long
def test_steps_longer_than_the_patience_accuse_nobody_where_nothing_is_told_between_them() -> None:
    """Sidecars of other versions: a message a node every 45 s, one after the other."""
    messages = [message(node, 45.0 * step + node, step, step) for step in range(20) for node in range(NODES)]
    assert judge(messages) == []


@pytest.mark.slow
@pytest.mark.parametrize("ahead_s", [-10_800.0, 10_800.0])
def test_a_clock_that_is_hours_wrong_changes_nothing(ahead_s: float) -> None:
    """Clocks of two nodes are never compared."""
    right, wrong = judge(told({1: 40})), judge(told({1: 40}, ahead_s={0: ahead_s, 1: -ahead_s}))
    assert [(one.id, one.state, one.last_step) for one in right] == [
        (one.id, one.state, one.last_step) for one in wrong
    ]
    assert judge(told({}, ahead_s={0: ahead_s, 1: -ahead_s})) == []


@pytest.mark.slow
@pytest.mark.parametrize("jump_s", [-7200.0, 7200.0])
def test_a_clock_that_is_set_accuses_nobody(jump_s: float) -> None:
    """Of two nodes, one whose clock jumps by two hours; and it is told all the same when the other falls silent."""
    healthy = told({}, nodes=2)
    set_ = [
        msgspec.structs.replace(one, t0_s=one.t0_s + jump_s)
        if one.node == "node-0" and one.t0_s > BEGAN_S + 30
        else one
        for one in healthy
    ]
    assert judge(set_) == []
    silent = [one for one in set_ if one.node != "node-1" or one.t0_s < BEGAN_S + 40]
    assert {finding.nodes[0] for finding in judge(silent)} == {"node-1"}


@pytest.mark.long
@pytest.mark.parametrize("nodes", [2, 3, 4])
def test_a_recording_that_is_sorted_by_node_accuses_nobody(nodes: int) -> None:
    """One node's words after the other's, without goodbyes: no node was there while the one before fell silent."""
    messages = sorted(told({}, nodes=nodes), key=lambda one: one.node)
    assert not [finding for finding in judge(messages) if finding.kind == "node_silent"]


@pytest.mark.slow
def test_another_sidecar_on_the_same_node_speaks_for_it() -> None:
    """A sidecar that was started again is a producer of its own, and the node is not silent."""
    messages = [
        msgspec.structs.replace(one, producer="p1-again", sequence=one.sequence - 60)
        if one.node == "node-1" and one.sequence >= 60
        else one
        for one in told({})
    ]
    assert judge(messages) == []


@pytest.mark.slow
def test_what_it_says_depends_on_whether_the_others_train_on() -> None:
    """Where steps end, its ranks live and only its telling stopped; where none does, the node itself may be gone."""
    trains = judge(told({1: 40}))[-1]
    assert "so its ranks probably still train" in trains.summary
    stands = judge(told({1: 40}, beats=range(40, 110)))[-1]
    assert "Its peers wait: check that node" in stands.summary
    assert stands.severity == "critical"


@pytest.mark.slow
def test_stored_and_restored_after_every_message_it_finds_the_same() -> None:
    """A worker that dies forgets nothing."""
    messages = told({1: 30}, seconds=100)
    diagnosis, findings = JobDiagnosis(), []
    for one in messages:
        diagnosis = JobDiagnosis.restore(diagnosis.snapshot())
        findings += [finding for finding in diagnosis.update(one) if finding.kind == "node_silent"]
    assert msgspec.json.encode(findings) == msgspec.json.encode(judge(messages))
    assert len(findings) == 2


def test_nodes_beyond_the_bound_are_not_watched() -> None:
    """Their names come from outside: a flood of them costs nothing."""
    diagnosis = JobDiagnosis()
    diagnosis.bound_ranks(3)
    judge(told({}, seconds=10), diagnosis)
    assert len(diagnosis.phases.nodes.numbers) == 3


@pytest.mark.long
def test_times_that_cannot_be_are_no_time() -> None:
    """Starts that are infinite or not numbers move nobody on by more than a message may."""
    odd = offsets([float("inf"), float("nan")])
    messages = told({}, seconds=60)
    broken = [
        msgspec.structs.replace(one, start_s=odd) if one.node == "node-0" and one.sequence % 2 else one
        for one in messages
    ]
    assert judge(broken) == []


def described(node: int, ended: float | None) -> JobDescribed:
    """What a sidecar says of the job as a whole, in a topic of its own."""
    return JobDescribed(
        cluster="c",
        producer=f"p{node}",
        sequence=0,
        job="job",
        attempt=0,
        node=f"node-{node}",
        world_size=2 * NODES,
        backend="gloo",
        framework="torch",
        started_s=BEGAN_S,
        ended_s=None if ended is None else BEGAN_S + ended,
        places=[],
    )


@pytest.mark.slow
def test_a_goodbye_in_a_recordings_descriptions_counts_wherever_it_stands() -> None:
    """Sidecars of earlier versions said it there alone, and the two topics have no order."""
    messages = told({1: 40}, seconds=80)
    before, heard, said = Processor(), 0, []
    for at in (50, 159, 160, 210):
        said += [answer for one in messages[heard:at] for answer in before.update(OP, one)]
        heard = at
        processor = copy.deepcopy(before)
        answers = [*said, *processor.leave(described(1, 40.5))]
        answers += [answer for one in messages[at:] for answer in processor.update(OP, one)]
        findings = [event for _, event in answers]
        assert not [finding for finding in findings if getattr(finding, "kind", "") == "node_silent"], at
    processor = Processor()
    assert processor.leave(described(1, 40.5)) == []
    findings = [event for one in messages for _, event in processor.update(OP, one)]
    assert [finding for finding in findings if getattr(finding, "kind", "") == "node_silent"]


@pytest.mark.slow
def test_a_description_of_ranks_that_are_here_is_no_goodbye() -> None:
    """They join with one."""
    diagnosis = JobDiagnosis()
    messages = told({1: 40})
    judge(messages[:50], diagnosis)
    assert diagnosis.leave(described(1, None)) == []
    assert judge(messages[50:], diagnosis)
