"""A run that ends before there is enough to judge: its numbers are told, and nobody is accused."""

import msgspec
import numpy as np
import pytest

from paceline import columns, topics
from paceline.events import CollectiveCalls, Finding, RankBreakdown, StepTimings
from streams.jobs import short_run, short_run_evidence
from streams.jobs.short_run import MOST_CALLS, ShortRun
from streams.jobs.short_run_evidence import MOST_TOLD
from streams.processor import Processor
from streams.robust import peers_median
from tests.streams.job_lines import JobDiagnosis
from tests.timings import numbers, speakers

#: Milliseconds that eight ranks' devices computed, waited for others, copied and were idle, and from a kernel's launch
#: to its start: a real step of a tensor-parallel job, in which the hosts of ranks 0 and 6 launch too slowly.
DEVICES = [(132, 40, 2, 222, 0.6), *[(133, 200, 2, 20, 15)] * 5, (131, 48, 2, 209, 2), (134, 195, 2, 3, 23)]


@pytest.fixture
def make_run(make_training):
    """What is said at the end of so many steps of 0.25 s of four ranks, of which one may be half as slow again."""

    def run(steps, **arguments):
        events = make_training(seconds=steps, step_s=1.0, slow_from_s=0, **arguments)
        processor = Processor()
        found = [said for event in events for _, said in processor.update(topics.OP, event)]
        found += [said for _, said in processor.finish()]
        return [said for said in found if isinstance(said, Finding)]

    return run


def of_rank(finding, rank):
    """The evidence on one rank, by name: its value, and its peers'."""
    return {one.name: (one.value, one.peers) for one in finding.evidence if one.rank == rank}


def breakdown(rank, told):
    """A rank's device, in milliseconds."""
    compute, waited, copied, idle, delay = (1e-3 * one for one in told)
    return RankBreakdown(
        rank=rank,
        steps=1,
        span_s=compute + waited + copied + idle,
        compute_s=compute,
        exposed_communication_s=waited,
        exposed_copy_s=copied,
        idle_s=idle,
        launch_delay_s=delay,
    )


def collectives(late, group="tp", ranks=8):
    """One message: in each collective, the rank ``late`` comes 5 ms after all others, who wait; None: no rank does."""
    rows = [(rank, seq, one) for seq, one in enumerate(late) for rank in range(ranks)]
    seconds = numbers([0.001 if rank == one or one is None else 0.006 for rank, _, one in rows])
    none = numbers([0] * len(rows))
    return CollectiveCalls(
        cluster="c",
        producer="p",
        sequence=0,
        job="job",
        attempt=0,
        node="n",
        phases=True,
        t0_s=1.7e9,
        speakers=speakers(range(ranks)),
        groups=[group],
        group_sizes=numbers([ranks]),
        operations=["all_reduce"],
        rank=numbers([rank for rank, *_ in rows]),
        seq=numbers([seq for _, seq, _ in rows]),
        step=none,
        group=none,
        operation=none,
        bytes=none,
        start_s=numbers([0.01 * seq for _, seq, _ in rows]),
        duration_s=seconds,
        wait_s=seconds,
    )


@pytest.mark.parametrize("steps", [2, 5, 9])
def test_a_few_steps_get_an_answer_and_accuse_nobody(make_run, steps):
    """Also where one rank is half as slow again: in a few steps that may be chance."""
    *suspected, found = make_run(steps, slow=2)
    assert {one.state for one in suspected} <= {"suspected"}
    assert (found.kind, found.state, found.ranks, found.severity) == ("insufficient_data", "confirmed", [], "info")
    assert found.summary.startswith("Too short to judge: ")
    assert "Unconfirmed: rank 2 computed " in found.summary
    assert found.evidence[0].name == "steps_heard"
    assert 0 < found.evidence[0].value <= steps
    value, peers = of_rank(found, 2)["compute_s"]
    assert value == pytest.approx(1.5 * peers, rel=0.05)
    assert all("unconfirmed" in one.rule for one in found.evidence[1:])
    assert {one.rank for one in found.evidence[1:]} == {0, 1, 2, 3}


def test_a_healthy_short_run_says_that_no_rank_stands_out(make_run):
    """Its numbers are told all the same."""
    (found,) = make_run(4)
    assert found.summary.endswith("Unconfirmed: no rank differs from its peers.")
    assert of_rank(found, 0)["exposed_communication_s"][0] > 0


@pytest.mark.long
def test_a_run_that_is_judged_gets_no_such_answer(make_run):
    """Healthy or not, verdicts say the rest."""
    assert make_run(30) == []
    assert {found.kind for found in make_run(40, slow=2)} == {"straggler"}


def test_nothing_heard_is_nothing_said():
    """A job that is only known by its thresholds has no last word."""
    assert JobDiagnosis().conclude() == []


def test_a_step_of_a_real_job_names_who_waits_for_its_host():
    """Devices compute alike; the idle ones start kernels as soon as they are launched."""
    run = ShortRun()
    run.update_breakdowns([breakdown(rank, told) for rank, told in enumerate(DEVICES)])
    said = short_run_evidence.said(run, peers_median, "ten looks")
    assert (
        "rank 0 was idle for 222 ms (its peers 20.0 ms), rank 6 was idle for 209 ms (its peers 20.0 ms)" in said.summary
    )
    assert (
        "the device waits for its host: rank 0 after 600 µs, rank 6 after 2.00 ms (its peers' 15.0 ms)" in said.summary
    )
    assert "computed" not in said.summary
    assert said.subject.ranks == ()
    evidence = {(one.rank, one.name): one.value for one in said.evidence[1:]}
    assert evidence[0, "idle_s"] == 0.222
    assert evidence[7, "launch_delay_s"] == 0.023


def test_who_was_last_is_counted_among_those_that_came_apart():
    """The last of a collective is in it for the shortest time; where all came together nobody was."""
    diagnosis = JobDiagnosis()
    diagnosis.update(collectives([0] * 29 + [6] * 16 + [3, 4, 5, 7] + [None] * 35))
    (found,) = diagnosis.conclude()
    assert "rank 0 in 29 of 49, rank 6 in 16 of 49" in found.summary
    assert of_rank(found, 0)["last_in_collectives"] == (29, 49 / 8)
    assert of_rank(found, 1)["last_in_collectives"] == (0, 49 / 8)
    assert found.ranks == []


def test_a_collective_that_is_told_twice_or_by_one_rank_tells_nothing_new():
    """Repeats count once, and a lone rank is last of nobody."""
    diagnosis = JobDiagnosis()
    diagnosis.update(collectives([1, 1]))
    diagnosis.update(msgspec.structs.replace(collectives([1, 1]), producer="again"))
    diagnosis.update(msgspec.structs.replace(collectives([0], ranks=1, group="own"), producer="lone"))
    assert of_rank(diagnosis.conclude()[0], 1)["last_in_collectives"][0] == 2


def test_groups_of_the_same_number_are_told_apart():
    """Numbers count within a group: a message's own places of groups mean nothing in another's."""
    diagnosis = JobDiagnosis()
    diagnosis.update(collectives([1, 1, 1]))
    diagnosis.update(msgspec.structs.replace(collectives([2, 2, 2], group="dp"), producer="other"))
    (found,) = diagnosis.conclude()
    assert of_rank(found, 1)["last_in_collectives"][0] == of_rank(found, 2)["last_in_collectives"][0] == 3


def test_of_many_ranks_those_that_stand_out_are_told():
    """A finding of a hundred thousand ranks is not a hundred thousand lines."""
    run = ShortRun()
    slow = {700, 3}
    told = [(150 if rank in slow else 100, 0, 0, 0 if rank in slow else 50, 10) for rank in range(1000)]
    run.update_breakdowns([breakdown(rank, one) for rank, one in enumerate(told)])
    said = short_run_evidence.said(run, peers_median, "ten looks")
    ranks = {one.rank for one in said.evidence[1:]}
    assert slow < ranks
    assert len(ranks) == MOST_TOLD


def test_what_is_kept_is_bounded(monkeypatch):
    """Calls beyond the bound are left out; once there is enough to judge nothing is kept."""
    monkeypatch.setattr(short_run, "MOST_CALLS", 100)
    diagnosis = JobDiagnosis()
    diagnosis.update(collectives([1] * 50))
    assert diagnosis.short.calls_heard == 100
    names = [f"group-{number}" for number in range(1000)]
    named = msgspec.structs.replace(collectives([1]), producer="names", groups=names, group_sizes=numbers([8] * 1000))
    diagnosis.update(named)
    assert list(diagnosis.short.groups) == ["tp"]
    assert diagnosis.short.calls_left_out == 308
    diagnosis.short.forget()
    diagnosis.update(msgspec.structs.replace(collectives([1] * 50), producer="other"))
    assert (diagnosis.short.calls, diagnosis.short.heard) == ([], False)
    assert MOST_CALLS < 10**6


def test_a_breakdown_of_no_time_divides_nothing():
    """A trace of a single kernel of no length is a trace."""
    run = ShortRun()
    run.update_breakdowns([breakdown(rank, (0, 0, 0, 0, 0)) for rank in range(2)])
    said = short_run_evidence.said(run, peers_median, "ten looks")
    assert said.summary.endswith("no rank differs from its peers.")
    assert np.isfinite([one.value for one in said.evidence]).all()


def heard_until(make_training, ended):
    """A processor that heard a few steps of a job, then its goodbyes, if they ``ended``; and its key."""
    processor = Processor()
    events = make_training(seconds=4, step_s=1.0, slow_from_s=0, job="short")
    last = {event.node: event for event in events}
    for event in events:
        processor.update(topics.OP, event)
    for event in last.values() if ended else ():
        processor.update(topics.OP, goodbye(event))
    (key,) = processor.states
    return processor, key


def goodbye(event):
    """The last message of the node of ``event``: its ranks have left."""
    none = columns.whole([])
    return StepTimings(
        **{name: getattr(event, name) for name in ("cluster", "producer", "job", "attempt", "node")},
        sequence=event.sequence + 1,
        t0_s=event.t0_s,
        speakers=speakers([]),
        rank=none,
        step=none,
        start_s=columns.offsets([]),
        step_s=columns.durations([]),
        phases={},
        ended=True,
    )


def too_short(answers):
    """Those of ``answers`` that say so."""
    return [said for _, said in answers if isinstance(said, Finding) and said.kind == "insufficient_data"]


def expired(processor, key):
    """What is said once nothing has been heard of the job for longer than an hour."""
    processor.idle_s = -1.0
    processor._forget()
    assert key not in processor
    return processor.flush(key)


def test_the_goodbye_of_a_short_run_brings_its_answer_once(make_training):
    """Not an hour later, when it is forgotten: and not again then, also after a restart."""
    processor, key = heard_until(make_training, ended=True)
    (found,) = too_short(processor.flush(key))
    assert found.summary.startswith("Too short to judge: ")
    processor.restore(key, processor.snapshot(key))
    assert too_short(processor.flush(key)) == []
    assert too_short(expired(processor, key)) == []


def test_a_short_run_that_fell_silent_gets_no_answer_when_it_is_forgotten(make_training):
    """It may go on, and whoever watched it has long gone; a recording of it says so at its end."""
    processor, key = heard_until(make_training, ended=False)
    assert too_short(processor.flush(key)) == []
    assert too_short(expired(processor, key)) == []
    processor, key = heard_until(make_training, ended=False)
    processor.recorded = True
    assert len(too_short(expired(processor, key))) == 1
