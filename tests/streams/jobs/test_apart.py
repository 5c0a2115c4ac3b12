"""Ranks that never wait for each other: nobody is accused, and one sentence says so."""

import msgspec
import numpy as np
import pytest

from paceline import columns
from paceline.events import Speakers, StepTimings
from streams.job_state import Backlog
from streams.jobs.apart import Apart, is_apart, relation, said
from streams.snapshots import pack, unpack
from tests.streams.job_lines import JobDiagnosis
from tests.streams.jobs.conftest import OPS


def wide(job, *, apart_until=10**9, probed_s=1.7e9):
    """The steps of ``job`` as a probe reports them; before step ``apart_until`` nothing is a collective."""
    seconds = job.seconds()
    for first in range(0, job.steps, 10):
        steps = np.arange(first, min(first + 10, job.steps))
        rows = [(step, rank) for step in steps for rank in range(job.ranks)]
        mine = np.array([seconds[step, :, rank] for step, rank in rows])
        waits = np.array([step >= apart_until for step, _ in rows])
        # Without a collective a rank's step is its work.
        mine[~waits, -2], mine[~waits, -1] = np.nan, mine[~waits, :4].sum(axis=1)
        yield StepTimings(
            cluster="default", producer="sidecar", sequence=first // 10, job="job", attempt=0, node="node",
            t0_s=probed_s, rank=columns.whole([rank for _, rank in rows]),
            step=columns.whole([int(step) for step, _ in rows]),
            start_s=columns.offsets([0.15 * step for step, _ in rows]), step_s=columns.durations(mine[:, -1].tolist()),
            phases={
                op: columns.durations(mine[:, at].tolist())
                for at, op in enumerate(OPS[:-1])
                if op != "communication" or waits.any()
            },
            speakers=Speakers(
                ranks=columns.whole(list(range(job.ranks))), world_sizes=columns.whole([job.ranks] * job.ranks),
                devices=["cpu"] * job.ranks,
            ),
        )  # fmt: skip


def found(events):
    diagnosis = JobDiagnosis()
    findings = [one for event in events for one in diagnosis.update(event)]
    return findings + diagnosis.finish() + diagnosis.conclude()


@pytest.mark.long
def test_a_slow_rank_that_nobody_waits_for_is_not_accused(job):
    """Three processes without a process group, one of them slower from the start: one finding, and it names nobody."""
    slow = job(ranks=3, steps=300, fault={1: {"forward": 0.05}}, when=lambda step: True)
    findings = found(wide(slow))
    assert {one.kind for one in findings} == {"insufficient_data"}
    assert all(is_apart(one) and not one.ranks for one in findings)
    assert findings[0].summary == (
        "No collective of torch.distributed was seen, and the 3 ranks have steps of unequal length: as far as is "
        "measured, they do not wait for each other, so none is named as slow."
    )
    assert (findings[-1].severity, findings[-1].cost.lost_s) == ("info", 0.0)


@pytest.mark.long
def test_once_they_wait_they_are_compared(job):
    """A group that is joined late: what was said of the ranks is over, and the slow one is named."""
    slow = job(ranks=3, steps=400, fault={1: {"forward": 0.05}}, when=lambda step: True)
    findings = found(wide(slow, apart_until=200))
    over = [one for one in findings if is_apart(one) and one.state == "recovered"]
    assert len(over) == 1
    assert {tuple(one.ranks) for one in findings if one.kind == "straggler"} == {(1,)}


@pytest.mark.long
def test_ranks_that_exchange_by_another_library_are_compared(job):
    """Horovod's or MPI's: no collective of PyTorch's, yet the others stand still at the end of their steps."""
    slow = job(ranks=4, steps=300, fault={1: {"forward": 0.05}})
    messages = [
        msgspec.structs.replace(event, phases={op: event.phases[op] for op in event.phases if op != "communication"})
        for event in wide(slow, apart_until=0)
    ]
    assert {(one.kind, tuple(one.ranks)) for one in found(messages)} == {("straggler", (1,))}


@pytest.mark.long
def test_a_table_of_ops_tells_of_no_waiting_and_is_judged_as_it_is(job):
    """Its waiting is not measured: nothing is concluded from that."""
    slow = job(ranks=3, steps=300, fault={1: {"forward": 0.05}}, when=lambda step: True)
    unknown = columns.durations([np.nan] * 30)
    table = [msgspec.structs.replace(event, phases=event.phases | {"communication": unknown}) for event in wide(slow)]
    assert {(one.kind, tuple(one.ranks)) for one in found(table)} == {("straggler", (1,))}


@pytest.mark.long
@pytest.mark.parametrize("blind", [3, 7, 11])
def test_waiting_that_is_measured_from_some_message_on_is_judged_alike_from_a_backlog(job, blind):
    """What is known of messages that are judged together is what each of them and those before it told."""
    events = list(wide(job(ranks=3, steps=300, fault={1: {"forward": 0.05}}, when=lambda step: True)))
    unknown = columns.durations([np.nan] * 30)
    for at, event in enumerate(events[:blind]):
        events[at] = msgspec.structs.replace(event, phases=event.phases | {"communication": unknown})
    together, backlog = JobDiagnosis(), Backlog()
    backlog.at_once = 16
    together.share_backlog(backlog)
    findings = [one for event in events for one in together.update(event)] + together.finish() + together.conclude()
    assert findings == found(events) != []


def ticks_of(make_tick, count, wait_s=0.0, *, measured=True, ranks=2, first=0):
    for number in range(first, first + count):
        tick = make_tick(number, forward=[0.1] * (ranks - 1) + [0.2], communication=[wait_s] * ranks)
        yield tick._replace(waits_measured=measured)


@pytest.mark.parametrize(
    ("wait_s", "measured", "ranks"), [(0.01, True, 2), (0.0, False, 2), (0.0, True, 1)], ids=["waits", "table", "alone"]
)
def test_it_is_asked_of_several_ranks_whose_waiting_is_measured(make_tick, wait_s, measured, ranks):
    """One rank has nobody to wait for."""
    apart = Apart(3)
    told = [apart.update(tick) for tick in ticks_of(make_tick, 20, wait_s, measured=measured, ranks=ranks)]
    assert told == [None] * 20


@pytest.mark.parametrize("cut", range(12))
def test_restored_it_goes_on_as_if_nothing_had_happened(make_tick, cut):
    """State is data, also through bytes."""
    ticks = [*ticks_of(make_tick, 7), *ticks_of(make_tick, 5, 0.01, first=7)]
    first, again = Apart(3), Apart(3)
    told = [first.update(tick) for tick in ticks[:cut]]
    again.load(unpack(1, pack(1, first.state())))
    told += [again.update(tick) for tick in ticks[cut:]]
    states = [(at, one.state) for at, one in enumerate(told) if one]
    assert states == [(3, "suspected"), (4, "confirmed"), (8, "recovered")]


def test_what_is_said_names_nobody():
    """It is a fact of the job, and costs nothing."""
    assert (said(3).subject.kind, said(3).subject.ranks, said(3).severity) == ("insufficient_data", (), "info")


@pytest.mark.parametrize(
    ("work", "steps", "seen"),
    [
        ([0.1, 0.1, 0.2], [0.1, 0.1, 0.2], "apart"),
        ([0.1, 0.1, 0.2], [0.2, 0.2, 0.2], "together"),
        ([0.1, 0.1, 0.105], [0.105, 0.105, 0.105], "unknown"),
        ([0.1, 0.1, 0.1], [0.3, 0.1, 0.2], "unknown"),
        ([0.2, 0.2, 0.1], [0.25, 0.25, 0.15], "apart"),
        ([0.1, np.nan, 0.2], [0.1, 0.9, 0.2], "apart"),
        ([0.1, np.nan], [0.1, np.nan], "unknown"),
        ([0.0, 0.0], [0.0, 0.0], "unknown"),
        ([0.1, 0.2], [], "unknown"),
    ],
    ids=["apart", "waits", "alike", "idle", "one_fast", "hole", "one_rank", "zero", "lateness"],
)
def test_unequal_ranks_show_whether_they_wait(work, steps, seen):
    """Steps made equal are waited for; steps that differ as the work does are not."""
    assert relation(np.array(work), np.array(steps)) == seen


@pytest.mark.long
@pytest.mark.parametrize("more", [0.0, 0.0051])
def test_ranks_that_wait_do_not_work_apart_at_the_edge_of_a_threshold(job, more):
    """Through another library, a rank that is slower by about the share that counts: all steps are equally long."""
    edge = job(ranks=4, steps=400, step_s=0.1, noise=0.02, fault={1: {"forward": more}}, when=lambda step: True)
    messages = [
        msgspec.structs.replace(event, phases={op: event.phases[op] for op in event.phases if op != "communication"})
        for event in wide(edge, apart_until=0)
    ]
    assert not [one for one in found(messages) if is_apart(one)]
