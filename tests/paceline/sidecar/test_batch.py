"""Ranks' reports become batches: nothing lost, in order, numbered, small enough."""

import math
from dataclasses import replace

import msgspec
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from paceline import topics, wire
from paceline.events import CollectiveTimings, JobDescribed, OpTimings
from paceline.sidecar.batch import Batcher, Origin, Outgoing
from paceline.sidecar.columns import LONGEST_WORD, MOST_ROWS
from paceline.sidecar.rank_rows import CollectiveRow, OpRow, Report
from paceline.training.messages import Hello, LinkReport

ORIGIN = Origin("default", "n1", "p")


def hello(rank: int, **changes: object) -> Hello:
    made = Hello(
        rank=rank,
        world_size=2,
        local_rank=rank,
        pid=100 + rank,
        device="cpu",
        backend="gloo",
        framework="torch",
        job="j",
        attempt=0,
        started_s=1000.0,
    )
    return msgspec.structs.replace(made, **changes)


def op_row(step: int, **changes: object) -> OpRow:
    return OpRow(step, "step", -1, 1000.0 + step, 0.5)._replace(**changes)


def collective_row(step: int, **changes: object) -> CollectiveRow:
    return CollectiveRow(step, step, "world", 2, "all_reduce", 4096, 1000.25 + step, 0.2, 0.1)._replace(**changes)


def report(steps: list[int], *, collectives: bool = False) -> Report:
    return Report([op_row(step) for step in steps], [collective_row(step) for step in steps if collectives])


def of(kind: type, outgoing: list[Outgoing]) -> list[Outgoing]:
    return [item for item in outgoing if isinstance(item.event, kind)]


def test_a_node_sends_one_message_a_second_for_all_its_ranks() -> None:
    """Rows of two ranks meet in one OpTimings, with a rank column."""
    batcher = Batcher(ORIGIN)
    keys = [batcher.join(hello(rank)) for rank in (0, 1)]
    batcher.tick(0.0)
    for rank in (0, 1):
        batcher.update(keys[rank], rank, report([0, 1]))
    assert of(OpTimings, batcher.tick(0.5)) == []
    (sent,) = of(OpTimings, batcher.tick(1.0))
    assert sent.key == "j"
    assert (sent.event.ranks, sent.event.rank, sent.event.step) == ([0, 1], [0, 0, 1, 1], [0, 1, 0, 1])


def test_times_are_offsets_exact_to_a_microsecond() -> None:
    """Offset plus the batch's own time gives back what the rank measured."""
    batcher = Batcher(ORIGIN)
    key = batcher.join(hello(0))
    start = 1_795_257_388.123456
    batcher.update(key, 0, Report([op_row(7, start_s=start, duration_s=0.0123456789)], []))
    (sent,) = of(OpTimings, batcher.end(2000.0))
    assert sent.event.t0_s + sent.event.start_s[0] == pytest.approx(start, abs=1e-6)
    assert sent.event.duration_s == [0.012346]


def test_messages_of_a_topic_are_numbered_without_a_gap() -> None:
    """Each topic counts from 0, whatever went out on the others."""
    batcher = Batcher(ORIGIN)
    key = batcher.join(hello(0))
    sent: list[Outgoing] = []
    for second in range(5):
        batcher.update(key, 0, report([second], collectives=second % 2 == 0))
        sent += batcher.tick(float(second))
    assert [item.event.sequence for item in of(OpTimings, sent)] == [0, 1, 2, 3, 4]
    assert [item.event.sequence for item in of(CollectiveTimings, sent)] == [0, 1, 2]


def test_the_description_comes_before_the_rows_and_the_end_after_them() -> None:
    """Whoever reads in order knows the ranks before their rows, and hears of the end last."""
    batcher = Batcher(ORIGIN)
    key = batcher.join(hello(0))
    batcher.update(key, 0, report([0]))
    first = batcher.tick(0.0)
    assert [type(item.event) for item in first] == [JobDescribed, OpTimings]
    assert first[0].key == "j/n1"
    batcher.update(key, 0, report([1]))
    batcher.leave(key, 0, 1234.0)
    last = batcher.end(1235.0, 3)
    assert [type(item.event) for item in last] == [OpTimings, JobDescribed]
    assert (last[1].event.ended_s, last[1].event.exit_status) == (1234.0, 3)


def test_attempts_of_a_job_are_numbered_apart() -> None:
    """A restart is a producer of its own: its numbers start at 0, and no gap is seen in the first."""
    batcher = Batcher(ORIGIN)
    keys = [batcher.join(hello(0, attempt=attempt)) for attempt in (0, 1)]
    for key in keys:
        batcher.update(key, 0, report([0]))
    sent = of(OpTimings, batcher.end(2000.0))
    assert [item.event.sequence for item in sent] == [0, 0]
    assert len({item.event.producer for item in sent}) == 2


def test_a_rank_that_names_no_job_gets_the_fallback() -> None:
    """The name that ``paceline run`` made up, or one made of the node's."""
    assert Batcher(ORIGIN, "made-up").join(hello(0, job="")) == ("made-up", 0)
    assert Batcher(ORIGIN).join(hello(0, job="")) == ("n1-unnamed", 0)


@settings(deadline=None, max_examples=40)
@given(
    wide=st.integers(min_value=2**50, max_value=2**53),
    word=st.text(alphabet='\U0001f600\\"\n\x00é', min_size=LONGEST_WORD, max_size=200),
)
def test_a_message_stays_under_900_kilobytes(wide: int, word: str) -> None:
    """Even with the widest numbers and names that a rank can send."""
    batcher = Batcher(ORIGIN)
    key = batcher.join(hello(0))
    count = MOST_ROWS
    words = [f"{index:03d}{word}" for index in range(count)]
    times = {"start_s": 1e9 + 0.123457, "duration_s": 1234.123457}
    full = Report(
        [op_row(wide, op=op, **times) for op in words],
        [collective_row(wide, bytes=wide, group=group, start_s=1e9 + 0.123457) for group in words],
    )
    batcher.update(key, 0, full)
    sent = batcher.end(2000.0)
    assert max(len(wire.encode(item.event)) for item in sent) < 900_000
    assert sum(len(item.event.rank) for item in of(OpTimings, sent)) == count
    for item in sent:
        assert wire.decode(item.topic, wire.encode(item.event)) == item.event


@settings(deadline=None, max_examples=40)
@given(
    reports=st.lists(
        st.tuples(st.integers(0, 3), st.lists(st.integers(-1, 10**9), max_size=30), st.booleans()), max_size=30
    )
)
def test_rows_of_a_rank_keep_their_order(reports: list[tuple[int, list[int], bool]]) -> None:
    """However reports are cut into messages, each rank's rows come out as they went in."""
    batcher = Batcher(ORIGIN)
    keys = {rank: batcher.join(hello(rank, world_size=4)) for rank in range(4)}
    sent: list[Outgoing] = []
    for second, (rank, steps, collectives) in enumerate(reports):
        batcher.update(keys[rank], rank, report(steps, collectives=collectives))
        sent += batcher.tick(second / 3)
    sent += batcher.end(2000.0)
    for rank in range(4):
        said = [step for who, steps, _ in reports if who == rank for step in steps]
        heard = [
            step
            for item in of(OpTimings, sent)
            for who, step in zip(item.event.rank, item.event.step, strict=True)
            if who == rank
        ]
        assert heard == said


def test_what_is_not_finite_is_dropped_and_counted() -> None:
    """NaN cannot travel as JSON: the row goes, the others stay."""
    batcher = Batcher(ORIGIN)
    key = batcher.join(hello(0))
    batcher.update(key, 0, Report([op_row(0, duration_s=math.nan), op_row(1)], [], LinkReport(1, math.inf, 0)))
    (sent,) = of(OpTimings, batcher.end(2000.0))
    assert sent.event.step == [1]
    assert batcher.unfit_rows == 1


@pytest.mark.parametrize("start_s", [-1.0, 1e12, 1e300, math.inf])
def test_a_clock_that_no_event_may_tell_costs_its_rows_alone(start_s: float) -> None:
    """A rank whose clock is absurd must not make the message of all ranks unreadable."""
    batcher = Batcher(ORIGIN)
    key = batcher.join(hello(0))
    batcher.update(key, 0, Report([op_row(0, start_s=start_s), op_row(1)], [collective_row(0, start_s=start_s)]))
    (sent,) = of(OpTimings, batcher.end(2000.0))
    assert wire.decode(sent.topic, wire.encode(sent.event)).step == [1]
    assert batcher.unfit_rows == 2


def test_collectives_say_whether_phases_come_too() -> None:
    """A rank with collectives alone is told from one whose op rows carry the verdict."""
    batcher = Batcher(replace(ORIGIN, producer="q"))
    key = batcher.join(hello(0))
    batcher.update(key, 0, report([]))
    batcher.update(key, 0, Report([], [collective_row(0)]))
    (sent,) = of(CollectiveTimings, batcher.tick(0.0))
    assert sent.event.phases is False
    assert sent.topic is topics.COLLECTIVE
    batcher.update(key, 0, report([1], collectives=True))
    (sent,) = of(CollectiveTimings, batcher.tick(2.0))
    assert sent.event.phases is True


def test_full_rows_are_noted_for_one_job_and_a_longer_wish_holds() -> None:
    """A shorter one that comes later takes nothing away; other jobs, and other attempts of the same, have none."""
    batcher = Batcher(ORIGIN)
    key, other = batcher.join(hello(0)), batcher.join(hello(1, attempt=1))
    assert batcher._jobs[key].full_rows_until_s == 0.0
    batcher.send_full_rows(key, 90.0)
    batcher.send_full_rows(key, 30.0)
    assert (batcher._jobs[key].full_rows_until_s, batcher._jobs[other].full_rows_until_s) == (90.0, 0.0)
