"""A fleet is one stream in the order of time, the same for the same seed, and true to its description."""

import itertools
from collections import Counter, defaultdict

import pytest

from paceline import columns, topics, wire
from paceline.events import DeviceSamples, StepTimings
from paceline.timed_event import TimedEvent
from simulator.fleet import Fleet, Source, merged
from simulator.fleet_file import read

#: Two jobs one after the other on the same GPUs, and one beside them.
SMALL = """
duration: 60s
nodes: [{name: a, count: 2, gpus: 4}]
jobs:
  - {name: first, nodes: ["a-[0000-0001]"], gpus: [0, 1], end: 30s}
  - {name: second, nodes: ["a-[0000-0001]"], gpus: [0, 1], start: 30s}
  - {name: beside, nodes: [a-0000], gpus: [2, 3], step: 1s}
"""
DAY = "day: [" + ", ".join("0.8" if 8 <= hour < 18 else "0" for hour in range(24)) + "]"


def run(text, **options):
    fleet = Fleet(read(text, **options))
    return fleet, list(fleet.messages())


def lines(messages):
    return [(message.timestamp_ms, message.topic.name, wire.encode(message.event)) for message in messages]


def of(messages, topic):
    return [message for message in messages if message.topic is topic]


@pytest.mark.long
def test_messages_are_sound_and_in_the_order_of_time():
    """Every message decodes as its topic's event, none is before the one before it, and producers count from 0."""
    fleet, messages = run(SMALL)
    times = [message.time_s for message in messages]
    assert times == sorted(times)
    assert fleet.begin_s <= times[0]
    assert times[-1] < fleet.end_s
    numbers = defaultdict(list)
    for message in messages:
        event = wire.decode(message.topic, wire.encode(message.event))
        numbers[event.producer, message.topic.name].append(event.sequence)
    assert all(found == list(range(len(found))) for found in numbers.values())


@pytest.mark.long
def test_same_seed_same_bytes():
    """Two runs of one description give equal messages; another seed gives others, of the same jobs."""
    first, other = run(SMALL)[1], run(SMALL, seed=1)[1]
    assert lines(first) == lines(run(SMALL)[1])
    assert lines(first) != lines(other)
    assert {m.event.job for m in of(first, topics.OP)} == {m.event.job for m in of(other, topics.OP)}


@pytest.mark.long
def test_a_job_is_the_same_whoever_runs_beside_it():
    """What one job says does not change where another is left out."""
    alone = "\n".join(line for line in SMALL.splitlines() if "second" not in line)
    both = [[m for m in run(text)[1] if getattr(m.event, "job", "") == "beside"] for text in (SMALL, alone)]
    assert both[0] == both[1]


@pytest.mark.long
def test_jobs_keep_to_their_time_and_their_gpus():
    """No step ends after its job; who has a GPU stands in its node's samples, each job in its own time."""
    fleet, messages = run(SMALL.replace("60s", "2m").replace("30s", "1m"))
    truths = {job.job: job for job in fleet.truth().jobs}
    assert truths["first"].elapsed_s <= 60
    assert 100 < truths["first"].steps < 120
    ended = {m.event.job: m.event.ended_s for m in of(messages, topics.JOB) if m.event.ended_s is not None}
    assert set(ended) == {"first"}
    for message in of(messages, topics.DEVICE):
        who = {(one.device, one.job) for one in message.event.processes}
        turn = "first" if message.time_s < fleet.begin_s + 60 else "second"
        beside = {(2, "beside"), (3, "beside")} if message.event.node == "a-0000" else set()
        assert who == {(0, turn), (1, turn)} | beside


@pytest.mark.long
def test_the_job_that_the_fleet_outlives_says_so_and_the_other_is_cut():
    """A job with an end tells it; one without runs on when the recording ends."""
    _, messages = run(SMALL)
    steps = {m.event.job: max(columns.numbers(m.event.step), default=0) for m in of(messages, topics.OP)}
    assert steps["second"] > 40
    assert not [m for m in of(messages, topics.JOB) if m.event.job == "second" and m.event.ended_s is not None]


@pytest.mark.long
def test_a_silence_loses_exactly_what_the_truth_counts():
    """Over a job's end: nothing of the node arrives, numbers have a gap as long as the truth says, all else arrives."""
    silence = "silences: [{node: a-0001, from: 20s, to: 40s}]"
    fleet, messages = run(SMALL + silence)
    _, whole = run(SMALL)
    (truth,) = fleet.truth().silences
    gone = [m for m in whole if m.event.node == "a-0001" and truth.began_s <= m.time_s < truth.ended_s]
    assert truth.messages_lost == Counter(m.topic.short for m in gone)
    assert truth.messages_lost["job"] == 2
    kept = [m for m in whole if m not in gone]
    assert lines(messages) == lines(kept)


@pytest.mark.long
def test_a_wrong_clock_shows_in_what_its_node_says_alone():
    """Times within the messages of that node are ahead; when they were sent is not."""
    _, messages = run(SMALL + "clocks: {a-0001: 30}")
    ahead = defaultdict(list)
    for message in messages:
        if isinstance(message.event, StepTimings | DeviceSamples):
            last_s = message.event.t0_s + max(message.event.time_s if message.topic is topics.DEVICE else [0.0])
            ahead[message.event.node].append(last_s - message.time_s)
    # The first step of the job of 1 s takes 6 s, and is told within a second of its end.
    assert -8 < min(ahead["a-0000"]) <= max(ahead["a-0000"]) < 0.1
    assert 22 < min(ahead["a-0001"]) <= max(ahead["a-0001"]) < 30.1


@pytest.mark.long
def test_a_fault_shows_on_its_gpu_and_host_while_it_lasts():
    """Throttle reasons, clocks and pressure are those of the fault, there and then."""
    faults = "    faults: [{kind: throttle, ranks: [2], from: 2m, to: 4m}, {kind: cpu, ranks: [3], from: 5m, to: 6m}]"
    text = "{duration: 8m, nodes: [{name: a, count: 2, gpus: 2}], sampling: {every: 1s, message: 10s}"
    fleet, messages = run(text + ", jobs: [{name: j, nodes: [a-0000, a-0001], step: 2s, " + faults.strip() + "}]}")
    throttled, pressed = set(), set()
    for message in messages:
        event = message.event
        if message.topic is topics.DEVICE:
            rows = zip(event.device, event.time_s, event.throttle_reasons, event.sm_clock_mhz, strict=True)
            for device, time_s, reasons, clock in rows:
                assert (reasons != 0) == (clock < 1600)
                if reasons:
                    throttled.add((event.node, device, int(event.t0_s + time_s - fleet.begin_s) // 60))
        elif message.topic is topics.HOST:
            for time_s, pressure in zip(event.time_s, event.pressure_cpu_ratio, strict=True):
                if pressure > 0.5:
                    pressed.add((event.node, int(event.t0_s + time_s - fleet.begin_s) // 60))
    assert throttled == {("a-0001", 0, 2), ("a-0001", 0, 3)}
    assert pressed == {("a-0001", 5)}


def test_days_of_samples_follow_the_hour_and_the_week():
    """A Saturday is as quiet as said; at night nothing runs; a week of two nodes is small."""
    text = (
        "{duration: 7d, sampling: {every: 10m, message: 1h}, nodes: [{name: n, gpus: 1, weekend: 0.25, " + DAY + "}]}"
    )
    _, messages = run(text)
    busy = defaultdict(list)
    for message in of(messages, topics.DEVICE):
        event = message.event
        for time_s, value in zip(event.time_s, event.utilization_ratio, strict=True):
            days, seconds = divmod(event.t0_s + time_s, 86_400)
            busy[int(days + 3) % 7 >= 5, int(seconds // 3600)].append(value)
    assert len(messages) == 1 + 2 * 7 * 24
    assert sum(busy[False, 12]) / len(busy[False, 12]) == pytest.approx(0.8, abs=0.05)
    assert sum(busy[True, 12]) / len(busy[True, 12]) == pytest.approx(0.2, abs=0.05)
    assert max(busy[False, 3]) == 0.0


@pytest.mark.slow
def test_what_is_held_does_not_grow_with_the_days():
    """The first messages of a year of a hundred nodes are there at once: nothing is made before it is asked for."""
    jobs = ", ".join(f"{{name: j{day}, nodes: [a-0000], start: {day}d, end: {day + 1}d}}" for day in range(300))
    fleet = Fleet(read("{duration: 365d, nodes: [{name: a, count: 100}], jobs: [" + jobs + "]}"))
    messages = fleet.messages()
    assert len(list(itertools.islice(messages, 500))) == 500
    messages.close()
    assert [job.job for job in fleet.truth().jobs] == ["j0"]


def test_sources_start_when_they_are_due():
    """A source is not asked before its time has come, and equal times keep the sources' order."""
    started = []

    def source(name, *times):
        def messages():
            started.append(name)
            for time_s in times:
                yield TimedEvent(time_s, topics.OP, name)

        return Source(times[0], messages)

    stream = merged([source("late", 5.0, 6.0), source("early", 1.0, 5.0, 7.0), source("never", 9.0)])
    assert [next(stream).event for _ in range(2)] == ["early", "late"]
    assert started == ["early", "late"]
    assert [(message.time_s, message.event) for message in itertools.islice(stream, 3)] == [
        (5.0, "early"),
        (6.0, "late"),
        (7.0, "early"),
    ]
    stream.close()
    assert started == ["early", "late"]


def test_jobs_of_other_kinds_show_in_their_gpus_alone():
    """An idle job holds memory and does nothing; the truth says that its GPUs are idle."""
    text = "{duration: 20m, nodes: [{name: n, gpus: 2}], jobs: [{name: held, nodes: [n], kind: idle}]}"
    fleet, messages = run(text)
    assert {message.topic.short for message in messages} == {"node", "device", "host"}
    for message in of(messages, topics.DEVICE):
        assert max(message.event.utilization_ratio) == 0.0
        assert min(message.event.fb_used_bytes) > 2**34
    assert [(one.device, one.kind) for one in fleet.truth().devices] == [
        ("GPU-n-0", "idle_device"),
        ("GPU-n-1", "idle_device"),
    ]
    assert fleet.truth().jobs == []
