"""A rank whose device waits for its host: named with that cause, its device and its peers cleared."""

import random
import re

import pytest
from msgspec.structs import replace

from importers.kineto_phases import StepRow
from importers.op_rows import ImportedJob
from importers.step_messages import step_messages
from paceline import columns
from paceline.events import Finding, StepTimings
from simulator.fault import Fault
from simulator.job import Job
from simulator.spec import Spec
from streams.processor import Processor
from streams.raw_columns import floats, whole

RANKS, STEPS, STEP_S = range(8), range(5, 85), 0.5
WORK = {"forward": 0.15, "backward": 0.2, "optimizer": 0.02}


def steps(rank, starved, dice):
    """Everybody computes alike; who waits for launches comes last into the collective, and the others wait there."""
    made = []
    for step in STEPS:
        phases = {name: value * dice.uniform(0.99, 1.01) for name, value in WORK.items()}
        phases["idle"] = dice.uniform(0.09, 0.11) if rank in starved else dice.uniform(0.001, 0.01)
        phases["communication"] = STEP_S - sum(phases.values())
        made.append(StepRow(step, 1.7e9 + step * STEP_S, STEP_S, phases, {}))
    return made


def found(starved):
    """The last word on each finding."""
    dice, processor, said = random.Random(4), Processor(), {}
    job = ImportedJob("job", list(RANKS), {}, {}, {})
    for message in step_messages({rank: steps(rank, starved, dice) for rank in RANKS}, [], {}, job):
        for _, answer in processor.update(message.topic, message.event):
            if isinstance(answer, Finding):
                said[answer.id] = answer
    return list(said.values())


@pytest.mark.long
def test_a_host_that_launches_too_late_is_the_cause():
    """Not the device: its computing is cleared by name."""
    (finding,) = found({6})
    assert (finding.kind, finding.state, finding.ranks, finding.cause) == ("straggler", "confirmed", [6], "host_bound")
    assert any("worker compute: 0%" in text for text in finding.exonerated)


@pytest.mark.long
def test_devices_that_all_wait_alike_accuse_nobody():
    """A job whose hosts all are slow has no straggler."""
    assert [finding for finding in found(set(RANKS)) if finding.ranks] == []


def simulated(*faults, steps=100, change=None):
    """What is found in a made-up job of eight ranks; ``change`` is made to every message of steps."""
    processor, said = Processor(), {}
    for message in Job(Spec(ranks=8, steps=steps, step_s=0.25, faults=faults)).messages():
        event = message.event
        if change is not None and isinstance(event, StepTimings) and "host_bound" in event.phases:
            event = replace(event, phases=event.phases | {"host_bound": change(event)})
        for _, answer in processor.update(message.topic, event):
            if isinstance(answer, Finding):
                said.setdefault(answer.id, []).append(answer)
    return list(said.values())


def waits_in(share):
    """Every rank's device waits for its host in so much of each step, whatever the rank."""

    def column(event):
        return columns.durations([share * step_s for step_s in floats([event.step_s]).tolist()])

    return column


@pytest.mark.slow
def test_a_live_rank_whose_device_waits_is_named_with_its_number():
    """The device clock tells it: the same cause as a trace's idle time, with the share beside the peers'."""
    ((*_, finding),) = simulated(Fault("host", (5,), 0.3, 60))
    assert (finding.kind, finding.state, finding.ranks, finding.cause) == ("straggler", "confirmed", [5], "host_bound")
    assert "worker compute: in 100% of the extra time the device had nothing to do" in finding.exonerated
    (number,) = [number for number in finding.evidence if number.name == "host_bound"]
    assert number.value > 0.95
    assert number.peers < 0.05
    assert "Python between the launches" in finding.summary


@pytest.mark.slow
def test_it_says_what_the_host_did_where_that_is_told():
    """A quarter of the excess is garbage collection: not the cause, but worth a word."""
    ((*_, finding),) = simulated(Fault("host", (5,), 0.3, 60), Fault("gc", (5,), 0.1, 60))
    assert finding.cause == "host_bound"
    assert re.search(r"\(garbage collection \+\d+", finding.summary)


@pytest.mark.long
def test_a_slow_device_beside_hosts_that_wait_for_theirs_is_its_own_computing():
    """What all devices wait for alike explains no rank's excess."""
    ((*_, finding),) = simulated(Fault("compute", (5,), 0.3, 60), Fault("host", (2,), 0.001), change=waits_in(0.4))
    assert (finding.ranks, finding.cause) == ([5], "worker_compute")
    assert any(text.startswith("host bound: ") for text in finding.exonerated)


@pytest.mark.slow
def test_other_causes_stay_what_they_are():
    """A loader, a collector and a neighbour that keep the host are named, and the device is cleared."""
    for kind, cause in (("input", "input_pipeline"), ("gc", "garbage_collection"), ("cpu", "cpu_contention")):
        ((*_, finding),) = simulated(Fault(kind, (5,), 0.5, 60), Fault("host", (2,), 0.001), change=starved_rank)
        assert (finding.ranks, finding.cause) == ([5], cause)
        assert any("the device had nothing to do" in text for text in finding.exonerated)


def starved_rank(event):
    """Only the device of rank 5 waits, all the time."""
    pairs = zip(whole([event.rank]).tolist(), floats([event.step_s]).tolist(), strict=True)
    return columns.durations([step_s if rank == 5 else 0.0 for rank, step_s in pairs])


@pytest.mark.slow
def test_a_memory_shortage_explains_a_slow_host():
    """Swapping is known of the node; that the device waits meanwhile is no better word for it."""
    ((*_, finding),) = simulated(Fault("memory", (5,), 0.5, 60), Fault("host", (2,), 0.001), change=starved_rank)
    assert finding.cause == "memory_pressure"


@pytest.mark.slow
def test_a_rank_at_the_edge_is_not_told_anew_with_every_look():
    """Its share goes up and down around the bar: the cause that was named stays."""
    dice = random.Random(7)

    def column(event):
        pairs = zip(whole([event.rank]).tolist(), floats([event.step_s]).tolist(), strict=True)
        share = dice.uniform(0.1, 0.4)  # of the step; the excess is a fifth of it
        return columns.durations([share * step_s if rank == 5 else 0.0 for rank, step_s in pairs])

    (told,) = simulated(Fault("compute", (5,), 0.3, 60), Fault("host", (2,), 0.001), steps=240, change=column)
    assert len({finding.cause for finding in told if finding.state == "confirmed"}) == 1


@pytest.mark.slow
def test_a_healthy_job_that_tells_of_its_devices_accuses_nobody():
    """Neither where no device waits, nor where all do."""
    for share in (0.0, 0.9):
        assert simulated(Fault("host", (2,), 0.001), change=waits_in(share)) == []


@pytest.mark.slow
def test_numbers_that_cannot_be_change_no_verdict():
    """A rank's socket may say anything."""
    for value in (float("nan"), float("inf"), -1e9, 1e300):

        def column(event, value=value):
            return columns.durations([value] * len(floats([event.step_s])))

        found = simulated(Fault("compute", (5,), 0.3, 60), Fault("host", (2,), 0.001), change=column)
        assert [told[-1].cause for told in found if told[-1].ranks] == ["worker_compute"]


@pytest.mark.slow
def test_hosts_that_all_turn_slow_slow_the_job_and_no_rank():
    """A slowdown of the whole job in which the devices wait: its cause is told, and nobody is accused."""
    ((*_, finding),) = simulated(Fault("host", tuple(RANKS), 0.5, 80), steps=240)
    assert (finding.kind, finding.ranks, finding.cause) == ("slowdown", [], "host_bound")
    assert [number.name for number in finding.evidence] == ["pace", "grown_backward", "grown_host_bound"]


@pytest.mark.slow
def test_devices_that_all_turn_slow_are_no_host_s_doing():
    """Their hosts wait for them as much as before."""
    faults = Fault("compute", tuple(RANKS), 0.5, 80), Fault("host", (2,), 0.001)
    ((*_, finding),) = simulated(*faults, steps=240, change=waits_in(0.1))
    assert (finding.kind, finding.ranks, finding.cause) == ("slowdown", [], "unknown")
