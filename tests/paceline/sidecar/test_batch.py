"""Ranks' reports become messages: nothing lost, in order, numbered, small enough."""

import math
from dataclasses import replace
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from paceline import columns, topics, wire
from paceline.events import CollectiveCalls, JobDescribed, OpenCollective, RankCondition, RankEnd, StepTimings
from paceline.sidecar.batch import Batcher, Origin, Outgoing
from paceline.sidecar.collective_sums import MOST_HELD
from paceline.sidecar.columns import LONGEST_WORD, MOST_ROWS
from paceline.sidecar.node_steps import LOOKS_WAITED, MOST_OPEN
from paceline.sidecar.rank_rows import PARTS, CollectiveRow, Microbatch, Report, StepRow
from paceline.training.messages import Hello, LinkReport, Peer

ORIGIN = Origin("default", "n1", "p")
NAN = math.nan


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
    return replace(made, **changes)


def seconds(**phases: float) -> tuple[float, ...]:
    return tuple(phases.get(name, NAN) for name in PARTS)


def step_row(step: int, **changes: object) -> StepRow:
    return StepRow(step, 1000.0 + step, 0.5, seconds(forward=0.25))._replace(**changes)


def collective_row(step: int, **changes: object) -> CollectiveRow:
    return CollectiveRow(step, step, "world", 2, "all_reduce", 4096, 1000.25 + step, 0.25, 0.125)._replace(**changes)


def report(steps: list[int], *, collectives: bool = False) -> Report:
    return Report([step_row(step) for step in steps], [collective_row(step) for step in steps if collectives])


def of(kind: type, outgoing: list[Outgoing]) -> list[Outgoing]:
    return [item for item in outgoing if isinstance(item.event, kind)]


def told(outgoing: list[Outgoing], kind: type = StepTimings) -> list[dict[str, Any]]:
    """The messages as another reads them."""
    return [dict(wire.readable(wire.decode(one.topic, wire.encode(one.event)))) for one in of(kind, outgoing)]


def sums(outgoing: list[Outgoing]) -> list[tuple[object, ...]]:
    """Step, group, operation, count, members, bytes, wait and duration of every sum that was told."""
    rows: list[tuple[object, ...]] = []
    for event in told(outgoing):
        if (one := event.get("collectives")) is not None:
            groups, operations = ([one[name + "s"][at] for at in one[name]] for name in ("group", "operation"))
            rest = (one[name] for name in ("count", "members", "bytes", "wait_s", "duration_s"))
            rows += zip(one["step"], groups, operations, *rest, strict=True)
    return rows


def joined(ranks: int = 2) -> tuple[Batcher, tuple[str, int]]:
    batcher = Batcher(ORIGIN)
    keys = [batcher.join(hello(rank, world_size=ranks)) for rank in range(ranks)]
    return batcher, keys[0]


def test_a_node_sends_one_message_a_second_for_all_its_ranks() -> None:
    """Rows of two ranks meet in one StepTimings, with a rank column."""
    batcher, key = joined()
    batcher.tick(0.0)
    for rank in (0, 1):
        batcher.update(key, rank, report([0, 1]))
    assert of(StepTimings, batcher.tick(0.5)) == []
    sent = of(StepTimings, batcher.tick(1.0))
    (event,) = told(sent)
    assert sent[0].key == "j"
    assert event["speakers"] == {"ranks": [0, 1], "world_sizes": [2, 2], "devices": ["cpu", "cpu"]}
    assert (event["rank"], event["step"]) == ([0, 0, 1, 1], [0, 1, 0, 1])


def test_a_row_has_every_phase_that_any_rank_had() -> None:
    """What a rank did not do in a step is not measured; what nobody did has no column."""
    batcher, key = joined()
    batcher.update(key, 0, Report([step_row(0, seconds=seconds(forward=0.25, gc=0.125))], []))
    batcher.update(key, 1, Report([step_row(0, seconds=seconds(forward=0.5, data=0.0))], []))
    (event,) = told(batcher.end(2000.0))
    assert event["phases"] == {"data": [None, 0.0], "forward": [0.25, 0.5], "gc": [0.125, None]}
    assert "microbatches" not in event


def test_microbatches_are_told_of_the_steps_that_have_several() -> None:
    """A row each, beside the step's own."""
    batcher, key = joined()
    split = (Microbatch(0, 0.25, 0.5), Microbatch(1, 0.125, NAN))
    batcher.update(key, 1, Report([step_row(0), step_row(1, microbatches=split)], []))
    (event,) = told(batcher.end(2000.0))
    assert event["step"] == [0, 1]
    assert event["microbatches"] == {
        "rank": [1, 1],
        "step": [1, 1],
        "microbatch": [0, 1],
        "forward_s": [0.25, 0.125],
        "backward_s": [0.5, None],
    }


def test_times_are_offsets_exact_to_a_microsecond() -> None:
    """Offset plus the message's own time gives back what the rank measured, also where its rows are far apart."""
    batcher, key = joined()
    starts = [1_795_257_388.123456, 1_795_257_403.654321, 1_795_261_003.654321]
    for start in starts:
        batcher.update(key, 0, Report([step_row(7, start_s=start, step_s=0.0123456789)], []))
    (event,) = told(batcher.end(2000.0))
    assert [event["t0_s"] + offset for offset in event["start_s"]] == pytest.approx(starts, abs=1e-6, rel=0)
    assert event["step_s"] == pytest.approx([0.0123456789] * 3, rel=1e-7)


def test_messages_of_a_topic_are_numbered_without_a_gap() -> None:
    """Each topic counts from 0, whatever went out on the others."""
    batcher, key = joined()
    sent: list[Outgoing] = []
    for second in range(5):
        if second < 3:
            batcher.update(key, 0, Report([], [collective_row(second)]))
        batcher.update_open(key, [], 1000.0)
        sent += batcher.tick(float(second))
    assert [item.event.sequence for item in of(StepTimings, sent)] == [0, 1, 2, 3, 4]
    assert [item.event.sequence for item in of(CollectiveCalls, sent)] == [0, 1, 2]


def test_the_description_comes_before_the_rows_and_the_end_after_them() -> None:
    """Whoever reads in order knows the ranks before their rows, and hears of the end last."""
    batcher = Batcher(ORIGIN)
    key = batcher.join(hello(0))
    batcher.update(key, 0, report([0]))
    first = batcher.tick(0.0)
    assert [type(item.event) for item in first] == [JobDescribed, StepTimings]
    assert first[0].key == "j/n1"
    batcher.update(key, 0, report([1]))
    batcher.leave(key, 0, 1234.0)
    last = batcher.end(1235.0, 3)
    assert [type(item.event) for item in last] == [StepTimings, JobDescribed]
    assert (last[1].event.ended_s, last[1].event.exit_status) == (1234.0, 3)


def test_versions_are_told_once_and_again_of_who_joins_later() -> None:
    """By ranks that tell some, in facts that have a name; those of an older Paceline tell none."""
    batcher, versions = Batcher(ORIGIN), {"pytorch_version": "2.6.0", "nccl_version": "2.21.5", "of_tomorrow": "1"}
    key = batcher.join(hello(0, versions=versions))
    batcher.update(key, 0, report([0]))
    batcher.join(hello(1))
    facts = [event.get("facts") for event in told(batcher.tick(0.0))]
    words = {"nccl_version": ["2.21.5", ""], "pytorch_version": ["2.6.0", ""]}
    assert facts == [{"ranks": [0, 1], "words": words}]
    batcher.update(key, 0, report([1]))
    assert [event.get("facts") for event in told(batcher.tick(1.0))] == [None]
    batcher.join(hello(2, versions={"pytorch_version": "2" * 10_000}))
    batcher.update(key, 0, report([2]))
    (event,) = told(batcher.tick(2.0))
    assert event["facts"] == {"ranks": [2], "words": {"pytorch_version": ["2" * LONGEST_WORD]}}
    assert event["speakers"]["ranks"] == [0, 1, 2]


def test_ranks_of_an_older_paceline_tell_no_facts() -> None:
    batcher, key = joined()
    batcher.update(key, 0, report([0]))
    assert [event.get("facts") for event in told(batcher.tick(0.0))] == [None]


def test_attempts_of_a_job_are_numbered_apart() -> None:
    """A restart is a producer of its own: its numbers start at 0, and no gap is seen in the first."""
    batcher = Batcher(ORIGIN)
    keys = [batcher.join(hello(0, attempt=attempt)) for attempt in (0, 1)]
    for key in keys:
        batcher.update(key, 0, report([0]))
    sent = of(StepTimings, batcher.end(2000.0))
    assert [item.event.sequence for item in sent] == [0, 0]
    assert len({item.event.producer for item in sent}) == 2


def test_a_job_whose_ranks_have_left_says_goodbye_once() -> None:
    """With its last rows, or in a message of its own; a rank that comes again may leave again."""
    batcher, key = joined()
    batcher.tick(0.0)
    for rank in (0, 1):
        batcher.update(key, rank, report([0, 1]))
        batcher.leave(key, rank, 2.0)
    assert [event["ended"] for event in told(batcher.tick(2.0))] == [True]
    batcher.join(hello(0))
    batcher.tick(3.0)
    batcher.leave(key, 0, 4.0)
    (alone,) = told(batcher.tick(4.0))
    assert (alone["ended"], alone["rank"], alone["now_s"], alone["speakers"]["ranks"]) == (True, [], 4.0, [0, 1])
    assert told(batcher.end(5.0)) == []


def test_a_job_whose_ranks_stay_says_no_goodbye() -> None:
    """Until the sidecar ends."""
    batcher, key = joined()
    batcher.update(key, 0, report([0, 1]))
    batcher.leave(key, 0, 1.0)
    assert not any(event["ended"] for event in told(batcher.tick(1.0)))
    assert [event["ended"] for event in told(batcher.end(2.0))] == [True]


def test_how_ranks_ended_is_told_where_no_row_is_due() -> None:
    """While others run; the last of them with the goodbye, also where that went out before."""
    batcher, key = joined()
    batcher.tick(0.0)
    batcher.leave(key, 0, 1.0)
    batcher.end_ranks(key, [RankEnd(rank=0, time_s=50.0, how="lost", status=-9)])
    (first,) = of(StepTimings, batcher.tick(1.0))
    assert ([end.rank for end in first.event.ends], first.event.t0_s, first.event.ended) == ([0], 50.0, False)
    assert of(StepTimings, batcher.tick(2.0)) == []
    batcher.leave(key, 1, 3.0)
    assert [one.event.ended for one in of(StepTimings, batcher.tick(3.0))] == [True]
    batcher.end_ranks(key, [RankEnd(rank=1, time_s=53.0, how="exit", status=0)])
    (last,) = of(StepTimings, batcher.tick(4.0))
    assert ([end.rank for end in last.event.ends], last.event.ended) == ([1], True)


def test_the_ends_of_many_ranks_take_several_messages() -> None:
    batcher, key = joined()
    batcher.end_ranks(key, [RankEnd(rank=rank, time_s=1.0, how="lost") for rank in range(600)])
    messages = of(StepTimings, batcher.tick(0.0))
    assert [end.rank for message in messages for end in message.event.ends] == list(range(600))
    assert max(len(message.event.ends) for message in messages) <= MOST_OPEN


def test_it_is_quiet_where_no_message_of_steps_went_out_since_it_was_asked() -> None:
    """Then it may be told that its ranks are there."""
    batcher, key = joined()
    batcher.tick(0.0)
    assert [batcher.quiet(key), batcher.quiet(key)] == [False, True]
    batcher.update(key, 0, report([0, 1]))
    batcher.tick(1.0)
    assert [batcher.quiet(key), batcher.quiet(key)] == [False, True]


def test_the_switch_of_the_node_is_told_with_its_ranks() -> None:
    """As the scheduler's labels name it."""
    batcher = Batcher(Origin("default", "n1", "p"))
    key = batcher.join(hello(0, labels={"switch": "leaf2"}))
    batcher.update(key, 0, report([0]))
    assert told(batcher.end(1.0))[0]["speakers"]["switch"] == "leaf2"


def test_a_rank_that_names_no_job_gets_the_fallback() -> None:
    """The name that ``paceline run`` made up, or one made of the node's."""
    assert Batcher(ORIGIN, "made-up").join(hello(0, job="")) == ("made-up", 0)
    assert Batcher(ORIGIN).join(hello(0, job="")) == ("n1-unnamed", 0)


def test_a_collective_counts_once_for_all_ranks_of_a_node_with_its_least_wait() -> None:
    """Who comes last waits for nobody; a step's collectives of one group, operation and size are then added up."""
    batcher, key = joined()
    for rank, wait_s in ((0, 0.5), (1, 0.25)):
        calls = [
            collective_row(3, seq=0, bytes=4096, wait_s=wait_s, duration_s=wait_s + 0.25),
            collective_row(3, seq=1, bytes=8191, wait_s=0.75 - wait_s, duration_s=1.0),
            collective_row(3, seq=2, bytes=8192),
            collective_row(3, seq=3, operation="barrier", bytes=0),
            collective_row(3, seq=4, operation="barrier", bytes=1),
        ]
        batcher.update(key, rank, Report([step_row(step) for step in (3, 4)], calls))
    assert sums(batcher.tick(0.0)) == [
        (3, "world", "all_reduce", 2, 2, 4096 + 8191, 0.25 + 0.25, 0.5 + 1.0),
        (3, "world", "all_reduce", 1, 2, 8192, 0.125, 0.25),
        (3, "world", "barrier", 1, 2, 0, 0.125, 0.25),
        (3, "world", "barrier", 1, 2, 1, 0.125, 0.25),
    ]


def test_what_two_ranks_send_each_other_is_no_one_collective() -> None:
    """Each end numbers and tells its own."""
    batcher, key = joined()
    for rank, operation in enumerate(("send", "recv")):
        batcher.update(key, rank, Report([step_row(0)], [collective_row(0, operation=operation)]))
    assert [row[2:5] for row in sums(batcher.end(2000.0))] == [("send", 1, 1), ("recv", 1, 1)]


def test_what_a_sidecar_before_told_one_by_one_is_summed_and_not_told_again() -> None:
    """It died before the step's sums had gone out."""
    batcher, key = joined(1)
    batcher.send_full_rows(key, math.inf)
    again = Report([step_row(1)], [collective_row(1)], again=[collective_row(0)])
    batcher.update(key, 0, again)
    assert batcher.waiting(key) == (True, 0, 0)
    sent = batcher.tick(0.0)
    assert ([row[0] for row in sums(sent)], told(sent, CollectiveCalls)[0]["step"]) == ([0], [1])
    assert batcher.waiting(key) == (False, 0, 1)


def test_a_step_is_summed_once_every_rank_has_closed_one_after_it() -> None:
    """A collective that nobody waits for comes with the step after its own."""
    batcher, key = joined()
    batcher.update(key, 0, report([0, 1, 2], collectives=True))
    assert sums(batcher.tick(0.0)) == []
    batcher.update(key, 1, report([0, 1], collectives=True))
    assert [row[:5] for row in sums(batcher.tick(1.0))] == [(0, "world", "all_reduce", 1, 2)]
    batcher.update(key, 1, Report([step_row(2)], [collective_row(1, seq=99), collective_row(2)]))
    assert [row[:5] for row in sums(batcher.tick(2.0))] == [(1, "world", "all_reduce", 2, 2)]
    assert [row[:5] for row in sums(batcher.end(2000.0))] == [(2, "world", "all_reduce", 1, 2)]


def test_a_rank_that_has_left_is_waited_for_no_longer() -> None:
    """The others' steps go on being summed."""
    batcher, key = joined()
    batcher.update(key, 0, report([0, 1], collectives=True))
    batcher.update(key, 1, report([0], collectives=True))
    batcher.leave(key, 1, 1234.0)
    assert [row[0] for row in sums(batcher.tick(0.0))] == [0]


def test_a_rank_that_hangs_holds_the_sums_up_for_seconds_alone() -> None:
    """Then the others' steps go out without it, and what it tells of them later is counted and in no sum."""
    batcher, key = joined()
    batcher.update(key, 1, report([0], collectives=True))
    heard = []
    for second in range(LOOKS_WAITED + 20):
        batcher.update(key, 0, report([second], collectives=True))
        heard.append([row[0] for row in sums(batcher.tick(float(second)))])
    assert heard[: LOOKS_WAITED - 1] == [[]] * (LOOKS_WAITED - 1)
    assert [step for steps in heard for step in steps] == list(range(20))
    batcher.update(key, 1, Report([], [collective_row(19), collective_row(20)]))
    assert batcher.unfit_rows == 1
    assert next(row[:5] for row in sums(batcher.end(2000.0))) == (20, "world", "all_reduce", 1, 2)


@pytest.mark.long
def test_what_is_held_is_bounded() -> None:
    """Steps that never end must not fill the node's memory: the oldest are summed as they are."""
    batcher, key = joined(1)
    batcher.update(key, 0, report([0]))
    for step in range(1, 5):
        calls = [collective_row(step, seq=seq) for seq in range(MOST_HELD // 2)]
        batcher.update(key, 0, Report([], calls))
    assert [row[:4] for row in sums(batcher.tick(0.0))] == [
        (step, "world", "all_reduce", MOST_HELD // 2) for step in (1, 2, 3)
    ]
    assert len(sums(batcher.end(2000.0))) == 1


def test_ranks_that_come_again_count_their_steps_from_the_beginning() -> None:
    """A second training loop after the first: its step 0 is none that was told."""
    batcher, key = joined(1)
    for _ in range(2):
        batcher.update(key, 0, report([0, 1], collectives=True))
        batcher.leave(key, 0, 1234.0)
        batcher.join(hello(0))
    assert [row[0] for row in sums(batcher.end(2000.0))] == [0, 1, 0, 1]
    assert batcher.unfit_rows == 0


def test_how_far_the_ranks_have_come_tells_of_all_collectives_since_the_message_before() -> None:
    """Also of those in no step, which are in no sum."""
    batcher, key = joined()
    outside = collective_row(-1, seq=7, group="tp", group_size=1, start_s=1000.5, duration_s=1.0, wait_s=0.75)
    batcher.update(key, 1, Report([step_row(0)], [collective_row(0, start_s=1000.25), outside]))
    (event,) = told(batcher.tick(0.0))
    one = event["collectives"]
    assert (one["groups"], one["group_sizes"], one["step"]) == (["world", "tp"], [2, 1], [])
    assert (one["reached_rank"], one["reached_group"], one["reached_seq"]) == ([1, 1], [0, 1], [0, 7])
    span = [one[name] for name in ("span_rank", "span_first_s", "span_last_s", "span_waited_s")]
    assert (event["t0_s"], span, one["longest_wait_s"]) == (1000.0, [[1], [0.25], [1.5], [0.875]], 0.75)
    batcher.update(key, 1, report([1]))
    assert "collectives" not in told(batcher.tick(1.0))[0]


def test_collectives_are_told_one_by_one_where_nothing_else_is() -> None:
    """A job without phases: full rows, no sums; its links come in a message without a row."""
    batcher, key = joined(1)
    batcher.update(key, 0, Report([], [collective_row(0)], LinkReport(1, 0.001, 2)))
    sent = batcher.tick(0.0)
    (calls,), (event,) = told(sent, CollectiveCalls), told(sent)
    assert calls["summed"] is False
    assert [calls[name] for name in ("rank", "step", "seq", "bytes")] == [[0], [0], [0], [4096]]
    assert (calls["t0_s"], calls["start_s"], calls["duration_s"], calls["wait_s"]) == (1000.0, [0.25], [0.25], [0.125])
    assert (event["rank"], event["links"]["rank"], "collectives" in event) == ([], [0], False)
    batcher.update(key, 0, Report([], [collective_row(0)]))
    assert [type(item.event) for item in batcher.tick(2.0)] == [CollectiveCalls]


def test_full_rows_are_told_beside_their_sums_while_they_are_asked_for() -> None:
    """Until the time that was given."""
    batcher, key = joined(1)
    batcher.update(key, 0, report([0], collectives=True))
    assert told(batcher.tick(0.0), CollectiveCalls) == []
    batcher.send_full_rows(key, 2.5)
    heard = []
    for second in (1, 2, 3, 4):
        batcher.update(key, 0, report([second], collectives=True))
        heard.append([(one["step"], one["summed"]) for one in told(batcher.tick(float(second)), CollectiveCalls)])
    assert heard == [[([1], True)], [([2], True)], [([3], True)], []]


def test_who_stands_in_a_collective_is_told_where_no_row_is() -> None:
    """A hang shows in nothing else."""
    batcher, key = joined(1)
    batcher.update(key, 0, report([0]))
    batcher.tick(0.0)
    stands = OpenCollective(rank=0, group="world", group_size=2, seq=5, operation="all_reduce", start_s=1000.0)
    batcher.update_open(key, [stands], 1007.5)
    (event,) = told(batcher.tick(1.0))
    assert (event["rank"], event["open"][0]["seq"], event["now_s"], event["t0_s"]) == ([], 5, 1007.5, 1007.0)
    assert told(batcher.tick(2.0)) == []


def test_links_name_the_ends_of_their_connections_by_numbers() -> None:
    """The same on both sides, so that two ranks' halves are joined; a round trip that nobody measured is none."""
    batcher, key = joined()
    here, there = Peer(local="a:1", remote="b:2", rtt_s=0.5), Peer(local="b:2", remote="a:1")
    batcher.update(key, 0, Report([step_row(0)], [], LinkReport(3, 0.25, 1, [here], 1.25e9)))
    batcher.update(key, 1, Report([step_row(0)], [], LinkReport(4, 0.25, 0, [there])))
    (event,) = told(batcher.tick(0.0))
    one = event["links"]
    assert (one["rank"], one["connections"], one["retransmits"]) == ([0, 1], [3, 4], [1, 0])
    assert (one["rated_bytes_per_s"], one["of"], one["peer_rtt_s"]) == ([1.25e9, None], [0, 1], [0.5, None])
    assert one["local"] == [columns.end_of_link("a:1"), columns.end_of_link("b:2")]
    assert one["remote"] == one["local"][::-1]


def test_links_that_do_not_fit_come_with_the_next_message() -> None:
    """Many ranks of many connections."""
    batcher, key = joined(64)
    peers = [Peer(local=f"a:{port}", remote=f"b:{port}", rtt_s=0.5) for port in range(200)]
    for rank in range(64):
        batcher.update(key, rank, Report([step_row(0)], [], LinkReport(200, 0.25, 1, peers)))
    heard = [
        rank for second in range(3) for event in told(batcher.tick(float(second))) for rank in event["links"]["rank"]
    ]
    assert heard == list(range(31))
    batcher.update(key, 0, report([1]))
    assert told(batcher.tick(5.0))[0]["links"]["rank"] == list(range(31, 62))


def test_conditions_come_with_the_next_rows() -> None:
    """As far as anything measured them; whole numbers stay whole."""
    batcher, key = joined()
    conditions = [
        RankCondition(rank=0, time_s=999.5, span_s=0.0, fb_used_bytes=2**40 + 1, pressure_cpu_ratio=0.5),
        RankCondition(rank=1, time_s=1000.5, span_s=1.0, fb_used_bytes=2**40 + 3, major_faults=3),
    ]
    batcher.observe(key, conditions)
    assert told(batcher.tick(0.0)) == []
    batcher.update(key, 0, report([0]))
    (event,) = told(batcher.tick(1.0))
    assert event["conditions"] == {
        "rank": [0, 1],
        "time_s": [-0.5, 0.5],
        "span_s": [0.0, 1.0],
        "values": {
            "fb_used_bytes": [2**40 + 1, 2**40 + 3],
            "major_faults": [None, 3],
            "pressure_cpu_ratio": [0.5, None],
        },
    }


@pytest.mark.slow
@settings(deadline=None, max_examples=25)
@given(
    wide=st.integers(min_value=2**50, max_value=2**53),
    word=st.text(alphabet='\U0001f600\\"\n\x00é', min_size=LONGEST_WORD, max_size=200),
)
def test_a_message_stays_under_900_kilobytes(wide: int, word: str) -> None:
    """Even with the widest numbers and names that a rank can send."""
    batcher = Batcher(ORIGIN)
    key = batcher.join(hello(2**20 - 1))
    rank, count = 2**20 - 1, MOST_ROWS + 100
    peers = [Peer(local=f"a:{port}", remote=f"b:{port}", rtt_s=0.5) for port in range(MOST_ROWS)]
    split = tuple(Microbatch(wide - index, 1.0, 2.0) for index in range(1000))
    long = {"start_s": 1e9 + 0.123457, "step_s": 1234.123457, "seconds": (1e9,) * len(PARTS)}
    groups = [f"{index % 3000:04d}{word}" for index in range(count)]
    stands = OpenCollective(
        rank=rank, group=groups[0][:64], group_size=wide, seq=wide, operation=word[:64], start_s=1e9
    )
    rows = [step_row(wide - 1, microbatches=split, **long) for _ in range(30)]
    rows += [step_row(wide - index, **long) for index in range(MOST_ROWS - 40)]
    calls = [
        collective_row(
            wide - index % 100,
            bytes=wide >> index % 50,
            seq=index,
            group=group,
            operation=f"{group}!",
            start_s=1e9 + index,
        )
        for index, group in enumerate(groups)
    ]
    batcher.send_full_rows(key, math.inf)
    batcher.observe(key, [RankCondition(rank=rank, time_s=1e9, span_s=1.0, fb_used_bytes=2**62)] * 600)
    batcher.update_open(key, [stands] * 1000, 1e9)
    batcher.update(key, rank, Report(rows, calls, LinkReport(1, 0.5, wide, peers)))
    sent = batcher.end(2000.0)
    assert max(len(wire.encode(item.event)) for item in sent) < 900_000
    assert sum(len(event["rank"]) for event in told(sent)) == len(rows)
    assert sum(len(event["rank"]) for event in told(sent, CollectiveCalls)) == count
    for item in sent:
        assert wire.decode(item.topic, wire.encode(item.event)) == item.event


@pytest.mark.long
@settings(deadline=None, max_examples=40)
@given(
    reports=st.lists(
        st.tuples(st.integers(0, 3), st.lists(st.integers(-1, 10**9), max_size=30), st.booleans()), max_size=30
    )
)
def test_rows_of_a_rank_keep_their_order(reports: list[tuple[int, list[int], bool]]) -> None:
    """However reports are cut into messages, each rank's rows come out as they went in."""
    batcher, key = joined(4)
    sent: list[Outgoing] = []
    for second, (rank, steps, collectives) in enumerate(reports):
        batcher.update(key, rank, report(steps, collectives=collectives))
        sent += batcher.tick(second / 3)
    sent += batcher.end(2000.0)
    for rank in range(4):
        said = [step for who, steps, _ in reports if who == rank for step in steps]
        heard = [
            step for event in told(sent) for who, step in zip(event["rank"], event["step"], strict=True) if who == rank
        ]
        assert heard == said


@pytest.mark.parametrize(
    "bad",
    [{"step_s": NAN}, {"start_s": NAN}, {"start_s": -1.0}, {"start_s": 1e12}, {"start_s": math.inf},
     {"step": 2**53 + 1}, {"step": -2}, {"step_s": 1e300}, {"seconds": seconds(data=-math.inf)}],
)  # fmt: skip
def test_a_step_that_no_event_may_tell_costs_its_row_alone(bad: dict[str, Any]) -> None:
    """A rank whose clock is absurd must not make the message of all ranks unreadable."""
    batcher, key = joined()
    batcher.update(key, 0, Report([step_row(0)._replace(**bad), step_row(1)], [], LinkReport(1, math.inf, 0)))
    (event,) = told(batcher.end(2000.0))
    assert (event["step"], "links" in event) == ([1], False)
    assert batcher.unfit_rows == 1


@pytest.mark.parametrize(
    "bad",
    [{"start_s": -1.0}, {"start_s": 1e300}, {"duration_s": NAN}, {"wait_s": math.inf}, {"bytes": 2**70}, {"bytes": -1},
     {"seq": 2**64}, {"step": 2**53 + 1}, {"group_size": 2**70}],
)  # fmt: skip
def test_a_collective_that_no_event_may_tell_costs_its_row_alone(bad: dict[str, Any]) -> None:
    """It is in no sum, and no rank has reached it."""
    batcher, key = joined()
    batcher.send_full_rows(key, math.inf)
    unfit = collective_row(0, seq=1)._replace(**bad)
    batcher.update(key, 0, Report([step_row(0)], [unfit, collective_row(0)]))
    sent = batcher.end(2000.0)
    assert told(sent, CollectiveCalls)[0]["seq"] == [0]
    assert [row[3] for row in sums(sent)] == [1]
    assert told(sent)[0]["collectives"]["reached_seq"] == [0]
    assert batcher.unfit_rows == 1


def test_bytes_that_add_up_beyond_what_travels_are_as_many_as_do() -> None:
    """The message stays readable."""
    batcher, key = joined(1)
    batcher.update(key, 0, Report([step_row(0)], [collective_row(0, seq=seq, bytes=2**53) for seq in range(3000)]))
    assert [row[3:6] for row in sums(batcher.end(2000.0))] == [(3000, 1, 2**53)]


def test_words_are_cut() -> None:
    """A name may be as long as a rank likes."""
    batcher, key = joined(1)
    batcher.update(key, 0, Report([step_row(0)], [collective_row(0, group="g" * 999, operation="o" * 999)]))
    assert [row[1:3] for row in sums(batcher.end(2000.0))] == [("g" * LONGEST_WORD, "o" * LONGEST_WORD)]


def test_topics_are_those_of_the_second_version() -> None:
    """Rows and calls each have their own."""
    batcher, key = joined(1)
    batcher.send_full_rows(key, math.inf)
    batcher.update(key, 0, report([0], collectives=True))
    sent = batcher.tick(0.0)
    assert [item.topic for item in sent] == [topics.JOB, topics.COLLECTIVE, topics.OP]


def test_a_longer_wish_for_full_rows_holds() -> None:
    """A shorter one that comes later takes nothing away; other attempts of the same job have none."""
    batcher = Batcher(ORIGIN)
    key, other = batcher.join(hello(0)), batcher.join(hello(1, attempt=1))
    batcher.send_full_rows(key, 90.0)
    batcher.send_full_rows(key, 30.0)
    assert batcher._jobs[key].full_rows_until_s == 90.0 > batcher._jobs[other].full_rows_until_s


@pytest.mark.parametrize(
    ("told_by_rank", "known_as"),
    [
        ("GPU-38616637-3035-3235-3936-383331363163", "GPU-8af705259683161c"),
        ("GPU-51ed0000-0000-4000-8000-000000000000", "GPU-51ed0000-0000-4000-8000-000000000000"),
        ("cuda:0", "cuda:0"),
        ("GPU-XX", "GPU-XX"),
        ("GPU-" + "\u0661" * 40, "GPU-" + "\u0661" * 40),
        ("", ""),
    ],
)
def test_a_gpu_of_amds_has_the_name_that_the_collector_gives_it(told_by_rank, known_as):
    """Whatever PyTorch makes of it; all that reads a rank's device finds it so."""
    batcher = Batcher(ORIGIN)
    key = batcher.join(hello(0, world_size=1, device=told_by_rank))

    assert batcher.ranks()[key] == {0: (100, known_as)}


def test_nccls_own_rows_travel_beside_the_others() -> None:
    """Marked, in messages of their own that are never too large, also once the ranks have left; none waits for them."""
    batcher, key = joined()
    batcher.tick(0.0)
    batcher.update(key, 0, report([0]))
    rows = MOST_ROWS + 10
    for seq in range(rows):
        batcher.update_nccl(key, seq % 2, collective_row(seq, group="0xa all_reduce", wait_s=0.25))
    assert batcher.waiting(key)[0]
    sent = batcher.tick(1.0)
    assert not batcher.waiting(key)[0]
    events = told(sent, CollectiveCalls)
    assert [(len(event["seq"]), event["by_nccl"], event["summed"]) for event in events] == [
        (MOST_ROWS, True, True),
        (10, True, True),
    ]
    assert [seq for event in events for seq in event["seq"]] == list(range(rows))
    assert {(event["groups"][0], *event["speakers"]["ranks"]) for event in events} == {("0xa all_reduce", 0, 1)}
    assert sums(sent) == []
    for rank in (0, 1):
        batcher.leave(key, rank, 2000.0)
    batcher.tick(2.0)
    batcher.update_nccl(key, 1, collective_row(7))
    (late,) = told(batcher.tick(3.0), CollectiveCalls)
    assert (late["rank"], late["step"]) == ([1], [7])


@pytest.mark.parametrize(
    "odd", [{"seq": 2**60}, {"bytes": 2**60}, {"start_s": NAN}, {"duration_s": math.inf}, {"step": 2**60}]
)
def test_a_row_of_nccls_that_cannot_travel_is_counted(odd: dict[str, Any]) -> None:
    """And spoils no other."""
    batcher, key = joined()
    batcher.update_nccl(key, 0, collective_row(0)._replace(**odd))
    batcher.update_nccl(key, 0, collective_row(1))
    (event,) = told(batcher.tick(1.0), CollectiveCalls)
    assert (event["seq"], batcher.unfit_rows) == ([1], 1)


def test_a_device_that_a_rank_learns_is_spelled_as_one_that_it_joins_with():
    """PyTorch writes the letters of an AMD GPU in hexadecimal; nothing else on the bus does."""
    spelled = "GPU-38616637-3035-3235-3936-383331363163"
    batcher = Batcher(ORIGIN)
    key = batcher.join(hello(0, world_size=1))
    batcher.tick(0.0)
    batcher.learn(key, hello(0, world_size=1, device=spelled))
    assert batcher.ranks()[key] == {0: (100, "GPU-8af705259683161c")}
    (described,) = of(JobDescribed, batcher.end(2000.0))
    assert [place.device for place in described.event.places] == ["GPU-8af705259683161c"]
    again = Batcher(ORIGIN)
    again.join(hello(0, device=spelled))
    assert again.ranks()[key] == batcher.ranks()[key]


def test_what_another_process_of_that_rank_says_is_not_learned():
    """The rank that is here said hello with its own process."""
    batcher = Batcher(ORIGIN)
    key = batcher.join(hello(0, world_size=1))
    batcher.learn(key, hello(0, world_size=1, device="cuda:1", pid=7))
    assert batcher.ranks()[key] == {0: (100, "cpu")}
