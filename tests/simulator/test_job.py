"""A simulated job is consistent in itself, the same for the same seed, and slowed by its faults as its truth says."""

from collections import defaultdict

import numpy as np
import pytest

from paceline import wire
from paceline.events import PHASES, CollectiveTimings, OpTimings
from simulator.fault import Fault, FaultError, parse
from simulator.job import Job
from simulator.spec import Noise, Spec, SpecError

SHAPES = [
    {"ranks": 12},
    {"ranks": 8, "microbatches": 4, "collectives": 5},
    {"ranks": 16, "fsdp": True, "collectives": 3},
    {"ranks": 16, "pp": 4, "microbatches": 6, "uneven": 0.3, "stage_skew": {3: 1.3}},
    {"ranks": 16, "pp": 2, "tp": 2, "fsdp": True},
    {"ranks": 1},
]


def run(**options):
    job = Job(Spec(**{"steps": 12, **options}))
    return job, list(job.messages())


def durations(messages):
    """Seconds by (rank, step) and op."""
    found = defaultdict(lambda: defaultdict(float))
    for message in messages:
        if isinstance(event := message.event, OpTimings):
            for rank, step, op, seconds in zip(event.rank, event.step, event.op, event.duration_s, strict=True):
                found[rank, step][event.ops[op]] += seconds
    return found


@pytest.mark.parametrize("shape", SHAPES, ids=str)
def test_phases_of_every_step_add_up_to_it(shape):
    """The disjoint phases of each rank's step sum to its step row, and every rank has every step."""
    job, messages = run(**shape, evaluate_every=5, checkpoint_every=4)
    found = durations(messages)
    assert len(found) == job.spec.ranks * 12
    for parts in found.values():
        assert sum(parts[name] for name in PHASES) == pytest.approx(parts["step"], abs=1e-4)
        assert parts["communication"] >= 0


@pytest.mark.parametrize("shape", SHAPES, ids=str)
def test_messages_are_sound_and_in_order(shape):
    """Every message decodes as its topic's event; times do not go back, and each producer counts from 0 on."""
    _, messages = run(**shape)
    numbers = defaultdict(list)
    for message in messages:
        event = wire.decode(message.topic, wire.encode(message.event))
        numbers[event.producer, message.topic.name].append(event.sequence)
    assert all(found == list(range(len(found))) for found in numbers.values())
    times = [message.time_s for message in messages]
    assert times == sorted(times)


def test_step_row_closes_the_step():
    """Within its message a rank's step row comes after all its other rows of that step."""
    _, messages = run(ranks=8, microbatches=3)
    for message in messages:
        if isinstance(event := message.event, OpTimings):
            closed = set()
            for rank, step, op in zip(event.rank, event.step, event.op, strict=True):
                assert (rank, step) not in closed
                if event.ops[op] == "step":
                    closed.add((rank, step))


def test_all_leave_a_collective_together():
    """Members of a collective leave it at one instant, to the accuracy of their nodes' clocks."""
    _, messages = run(ranks=16, fsdp=True, collectives=2)
    left = defaultdict(list)
    for message in messages:
        if isinstance(event := message.event, CollectiveTimings):
            for seq, start, duration in zip(event.seq, event.start_s, event.duration_s, strict=True):
                left[seq].append(event.t0_s + start + duration)
    assert {len(times) for times in left.values()} == {16}
    assert max(np.ptp(times) for times in left.values()) < 0.02


def test_same_seed_same_job():
    """Two runs of one spec give equal messages; another seed gives others."""
    assert run(ranks=4)[1] == run(ranks=4)[1]
    assert run(ranks=4)[1] != run(ranks=4, seed=1)[1]


def test_pipeline_neighbours_wait_for_each_other():
    """No stage's forward of a micro-batch begins before the stage before has finished it."""
    _, messages = run(ranks=4, pp=4, microbatches=5, noise=Noise().scaled(0.1))
    begins, ends = {}, {}
    for message in messages:
        if isinstance(event := message.event, OpTimings):
            for row in zip(
                event.rank, event.step, event.op, event.microbatch, event.start_s, event.duration_s, strict=True
            ):
                rank, step, op, microbatch, start, duration = row
                if event.ops[op] == "forward":
                    begins[rank, step, microbatch] = event.t0_s + start
                    ends[rank, step, microbatch] = event.t0_s + start + duration
    assert len(begins) == 4 * 12 * 5
    assert all(begins[r, s, m] >= ends[r - 1, s, m] - 0.02 for r, s, m in begins if r)


@pytest.mark.parametrize(
    ("kind", "op"),
    [("compute", "forward"), ("input", "data"), ("gc", "gc"), ("cpu", "cpu_wait"), ("memory", "backward")],
)
def test_fault_shows_in_its_op_and_slows_the_job(kind, op):
    """A fault of 50 % lengthens its rank's op, nobody else's, and costs about half the own work of each step."""
    fault = Fault(kind, (5,), 0.5, 10, 29)
    job, messages = run(ranks=8, steps=40, faults=(fault,))
    found = durations(messages)
    hit = np.median([found[5, step][op] for step in range(10, 30)])
    peers = np.median([found[rank, step][op] for rank in (0, 3, 7) for step in range(10, 30)])
    before = np.median([found[5, step][op] for step in range(3, 10)])
    assert hit > 1.4 * peers
    assert before < 1.2 * peers + 1e-3
    (truth,) = job.truth().faults
    assert truth.lost_s == pytest.approx(20 * 0.5 * job.spec.own_s, rel=0.2)


def test_slow_link_slows_all_and_shows_in_round_trips():
    """With a slow link every rank waits as long, and the one rank's round trips are the long ones."""
    job, messages = run(ranks=8, steps=30, faults=(Fault("link", (3,), 0.5, 5),))
    found = durations(messages)
    waits = [np.median([found[rank, step]["communication"] for step in range(6, 30)]) for rank in range(8)]
    assert min(waits) > 0.4 * job.spec.own_s
    last = [message.event for message in messages if isinstance(message.event, CollectiveTimings)][-1]
    slow = {link.rank for link in last.links if link.rtt_s > 0.005}
    assert slow == {2, 3}  # it, and the neighbour that sends to it


def test_throttling_shows_in_conditions():
    """A throttled rank reports its reason and a lower clock; the others report neither."""
    _, messages = run(ranks=4, faults=(parse("throttle:rank=1,size=0.5,reason=power"),))
    found = [reading for m in messages if isinstance(m.event, OpTimings) for reading in m.event.conditions]
    assert {reading.throttle_reasons for reading in found if reading.rank == 1} == {0x4}
    assert all(reading.sm_clock_mhz < 1400 for reading in found if reading.rank == 1)
    assert all(reading.throttle_reasons == 0 for reading in found if reading.rank != 1)


def test_hang_ends_steps_and_leaves_the_others_standing():
    """After a hang no step closes; all ranks but the missing one stand in an open collective."""
    _, messages = run(ranks=10, faults=(Fault("hang", (9,), first=6, seconds=5.0),))
    assert max(step for _, step in durations(messages)) == 5
    opened = {one.rank for m in messages if isinstance(m.event, CollectiveTimings) for one in m.event.open}
    assert opened == set(range(9))


def test_without_phases_there_are_no_steps():
    """Collectives alone carry no step, and every tenth step has one more."""
    _, messages = run(ranks=4, steps=30, phases=False, collectives=3)
    events = [message.event for message in messages if isinstance(message.event, CollectiveTimings)]
    assert not any(isinstance(message.event, OpTimings) for message in messages)
    assert {step for event in events for step in event.step} == {-1}
    seqs = sorted(seq for event in events for rank, seq in zip(event.rank, event.seq, strict=True) if rank == 0)
    assert seqs == list(range(30 * 3 + 3))


@pytest.mark.parametrize("text", ["melt:rank=1", "compute:rank=x", "gc:size=0", "gc:rank=1,from=9,to=3", "cpu:speed=1"])
def test_nonsense_faults_are_refused(text):
    """A fault that cannot be read is refused on one line that quotes it."""
    with pytest.raises(FaultError, match=text.split(":")[0]) as error:
        parse(text)
    assert "\n" not in str(error.value)


@pytest.mark.parametrize(
    "options", [{"ranks": 0}, {"ranks": 8, "pp": 3}, {"stage_skew": {4: 2.0}}, {"faults": (Fault("gc", (99,)),)}]
)
def test_impossible_jobs_are_refused(options):
    """A job whose parts do not fit together is refused."""
    with pytest.raises(SpecError):
        Spec(**options)
