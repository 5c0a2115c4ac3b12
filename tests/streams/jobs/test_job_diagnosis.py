"""One attempt of one job, events in and findings out: the order they come in, what is kept, and what is bounded."""

import copy
import dataclasses
import functools
from typing import Any

import msgspec
import numpy as np
import pytest

from paceline import columns
from paceline.events import RANK_LIMIT, RankCondition, StepTimings, Thresholds
from paceline.gpu.throttle import HARDWARE_THERMAL
from paceline.sidecar.condition_columns import condition_columns
from streams.jobs.config import JobConfig
from streams.snapshots import pack, unpack
from tests.streams.job_lines import JobDiagnosis
from tests.timings import changed, listed, speakers, speaking

#: Of the state, as it is stored now.
LAYOUT = JobDiagnosis.layout

SLOW = {2: {"forward": 0.03, "backward": 0.06}}
ROWS = ("rank", "step", "start_s", "step_s", "seq", "group", "operation", "bytes", "duration_s", "wait_s")
replace = msgspec.structs.replace


def judged(events, diagnosis=None):
    """All findings."""
    diagnosis = diagnosis or JobDiagnosis()
    return [finding for event in events for finding in diagnosis.update(event)]


def told(findings):
    """(kind, cause, ranks) of what was found."""
    return {(finding.kind, finding.cause, tuple(finding.ranks)) for finding in findings}


def thresholds(**values):
    return Thresholds(cluster="default", job="job", attempt=0, values=values)


def crowd(event, producers=24):
    """Messages that say nothing, each of another node: so many must come before one is judged."""
    none: dict[str, Any] = {name: [] for name in ROWS if hasattr(event, name)}
    if isinstance(event, StepTimings):
        none["phases"] = {key: [] for key in event.phases}
    empty = speaking(changed(event, **none), [])
    return [replace(empty, producer=f"node {number}", sequence=0) for number in range(producers)]


def heated(event, rank=2):
    """A message with what its ranks went through: the GPU of ``rank`` is too hot and slower, from the beginning."""
    ends_s = event.t0_s + max(listed(event.start_s))
    told = [
        RankCondition(
            rank=one,
            time_s=ends_s,
            span_s=1.0,
            throttle_reasons=HARDWARE_THERMAL.bit if one == rank else 0,
            sm_clock_mhz=900.0 if one == rank else 1980.0,
            major_faults=0,
        )
        for one in listed(event.speakers.ranks)
    ]
    return replace(event, conditions=condition_columns(told, event.t0_s))


def placed(events, **places):
    """The events with what ``places`` gives for each rank."""
    made = []
    for event in events:
        own = {name: [of[rank] for rank in listed(event.speakers.ranks)] for name, of in places.items()}
        who = {name: one if name == "devices" else columns.whole(one) for name, one in own.items()}
        made.append(replace(event, speakers=replace(event.speakers, **who)))
    return made


@pytest.fixture
def slow(job):
    """The messages of a job on two nodes whose rank 2 turns slow at step 60."""
    return list(_slow(job))


@pytest.fixture
def whole(job):
    """What is said of these messages."""
    return list(_said_of_slow(job))


@functools.cache
def _slow(job):
    return tuple(job(nodes=2, fault=SLOW, steps=120).batches())


@functools.cache
def _said_of_slow(job):
    return tuple(judged(_slow(job)))


# --- events ----------------------------------------------------------------------------------------------------------


def test_before_anything_came_there_is_nothing_to_say():
    """Nor is there after thresholds alone."""
    diagnosis = JobDiagnosis()
    assert diagnosis.update(thresholds(least_excess=0.2)) == []
    assert diagnosis.finish() == []


@pytest.mark.long
def test_a_first_message_without_rows_is_no_news(slow, whole):
    """What comes after it is judged as ever, and its sender is one more that was heard, no rank."""
    diagnosis = JobDiagnosis()
    assert judged(crowd(slow[0], 1), diagnosis) == []
    assert judged(slow, diagnosis) == whole
    assert told(whole) == {("straggler", "worker_compute", (2,))}


@pytest.mark.long
def test_two_producers_may_be_seconds_apart(slow, whole):
    """The second node's messages come three behind the first's: the same findings, in the same words."""
    first, second = slow[::2], slow[1::2]
    late = [*first[:3], *(event for pair in zip(first[3:], second, strict=False) for event in pair), *second[-3:]]
    assert len(late) == len(slow)
    assert judged(late) == whole


@pytest.mark.long
def test_a_message_overtaken_by_its_next_is_dropped_and_missed(slow, whole):
    """A producer's numbers only rise: what comes late is not judged, and the finding says that it is missing."""
    swapped = [*slow[:6], slow[8], slow[7], slow[6], *slow[9:]]
    findings = judged(swapped)
    assert told(findings) == told(whole)
    assert {finding.coverage.events_missing for finding in findings} == {1}


@pytest.mark.slow
def test_the_same_number_of_another_producer_is_no_repetition(slow, whole):
    """Both nodes count from 0, on phases and on collectives apart."""
    assert {finding.coverage.ranks_heard for finding in whole} == {4}
    assert judged([event for event in slow for _ in range(2)]) == whole
    one = judged([replace(event, producer="one") for event in slow])
    assert {finding.coverage.ranks_heard for finding in one} == {2}


@pytest.mark.slow
@pytest.mark.parametrize("jump_s", [86_400.0, -86_400.0, 1e9])
def test_a_clock_that_jumps_changes_nothing(slow, jump_s, whole):
    """Of one node, while the job runs, by a day or by decades: only durations are compared."""
    jumped = [replace(event, t0_s=event.t0_s + jump_s * (at >= 20 and at % 2)) for at, event in enumerate(slow)]
    assert judged(jumped) == whole


@pytest.mark.slow
def test_phases_and_collectives_may_come_in_any_order(slow, collective_batches, whole):
    """Nobody promises the order of two topics: what is said of the one does not depend on the other."""
    calls = collective_batches(4, 120, {1: 0.04})
    apart = whole + judged(calls)
    assert {finding.kind for finding in judged(calls)} >= {"straggler"}
    assert judged([*calls, *slow]) == judged(calls) + whole
    mixed = judged([event for row in zip(slow[::2], slow[1::2], calls, strict=True) for event in row])
    assert sorted(mixed, key=repr) == sorted(apart, key=repr)


# --- the lines of judgement ------------------------------------------------------------------------------------------


@pytest.mark.slow
def test_an_accused_rank_is_told_with_its_place_and_its_stage(slow, whole):
    """Where it ran last: a rank that was moved is looked for where it is now."""
    (node,) = {node for finding in whole for node in finding.nodes}
    assert node == "node-1"
    moved = [
        replace(event, node="spare") if at > 8 and listed(event.speakers.ranks) == [2, 3] else event
        for at, event in enumerate(slow)
    ]
    moved = placed(
        moved, devices=["GPU-0", "GPU-1", "GPU-2", "GPU-3"], pp=[0, 0, 1, 1], dp=[0, 1, 0, 1], tp=[0, 0, 0, 0]
    )
    findings = judged(moved)
    assert {(*finding.nodes, *finding.devices, finding.stage) for finding in findings} == {("spare", "GPU-2", 1)}


@pytest.mark.long
def test_the_first_steps_say_nothing(job):
    """They allocate and connect; a recording that begins in the middle of a run has none of them."""
    ill = list(job(fault=SLOW, when=lambda step: True).batches())
    assert judged(ill)[0].first_step == 5
    assert judged(ill, JobDiagnosis(JobConfig(warmup_steps=0)))[0].first_step == 0
    assert judged(ill, JobDiagnosis(JobConfig(warmup_steps=150))) == []


@pytest.mark.long
def test_time_before_the_forward_is_input_only_where_there_is_no_loader(job):
    """A loader that was seen once is remembered, also over a restart, and if nothing was judged meanwhile."""
    events = list(job(fault={2: {"data": 0.05}}).batches())
    by_hand = []
    for event in events:
        data, *others = event.phases.items()
        by_hand.append(replace(event, phases={"prepare": data[1]} | dict(others)))
    assert told(judged(by_hand)) == {("straggler", "input_pipeline", (2,))}
    diagnosis = JobDiagnosis()
    judged(crowd(events[0], 1), diagnosis)
    again = JobDiagnosis.restore(diagnosis.snapshot())
    assert told(judged(by_hand, again)) == {("straggler", "worker_compute", (2,))}


@pytest.mark.long
def test_what_the_device_went_through_explains_the_slow_rank(slow):
    """Conditions come with the rows of their node."""
    hot = [heated(event) for event in slow]
    assert told(judged(hot)) == {("straggler", "throttling", (2,))}


@pytest.mark.long
def test_ranks_that_never_spoke_are_told_after_fifty_steps(job):
    """Also the steps that warm up count; of the other ranks nothing is said."""
    findings = judged(job(world=5, steps=200).batches())
    assert told(findings) == {("insufficient_data", "unknown", ())}
    assert findings[0].first_step < 52
    assert findings[0].coverage.notes == ["ranks that did not report: 1 of 5"]
    early = JobDiagnosis(JobConfig(silent_steps=20))
    assert judged(job(world=5, steps=200).batches(), early)[0].first_step < 22


@pytest.mark.long
def test_who_is_accused_explains_the_slowdown_of_the_job(job):
    """All ranks slow at once are a slowdown; one slow rank that holds up all is a straggler and nothing else."""
    all_slow = judged(
        job(steps=200, fault={rank: {"forward": 0.05} for rank in range(4)}, when=lambda s: s >= 100).batches()
    )
    assert told(all_slow) == {("slowdown", "unknown", ())}
    one_slow = judged(job(steps=200, fault={1: {"forward": 0.05}}, when=lambda step: step >= 100).batches())
    assert told(one_slow) == {("straggler", "worker_compute", (1,))}


def test_a_job_that_waits_for_its_input_is_told_as_a_whole(job):
    """Every rank alike: nobody is accused."""
    hungry = job(fault={rank: {"data": 0.08} for rank in range(4)}, when=lambda step: True)
    assert told(judged(hungry.batches())) == {("data_bound", "input_pipeline", ())}


def test_a_stage_that_is_longer_is_told_and_its_ranks_are_not(job):
    """Two stages of two ranks, of which the second computes half as long again from the start."""
    longer = job(fault={2: {"forward": 0.04}, 3: {"forward": 0.04}}, when=lambda step: True)
    stages = {"pp": [0, 0, 1, 1], "dp": [0, 1, 0, 1], "tp": [0, 0, 0, 0]}
    findings = judged(placed(longer.batches(), **stages))
    assert told(findings) == {("stage_imbalance", "pipeline_stage", ())}
    assert {finding.stage for finding in findings} == {1}


@pytest.mark.long
def test_batches_of_unequal_length_are_told_and_no_rank_is(job):
    """Each rank in turn has the longest sequences, in the forward as in the backward."""

    class Uneven(job):
        """Forward and backward of each step and rank take as much longer as its sequences are."""

        def seconds(self):
            out = super().seconds()
            out[:, 1:3] *= 1 + 0.4 * np.random.default_rng(5).random((self.steps, 1, self.ranks))
            own = out[:, :4].sum(axis=1)
            out[:, -1] = own.max(axis=1, keepdims=True) + 0.005
            out[:, -2] = out[:, -1] - own
            return out

    assert told(judged(Uneven(steps=200, noise=0.01).batches())) == {("data_imbalance", "sequence_length", ())}


# --- places in the pipelines -----------------------------------------------------------------------------------------


def pipelines(events):
    """The ranks of each pipeline that the diagnosis tells apart, and how many are of none."""
    diagnosis = JobDiagnosis()
    judged(events, diagnosis)
    numbers = diagnosis.phases.cohorts.pipeline
    return {frozenset(np.flatnonzero(numbers == one).tolist()) for one in set(numbers.tolist()) - {-1}}


@pytest.mark.parametrize("nodes", [1, 2, 4])
def test_a_pipeline_is_one_place_in_the_other_dimensions_whoever_tells_it(job, nodes):
    """Tensor-parallel ranks on one node or on several: each message knows only its own ranks."""
    events = list(job(nodes=nodes, steps=10).batches())
    assert pipelines(placed(events, dp=[0, 0, 1, 1], tp=[0, 1, 0, 1], pp=[0] * 4)) == {
        frozenset({0}),
        frozenset({1}),
        frozenset({2}),
        frozenset({3}),
    }
    assert pipelines(placed(events, dp=[0, 1, 0, 1], tp=[0] * 4, pp=[0, 0, 1, 1])) == {
        frozenset({0, 2}),
        frozenset({1, 3}),
    }


def test_tensor_parallel_ranks_that_do_not_tell_their_place_are_of_one_pipeline(job):
    """They are fed the same micro-batches; a rank that does not know its data-parallel place is of none."""
    events = list(job(steps=10).batches())
    assert pipelines(placed(events, dp=[0, 0, 1, -1], pp=[0] * 4)) == {frozenset({0, 1}), frozenset({2})}
    assert pipelines(placed(events, dp=[0, 0, 1, 1], tp=[-1, -1, -1, 0], pp=[0] * 4)) == {
        frozenset({0, 1}),
        frozenset({2, 3}),
    }
    assert pipelines(placed(events, pp=[0, 0, 1, 1])) == set()
    assert pipelines(events) == set()


@pytest.mark.slow
@pytest.mark.parametrize("most", [RANK_LIMIT, 2**53])
def test_a_place_that_no_rank_can_have_is_none(job, most):
    """It is as one that is not told, and the largest number that an event may carry stops no message."""
    events = placed(job(fault=SLOW).batches(), dp=[0, 0, 1, most], tp=[0, most, 0, 0], pp=[0] * 4)
    assert pipelines(events) == {frozenset({0, 1}), frozenset({2})}
    assert told(judged(events)) == {("straggler", "worker_compute", (2,))}


# --- thresholds and bounds -------------------------------------------------------------------------------------------


@pytest.mark.long
def test_thresholds_hold_from_then_on_and_what_is_known_stays(slow, whole):
    """A bar raised after the rank was accused takes nothing back; raised before, nothing is told."""
    assert [finding.state for finding in whole[:2]] == ["suspected", "confirmed"]
    diagnosis, found, last = JobDiagnosis(), [], 0
    while len(found) < 1:
        found += diagnosis.update(slow[last])
        last += 1
    assert len(found) == 1
    before = [*slow[:last], thresholds(recover_ticks=9.0), *slow[last:]]
    assert judged(before) == whole
    assert judged([thresholds(least_excess=5.0, least_slowdown=10.0), *slow]) == []


@pytest.mark.long
def test_thresholds_keep_what_is_known_of_collectives(collective_batches):
    """The late rank of a group is told on as the same episode."""
    calls = collective_batches(4, 120, {1: 0.04})
    whole = judged(calls)
    for cut in (5, 8):
        assert judged([*calls[:cut], thresholds(sigmas=3.0), *calls[cut:]]) == whole


@pytest.mark.long
def test_later_thresholds_replace_the_earlier_ones(slow, whole):
    """What they leave out goes back to its default; what is no threshold, or out of bounds, changes nothing."""
    strict = thresholds(least_excess=5.0, least_slowdown=10.0)
    for weaker in (thresholds(), thresholds(least_slowdown=10.0), thresholds(least_excess=-1.0, nonsense=3.0)):
        assert told(judged([strict, weaker, *slow])) == told(whole)


@pytest.mark.long
def test_thresholds_hold_after_a_restart(slow, whole):
    """They are part of the state; whoever restores it may say otherwise."""
    diagnosis = JobDiagnosis()
    diagnosis.update(thresholds(least_excess=5.0, least_slowdown=10.0))
    data = diagnosis.snapshot()
    assert judged(slow, JobDiagnosis.restore(data)) == []
    assert JobDiagnosis.restore(JobDiagnosis.restore(data).snapshot()).config == diagnosis.config
    assert told(judged(slow, JobDiagnosis.restore(data, JobConfig()))) == told(whole)


@pytest.mark.slow
@pytest.mark.parametrize("when", [0, 4])
def test_ranks_beyond_the_bound_are_in_no_verdict_of_either_line(slow, collective_batches, when):
    """Of phases and of collectives, from then on; thresholds that change do not lift it."""
    calls = collective_batches(4, 150, {1: 0.04})
    diagnosis = JobDiagnosis(JobConfig(silent_steps=60))
    judged([*slow[:when], *calls[:when]], diagnosis)
    diagnosis.bound_ranks(3)
    findings = judged([thresholds(), *slow[when:], *calls[when:]], diagnosis)
    left_out = "ranks left out (impossible rank: beyond 3 of one job): 1"
    assert {tuple(finding.ranks) for finding in findings if finding.kind == "straggler"} == {(1,), (2,)}
    assert all(left_out in finding.coverage.notes for finding in findings)
    assert diagnosis.config == dataclasses.replace(JobConfig(), most_ranks=3)


# --- state -----------------------------------------------------------------------------------------------------------


def many(events):
    """The events behind so many producers that a few must wait for each other."""
    return [*crowd(events[0]), *events]


@pytest.mark.slow
@pytest.mark.parametrize("line", ["phases", "collectives"])
def test_what_waits_is_judged_at_the_end_and_once(slow, collective_batches, line):
    """Cut off after any message: told and brought to light by the end is what the same messages say one by one."""
    events = slow if line == "phases" else collective_batches(4, 150, {1: 0.04})
    waiting, one_by_one = JobDiagnosis(), JobDiagnosis()
    found, expected = judged(crowd(events[0]), waiting), []
    at_the_end = 0
    for cut, event in enumerate(events, start=1):
        found += waiting.update(event)
        expected += one_by_one.update(event)
        if 12 <= cut < len(events):
            diagnosis = copy.deepcopy(waiting)
            rest = diagnosis.finish()
            assert diagnosis.finish() == []
            assert told(found + rest) == told(expected)
            at_the_end += len(rest)
    assert at_the_end


@pytest.mark.slow
@pytest.mark.parametrize("every", [1, 7])
def test_restored_it_goes_on_as_if_nothing_had_happened(slow, collective_batches, every):
    """Phases, collectives and thresholds, stored while messages wait; what is said at the end, too."""
    calls = collective_batches(4, 120, {1: 0.04})
    events = [event for row in zip(slow[::2], slow[1::2], calls, strict=True) for event in row]
    events = [*crowd(slow[0]), *crowd(calls[0]), *events[:20], thresholds(least_excess=0.06), *events[20:]]
    whole, diagnosis, found = JobDiagnosis(), JobDiagnosis(), []
    expected = judged(events, whole) + whole.finish()
    for number, event in enumerate(events):
        found += diagnosis.update(event)
        if number % every == 0:
            diagnosis = JobDiagnosis.restore(diagnosis.snapshot())
    assert found + diagnosis.finish() == expected
    assert {tuple(finding.ranks) for finding in found} >= {(1,), (2,)}


def test_that_a_job_reads_through_a_loader_is_kept_once():
    """Of a fact with two homes, a state could say both."""
    assert str(unpack(LAYOUT, JobDiagnosis().snapshot())).count("has_loader") == 1


@pytest.mark.slow
def test_every_part_of_the_state_is_read_back(job, collective_batches, make_facts):
    """Of a job with stages, conditions, facts, open steps and a missing rank: stored again, the same to a byte."""
    events = list(job(nodes=2, fault=SLOW, world=5, steps=200).batches())
    events = placed(events, pp=[0, 0, 1, 1], dp=[0, 1, 0, 1], tp=[0, 0, 0, 0])
    events = [heated(event) for event in events]
    diagnosis, empty = JobDiagnosis(), unpack(LAYOUT, JobDiagnosis().snapshot())
    calls = collective_batches(4, 120, {1: 0.04})
    judged([*events[:-1], *calls[:-1], *crowd(events[0], 26), *crowd(calls[0], 26), events[-1], calls[-1]], diagnosis)
    judged([replace(event, producer=f"told-{event.producer}") for event in make_facts(seconds=6, odd=5)], diagnosis)
    data = diagnosis.snapshot()
    state = unpack(LAYOUT, data)
    state, empty = state["diagnosis"] | {"ingest": state["ingest"]}, empty["diagnosis"] | {"ingest": empty["ingest"]}
    lines = ("phases", "collectives", "ingest")
    blank = {name for line in lines for name in empty[line] if alike(state, empty, line, name)}
    assert blank <= {"deaths", "links", "hang", "left_out", "collectives_coverage"}
    assert JobDiagnosis.restore(data).snapshot() == data


def alike(state, empty, line, name):
    """Whether a part of the state says nothing."""
    return pack(0, {"part": state[line][name]}) == pack(0, {"part": empty[line][name]})


@pytest.mark.parametrize("layout", [0, LAYOUT - 1, LAYOUT + 1, None, str(LAYOUT)])
def test_the_state_of_another_version_is_refused(layout):
    """Older, newer, none, or a word: by its layout, before anything of it is read."""
    state = unpack(LAYOUT, JobDiagnosis().snapshot())
    del state["layout"]
    with pytest.raises(ValueError, match=f"layout {layout!r}, this version reads {LAYOUT}"):
        JobDiagnosis.restore(pack(layout, state))


@pytest.mark.long
def test_a_state_of_nothing_is_nothing(slow, whole):
    """Restored before the first event, it judges as a new one does."""
    again = JobDiagnosis.restore(JobDiagnosis().snapshot())
    assert judged(slow, again) == whole


@pytest.mark.slow
@pytest.mark.parametrize("slow", [{2: SLOW[2]}, dict.fromkeys(range(8, 16), SLOW[2])])
def test_at_the_end_of_a_job_its_straggler_is_told_with_its_last_step_and_whole_cost(job, slow):
    """Of a rank as of a node, once; what has not gone on since it was told is not told again."""
    diagnosis = JobDiagnosis()
    before = judged(job(ranks=32, nodes=4, fault=slow, steps=200).batches(), diagnosis)[-1]
    (after,) = diagnosis.conclude()
    assert (after.id, after.revision, after.state) == (before.id, before.revision + 1, "confirmed")
    assert before.last_step < 198 <= after.last_step
    assert after.cost.lost_s > before.cost.lost_s
    assert diagnosis.conclude() == []


def goodbyes(batches):
    """The last messages of nodes, without any step: their ranks have left."""
    last = {event.node: event for event in batches if isinstance(event, StepTimings)}
    return [
        StepTimings(
            cluster=event.cluster,
            producer=event.producer,
            sequence=event.sequence + 1,
            job=event.job,
            attempt=event.attempt,
            node=event.node,
            t0_s=event.t0_s,
            speakers=speakers([]),
            rank=columns.whole([]),
            step=columns.whole([]),
            start_s=columns.offsets([]),
            step_s=columns.durations([]),
            phases={},
            ended=True,
        )
        for event in last.values()
    ]


@pytest.mark.long
def test_once_all_nodes_have_left_the_whole_cost_is_reported_without_an_end_of_events(job):
    """A worker never knows that nothing follows: goodbyes say so. One node's is not enough, and none says it twice."""
    batches = list(job(ranks=32, nodes=4, fault={2: SLOW[2]}, steps=200).batches())
    diagnosis, recorded = JobDiagnosis(), JobDiagnosis()
    judged(batches, recorded)
    before = judged(batches, diagnosis)[-1]
    first, *others = goodbyes(batches)
    assert judged([first], diagnosis) + diagnosis.finish() == []
    assert judged(others, diagnosis) == []
    diagnosis = JobDiagnosis.restore(diagnosis.snapshot())
    (after,) = diagnosis.finish()
    assert (after.id, after.revision, after.state) == (before.id, before.revision + 1, "confirmed")
    assert (after.last_step, after.cost.lost_s) > (before.last_step, before.cost.lost_s)
    (at_the_end,) = recorded.conclude()
    assert (after.last_step, after.cost.lost_s, after.summary) == (
        at_the_end.last_step,
        at_the_end.cost.lost_s,
        at_the_end.summary,
    )
    assert diagnosis.finish() == diagnosis.conclude() == []


@pytest.mark.long
def test_what_is_over_or_only_suspected_is_not_told_at_the_end(job):
    """The one was told to be over; the other may be noise."""
    for when in (lambda step: 60 <= step < 100, lambda step: step >= 192):
        diagnosis = JobDiagnosis()
        judged(job(fault=SLOW, when=when, steps=200).batches(), diagnosis)
        assert diagnosis.conclude() == []
