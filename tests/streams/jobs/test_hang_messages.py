"""A job that stands still, as its nodes report it: thousands of them, and messages that say nothing of who waits."""

from typing import Any

import msgspec
import pytest

from paceline import columns, words
from paceline.events import (
    CollectiveCalls,
    CollectiveSums,
    OpenCollective,
    RankEnd,
    RankLook,
    Speakers,
    StepTimings,
)
from paceline.lost_time import lost_s
from streams.jobs.hang import Hang, HangConfig
from streams.jobs.hang_evidence import MOST_NEWS, MOST_TOLD
from streams.jobs.waiting_place import Wait
from streams.jobs.waits import MOST_PLACES, Waits
from tests.streams.job_lines import JobDiagnosis
from tests.timings import speakers
from tests.work_done import counted

RANKS, MANY, STEPS_A_RANK = 4, 256, 500
ABOUT: dict[str, Any] = {"cluster": "c", "job": "j", "attempt": 0, "t0_s": 100.0}


def stands(rank, ranks=RANKS):
    return OpenCollective(
        rank=rank, group="world", group_size=ranks, seq=1, operation="all_reduce", start_s=100.0, bytes=4
    )


def calls(rank, sequence, rows):
    """A node's message of collectives of ``rank`` that have ended, by their numbers: it sends no steps."""
    zeros = columns.whole([0] * len(rows))
    return CollectiveCalls(
        **ABOUT, producer=f"p{rank}", sequence=sequence, node=f"n{rank}", speakers=speakers([rank], RANKS),
        groups=["world"], group_sizes=columns.whole([RANKS]), operations=["all_reduce"],
        rank=columns.whole([rank] * len(rows)), step=columns.whole([2] * len(rows)), seq=columns.whole(rows),
        group=zeros, operation=zeros, bytes=zeros, start_s=zeros, duration_s=columns.durations([0.1] * len(rows)),
        wait_s=zeros,
    )  # fmt: skip


def waits(rank, sequence, now_s):
    """A node's message that ``rank`` still stands in collective 1."""
    return steps(rank, sequence, open=[stands(rank)], now_s=now_s)


def steps(rank, sequence, of=(), ranks=RANKS, **more):
    """A node's message of ``rank`` with the steps ``of``."""
    whole, seconds = columns.whole, columns.durations
    return StepTimings(
        **ABOUT, producer=f"p{rank}", sequence=sequence, node=f"n{rank}",
        speakers=speakers([rank], ranks),
        rank=whole([rank] * len(of)), step=whole(list(of)), start_s=columns.offsets([1.0] * len(of)),
        step_s=seconds([0.1] * len(of)), phases={}, **more,
    )  # fmt: skip


@pytest.fixture
def job():
    """One in which ranks 0, 1 and 3 have stood in collective 1 for half a minute, without rank 2."""
    verdicts = JobDiagnosis()
    for rank in range(RANKS):
        verdicts.update(calls(rank, 0, rows=[0]))
    found = [one for rank in (0, 1, 3) for one in verdicts.update(waits(rank, 1, now_s=131.0))]
    assert (found[-1].state, found[-1].ranks) == ("suspected", [2])
    return verdicts


def states(found):
    return [one.state for one in found if one.kind == "hang"]


def test_a_message_that_does_not_say_who_waits_ends_no_hang(job):
    """Links or facts alone: it has no time, and no rows of those who wait."""
    for rank in (0, 1, 3):
        assert states(job.update(steps(rank, 2))) == []
    assert states(job.update(waits(0, 3, now_s=161.0))) == ["confirmed"]


def test_rows_of_another_rank_end_no_hang(job):
    """One node's message in which one of its ranks has gone on."""
    assert states(job.update(steps(2, 1, of=[3]))) == []
    assert states(job.update(waits(0, 2, now_s=161.0))) == ["confirmed"]


def test_ranks_that_have_rows_again_have_gone_on(job):
    """Without a word of who waits: nobody does any longer."""
    found = [one for rank in (0, 1, 3) for one in job.update(steps(rank, 2, of=[3]))]
    assert states(found)[-1:] == ["recovered"]


def test_collectives_that_end_later_end_it_as_well(job):
    """Of a job that sends no steps."""
    found = [one for rank in range(RANKS) for one in job.update(calls(rank, 2, rows=[1]))]
    assert states(found)[-1:] == ["recovered"]


def test_collectives_of_before_that_are_told_late_end_no_hang(job):
    """They were called before the one in which the ranks wait."""
    assert [one for rank in range(RANKS) for one in job.update(calls(rank, 2, rows=[0]))] == []
    assert states(job.update(waits(0, 3, now_s=161.0))) == ["confirmed"]


def test_a_node_that_says_that_nobody_waits_ends_it(job):
    """It has a time, and lists no rank."""
    found = [one for rank in (0, 1, 3) for one in job.update(steps(rank, 2, now_s=140.0))]
    assert states(found)[-1:] == ["recovered"]


def test_a_look_lasts_until_its_rank_goes_on(job):
    """A message without a time takes away no line either."""
    look = RankLook(rank=2, time_s=0.0, doing="computing", moved=False, line="train.py:45 evaluate", pid=7)
    job.update(steps(2, 1, now_s=131.0, looks=[look]))
    job.update(steps(2, 2))
    job.update(waits(0, 2, now_s=161.0))
    assert [seen.line for seen in job.collectives.hang.tracker.get("job").measured.stop.places] == [
        "train.py:45 evaluate"
    ]
    job.update(steps(2, 3, of=[3]))
    job.update(waits(0, 3, now_s=162.0))
    assert job.collectives.hang.tracker.get("job").measured.stop.places == []


def sums(reached):
    """Collectives of a node, of which only how far its ranks have got is told."""
    none, whole, seconds = columns.whole([]), columns.whole, columns.durations
    return CollectiveSums(
        groups=["world"], group_sizes=whole([RANKS]), operations=[], step=none, group=none, operation=none, count=none,
        members=none, bytes=none, wait_s=seconds([]), duration_s=seconds([]), reached_rank=whole(list(reached)),
        reached_group=whole([0] * len(reached)), reached_seq=whole(list(reached.values())), span_rank=none,
        span_first_s=columns.offsets([]), span_last_s=columns.offsets([]), span_waited_s=seconds([]),
    )  # fmt: skip


def node(sequence, of=(), waiting=(), now_s=None, looks=(), reached=None):
    """A message of the node of all ranks."""
    told = steps(of[0] if of else 0, sequence, of=of[1:], now_s=now_s)
    ranks = list(range(RANKS))
    speakers = Speakers(ranks=columns.whole(ranks), world_sizes=columns.whole([RANKS] * RANKS), devices=["cpu"] * RANKS)
    open_ = [OpenCollective(rank=rank, group="world", group_size=RANKS, seq=1, operation="all_reduce", start_s=start_s)
             for rank, start_s in waiting]  # fmt: skip
    return msgspec.structs.replace(
        told, producer="node", speakers=speakers, open=open_, looks=list(looks),
        collectives=sums(reached) if reached else None,
    )  # fmt: skip


def test_the_rank_that_worked_is_not_missing_once_it_goes_on_before_some_of_those_who_waited_are_heard_of():
    """A long checkpoint ends: one message has the rank that made it and two that waited for it, the next the third."""
    verdicts = JobDiagnosis()
    assert verdicts.update(node(0, reached=dict.fromkeys(range(RANKS), 0))) == []
    waiting = [(1, 100.001), (2, 100.003), (3, 100.0)]
    for turn in range(1, 8):
        now_s = 100.0 + 5 * turn
        look = RankLook(rank=0, time_s=now_s, doing="moving", moved=True, line="train.py:45 save", pid=7)
        assert states(verdicts.update(node(turn, waiting=waiting, now_s=now_s, looks=[look]))) == []
    assert states(verdicts.update(node(8, of=(1, 29), reached={0: 2, 1: 2, 3: 1}))) == []
    assert states(verdicts.update(node(9, of=(2, 29), reached={2: 2}))) == []


def test_of_those_who_wait_for_a_rank_that_worked_the_longest_may_be_the_first_to_go_on():
    """Its wait is over: that of the next is a little shorter, and no other one."""
    hang = Hang(HangConfig())
    for rank in range(RANKS):
        hang.waits.reach(rank, "world", 0)

    def update(ranks, now_s, **looked):
        seen = RankLook(rank=0, time_s=now_s, doing="moving", line="train.py:45 save", pid=7, **looked)
        hang.look([0, *ranks], [seen] if looked else [], standing=bool(looked))
        return hang.update([0, *ranks], [msgspec.structs.replace(stands(rank), start_s=100.0 + rank / 1000)
                                         for rank in ranks], now_s)  # fmt: skip

    assert [update([1, 2, 3], 100.0 + 5 * turn, moved=True) for turn in range(1, 8)] == [None] * 7
    hang.waits.stand(1, [])
    assert update([2, 3], 135.0, moved=None) is None


def test_a_rank_costs_as_much_among_thousands_as_among_few():
    """Each of them sends a message of its own: what that costs does not grow with how many others wait."""
    verdict = Hang(HangConfig())
    for rank in range(MANY):
        verdict.waits.reach(rank, "world", 0)
    with counted(STEPS_A_RANK * MANY):
        for rank in range(MANY):
            look = RankLook(rank=rank, time_s=0.0, doing="waiting", moved=False, line="train.py:30 step")
            verdict.look([rank], [look], standing=True)
            verdict.update([rank], [stands(rank, MANY)] if rank else [], 131.0 + rank / MANY)
    assert verdict.tracker.get("job").measured.stop.missing == [0]
    assert verdict.tracker.get("job").measured.stop.waits == MANY - 1


def test_thousands_of_one_rank_nodes_make_few_revisions():
    """Their messages come one after the other, and each makes fewer ranks late; the last word is right."""
    verdict = Hang(HangConfig())
    for rank in range(MANY):
        verdict.waits.reach(rank, "world", 0)
    found = [verdict.update([rank], [stands(rank, MANY)], 131.0 + rank / MANY) for rank in range(1, MANY)]
    assert [one.state for one in found if one] == ["suspected"] * (1 + MOST_NEWS)
    later = [verdict.update([1], [stands(1, MANY)], 100.0 + 1.25 * 32.0)]
    assert [(one.state, one.measured.stop.missing) for one in later] == [("suspected", [0])], "a quarter later"
    last = [verdict.update([rank], [stands(rank, MANY)], 161.0) for rank in range(1, MANY)]
    assert [(one.state, one.measured.stop.missing) for one in last if one] == [("confirmed", [0])]


def test_changes_are_counted_across_a_restart():
    """A worker that starts again reports none twice, and no more than one that has not."""
    one, other = Hang(HangConfig()), Hang(HangConfig())
    for rank in range(RANKS * 4):
        one.waits.reach(rank, "world", 0)
    for rank in range(1, RANKS * 4):
        other.load(one.state())
        message = [rank], [stands(rank, RANKS * 4)], 131.0
        assert one.update(*message) == other.update(*message)
    assert one.tracker.get("job").revision == 1 + MOST_NEWS


def test_a_rank_in_many_groups_costs_as_much():
    """Tensor, data and pipeline groups: half of the groups wait, and none of them costs a look at the others."""
    verdict = Hang(HangConfig())
    for rank in range(MANY):
        verdict.waits.reach(rank, "world", 0)
        verdict.waits.reach(rank, f"pair {rank // 2}", 0)
    with counted(STEPS_A_RANK * MANY):
        for rank in range(1, MANY):
            wait = OpenCollective(
                rank=rank, group=f"pair {rank // 2}", group_size=2, seq=1, operation="all_reduce", start_s=100.0
            )
            verdict.update([rank], [wait], 131.0)
    assert verdict.tracker.get("job").measured.stop.missing == [0]


def test_a_rank_in_a_deadlock_of_thousands_costs_as_much():
    """Half of them wait in each of two groups: what the other half does is not looked at again for each message."""
    verdict = Hang(HangConfig())
    with counted(STEPS_A_RANK * MANY):
        for rank in range(MANY):
            wait = OpenCollective(
                rank=rank, group=f"g{rank % 2}", group_size=MANY, seq=0, operation="all_reduce", start_s=100.0
            )
            verdict.update([rank], [wait], 131.0, MANY)
    assert len(verdict.tracker.get("job").measured.stop.across) == 64


@pytest.mark.long
def test_places_without_end_take_bounded_work_and_memory():
    """One message may name any number of collectives, each of which most ranks of a group have not come to."""
    verdict, few = Hang(HangConfig()), 32
    for rank in range(few):
        verdict.waits.reach(rank, "world", 0)
    odd = [
        OpenCollective(rank=1, group="world", group_size=few, seq=seq, operation="all_reduce", start_s=100.0)
        for seq in range(1, 1001)
    ]
    with counted(100_000, most_bytes=2_000_000):
        verdict.update([1], odd, 131.0)
    assert len(verdict.waits.waits[1]) == MOST_PLACES
    verdict.update([1], [], 132.0)
    assert verdict.waits.first() is None


def test_ranks_beyond_what_is_followed_accuse_nobody_and_break_nothing(monkeypatch):
    """Without room nobody more is counted as missing; with room again everything is as before."""
    monkeypatch.setattr("streams.jobs.waits.MOST_BEHIND", 3)
    waits = Waits()
    for rank in range(3):
        waits.reach(rank, "world", 0)
    wait = Wait(0, "world", 6, 1, "all_reduce", 31.0)
    waits.stand(0, [wait])
    for rank in range(3, 6):
        waits.reach(rank, "world", 0)
    assert waits.first().missing == [1, 2, 3]
    waits.stand(5, [Wait(5, "world", 6, 1, "all_reduce", 31.0)])
    waits.stand(5, [])
    for rank in range(5, -1, -1):
        waits.reach(rank, "world", 1)
    assert waits.first() is None
    assert not waits.keeps_anybody()


def ends(rank, sequence):
    """The last message of ``rank``'s node: it has lost its peers."""
    lost = RankEnd(rank=rank, time_s=170.0, how="exception", error="RuntimeError", message="Connection closed by peer")
    return steps(rank, sequence, ends=[lost], ended=True)


@pytest.mark.parametrize("first", [0, 2])
def test_a_job_that_hung_until_its_ranks_gave_up_has_died_of_that(job, first):
    """In whatever order they give up, and though none waits any longer once the last message comes."""
    assert states(job.update(waits(0, 2, now_s=161.0))) == ["confirmed"]
    found = [one for rank in sorted(range(RANKS), key=lambda rank: rank != first) for one in job.update(ends(rank, 9))]
    (died,) = (one for one in found if one.kind == "died")
    assert died.ranks == []
    assert died.summary == (
        "Died: no rank failed by itself; the job had hung in all_reduce #1 (group world): rank 2 has not called it. "
        "Next: compare the order, operations and sizes of the calls on these ranks; check the network."
    )


def test_a_job_that_went_on_after_a_hang_has_not_died_of_it(job):
    """It ended later, by itself."""
    assert states(job.update(waits(0, 2, now_s=161.0))) == ["confirmed"]
    for rank in range(RANKS):
        job.update(calls(rank, 3, rows=[1]))
    (died,) = (one for rank in range(RANKS) for one in job.update(ends(rank, 9)) if one.kind == "died")
    assert "hung" not in died.summary


def two_groups(restart_s=0.0):
    """The findings of a job of eight ranks that wait for rank 7 before the first step has ended: three of them in a
    group of their own, from 190 s on the other four in that of all ranks. At 400 s all go on."""
    verdicts, found = JobDiagnosis(), []
    for rank in range(8):
        for group in ("world", "dp1") if rank % 2 else ("world",):
            verdicts.collectives.hang.waits.reach(rank, group, 99)
    for sequence, now_s in enumerate(range(110, 410, 10)):
        if now_s == restart_s:
            verdicts = JobDiagnosis.restore(verdicts.snapshot())
        for rank in range(7):
            group, size, start_s = ("dp1", 4, 100.0) if rank % 2 else ("world", 8, 190.0)
            call = OpenCollective(
                rank=rank, group=group, group_size=size, seq=100, operation="all_reduce", start_s=start_s
            )
            waiting = [call] if start_s < now_s < 400 else []
            found += verdicts.update(steps(rank, sequence, ranks=8, open=waiting, now_s=float(now_s)))
    return found


def test_a_hang_keeps_its_id_while_it_is_named_by_another_collective():
    """Who reads the findings sees it confirmed and over, and no second one; also across a restart."""
    found = two_groups()
    assert [one.state for one in found][-1] == "recovered"
    assert {one.group for one in found} == {"dp1", "world"}
    assert len({one.id for one in found}) == 1
    assert [one.revision for one in found] == list(range(1, len(found) + 1))
    assert two_groups(restart_s=250.0) == found


def test_what_a_hang_costs_does_not_fall():
    """Those who have waited longest may go on before the others."""
    costs = [one.cost.lost_s for one in two_groups()]
    assert costs == sorted(costs)
    assert costs[-1] >= 190.0


def test_a_hang_before_the_first_step_has_ended_costs_the_job_its_time():
    """Of step 0: findings that count no steps are of nodes, and left out of what a job has lost."""
    last = two_groups()[-1]
    assert (last.first_step, last.last_step) == (0, 0)
    assert lost_s([last]) == last.cost.lost_s > 0.0


@pytest.mark.parametrize(
    ("missing", "title"),
    [(512, "Hang: ranks 0, 1, 2, 3, 4, 5 and 506 more"), (3, "Hang: ranks 0, 1, 2")],
)
def test_missing_ranks_that_are_not_named_are_counted(missing, title):
    """In the title as in the sentence; where all are named, their number is no evidence of its own."""
    verdicts, ranks = JobDiagnosis(), 1024
    for rank in range(ranks):
        verdicts.collectives.hang.waits.reach(rank, "world", 0)
    message = steps(
        ranks - 1, 0, ranks=ranks, open=[stands(rank, ranks) for rank in range(missing, ranks)], now_s=131.0
    )
    (found,) = verdicts.update(message)
    assert words.verdict(found) == title
    assert [one.value for one in found.evidence if one.name == "missing"] == [missing] * (missing > MOST_TOLD)
