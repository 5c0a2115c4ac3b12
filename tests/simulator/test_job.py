"""A simulated job is consistent in itself, the same for the same seed, and slowed by its faults as its truth says."""

from collections import defaultdict

import numpy as np
import pytest

from paceline import wire
from paceline.events import PHASES, CollectiveCalls, StepTimings
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


def numbers(column):
    return np.frombuffer(column.data, "<" + column.type)


def of(messages, kind):
    return [message.event for message in messages if isinstance(message.event, kind)]


def durations(messages):
    """Seconds by (rank, step) and phase; ``step`` is the whole step."""
    found = defaultdict(lambda: defaultdict(float))
    for event in of(messages, StepTimings):
        columns = {"step": event.step_s} | event.phases
        for name, column in columns.items():
            for rank, step, seconds in zip(*map(numbers, (event.rank, event.step, column)), strict=True):
                assert name not in found[rank, step]
                if not np.isnan(seconds):
                    found[rank, step][name] = seconds
    return found


def summed(messages):
    """Rows of sums, each as a dict with its words, and its message's number."""
    columns = ("step", "group", "operation", "count", "members", "bytes", "wait_s", "duration_s")
    for number, event in enumerate(of(messages, StepTimings)):
        if (sums := event.collectives) is not None:
            for row in zip(*(numbers(getattr(sums, name)).tolist() for name in columns), strict=True):
                found = dict(zip(columns, row, strict=True))
                words = {"group": sums.groups[found["group"]], "operation": sums.operations[found["operation"]]}
                yield {**found, **words, "node": event.node, "message": number}


@pytest.mark.parametrize("shape", SHAPES, ids=str)
def test_phases_of_every_step_add_up_to_it(shape):
    """The disjoint phases of each rank's step sum to its step row, and every rank has every step."""
    job, messages = run(**shape, evaluate_every=5, checkpoint_every=4)
    found = durations(messages)
    assert len(found) == job.spec.ranks * 12
    for parts in found.values():
        assert sum(parts[name] for name in PHASES) == pytest.approx(parts["step"], abs=1e-4)
        assert parts["communication"] >= 0


def test_phases_that_no_row_has_are_left_out():
    """A column stands for a phase that some rank went through; where another did not, it has NaN there."""
    _, messages = run(ranks=4, checkpoint_every=4)
    told = [event for event in of(messages, StepTimings) if event.rank.data]
    with_it = [event for event in told if "checkpoint" in event.phases]
    assert 0 < len(with_it) < len(told)
    assert not any("evaluation" in event.phases for event in told)
    for event in with_it:
        written = ~np.isnan(numbers(event.phases["checkpoint"]))
        assert set(numbers(event.rank)[written]) == {0}


def test_micro_batches_add_up_to_their_phases():
    """A step of several micro-batches tells each one's forward and backward; one of a single one tells none."""
    _, messages = run(ranks=4, microbatches=3)
    found, rows = durations(messages), defaultdict(list)
    for event in of(messages, StepTimings):
        if (told := event.microbatches) is not None:
            columns = (told.rank, told.step, told.microbatch, told.forward_s, told.backward_s)
            for rank, step, *row in zip(*map(numbers, columns), strict=True):
                rows[rank, step].append(row)
    assert set(rows) == set(found)
    for cell, told in rows.items():
        index, forward, backward = zip(*told, strict=True)
        assert index == (0, 1, 2)
        assert sum(forward) == pytest.approx(found[cell]["forward"], rel=1e-5)
        assert sum(backward) == pytest.approx(found[cell]["backward"], rel=1e-5)
    assert all(event.microbatches is None for event in of(run(ranks=4)[1], StepTimings))


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


@pytest.mark.parametrize("shape", SHAPES[1:5], ids=str)
def test_every_collective_is_in_the_sums_once(shape):
    """Each node tells each step once and whole: as many collectives and bytes in every step, by all of its ranks."""
    job, messages = run(**shape)
    per_step = defaultdict(lambda: defaultdict(int))
    for row in summed(messages):
        cell = per_step[row["node"], row["step"]]
        cell["count"] += row["count"]
        cell["bytes"] += row["bytes"]
        (node,) = (node for node in job.node_messages.nodes if node.name == row["node"])
        in_group = sum(any(one.group == row["group"] for one in collectives) for collectives in node.collectives)
        assert row["members"] == in_group
        assert 0 <= row["wait_s"] <= row["duration_s"] + 1e-6
    nodes = job.node_messages.nodes
    assert set(per_step) == {(node.name, step) for node in nodes for step in range(12)}
    for node in nodes:
        met = {(one.group, one.index): one for collectives in node.collectives for one in collectives}
        expected = {"count": len(met), "bytes": sum(one.bytes for one in met.values())}
        assert all(per_step[node.name, step] == expected for step in range(12))


def test_sums_have_the_least_wait_of_each_collective():
    """Of a node whose ranks stand in every collective together, the sums of a step are the waits of its last rank."""
    _, messages = run(ranks=8, fsdp=True, collectives=3)
    found, waits = durations(messages), defaultdict(float)
    for row in summed(messages):
        waits[row["step"]] += row["wait_s"]
    for step in range(12):
        everyone = [found[rank, step]["communication"] for rank in range(8)]
        assert 0 < waits[step] <= min(everyone) + 1e-5


def test_one_rank_that_is_always_last_leaves_no_wait():
    """Where one rank comes last into every collective, each one's least wait is no more than its transfer."""
    slow = Fault("compute", (3,), 2.0, 0, 11)
    _, messages = run(ranks=8, collectives=1, faults=(slow,), noise=Noise().scaled(0.1))
    found = durations(messages)
    for row in summed(messages):
        assert row["wait_s"] == pytest.approx(found[3, row["step"]]["communication"], abs=1e-5)


def test_sums_come_when_a_later_step_is_closed():
    """A message has sums of no step that is not before one which all the node's ranks have closed; the end has all."""
    _, messages = run(ranks=12, steps=30)
    closed = defaultdict(lambda: defaultdict(lambda: -1))
    by_message = defaultdict(set)
    for row in summed(messages):
        by_message[row["message"]].add(row["step"])
    told = of(messages, StepTimings)
    for number, event in enumerate(told):
        for rank, step in zip(numbers(event.rank), numbers(event.step), strict=True):
            closed[event.node][rank] = max(closed[event.node][rank], step)
        if event.rank.data:
            assert max(by_message[number], default=-1) < min(closed[event.node].values())
        else:
            assert by_message[number] == {29}


@pytest.mark.parametrize("shape", SHAPES[2:4], ids=str)
def test_sums_say_how_far_ranks_have_come(shape):
    """The last number that each rank reached in a group is its last step's last there; spans are those of its steps."""
    job, messages = run(**shape)
    reached = {}
    for event in of(messages, StepTimings):
        if (sums := event.collectives) is None:
            continue
        columns = (sums.reached_rank, sums.reached_group, sums.reached_seq)
        reached |= {(rank, sums.groups[group]): seq for rank, group, seq in zip(*map(numbers, columns), strict=True)}
        first, last, waited = map(numbers, (sums.span_first_s, sums.span_last_s, sums.span_waited_s))
        assert set(numbers(sums.span_rank)) == set(numbers(event.rank))
        assert (first < last).all()
        assert (waited >= 0).all()
        assert sums.longest_wait_s >= 0
    expected = {}
    for node in job.node_messages.nodes:
        for rank, collectives in zip(node.ranks, node.collectives, strict=True):
            expected |= {(rank, one.group): one.sequence(11, extra=False) for one in collectives}
    assert reached == expected


def test_all_leave_a_collective_together():
    """Members of a collective leave it at one instant, to the accuracy of their nodes' clocks."""
    _, messages = run(ranks=16, phases=False, collectives=2)
    left = defaultdict(list)
    for event in of(messages, CollectiveCalls):
        for seq, start, duration in zip(*map(numbers, (event.seq, event.start_s, event.duration_s)), strict=True):
            left[seq].append(event.t0_s + float(start) + float(duration))
    assert {len(times) for times in left.values()} == {16}
    assert max(np.ptp(times) for times in left.values()) < 0.02


def test_same_seed_same_job():
    """Two runs of one spec give equal messages; another seed gives others."""
    assert run(ranks=4)[1] == run(ranks=4)[1]
    assert run(ranks=4)[1] != run(ranks=4, seed=1)[1]


def test_pipeline_stages_wait_for_each_other():
    """In a step of P stages and M micro-batches each stage works through M of them, and stands for another P - 1."""
    job, messages = run(ranks=4, pp=4, microbatches=5, noise=Noise().scaled(0.1))
    for parts in durations(messages).values():
        batch = (parts["forward"] + parts["backward"]) / 5
        assert parts["communication"] - job.spec.transfer_s == pytest.approx(3 * batch, rel=0.1)


@pytest.mark.parametrize(
    ("kind", "op"),
    [
        ("compute", "forward"),
        ("input", "data"),
        ("gc", "gc"),
        ("cpu", "cpu_wait"),
        ("memory", "backward"),
        ("host", "host_bound"),
    ],
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
    links = [event.links for event in of(messages, StepTimings) if event.links is not None]
    slow = {rank for rank, rtt_s in zip(*map(numbers, (links[-1].rank, links[-1].rtt_s)), strict=True) if rtt_s > 0.005}
    assert slow == {2, 3}  # it, and the neighbour that sends to it


@pytest.mark.parametrize("phases", [True, False])
def test_both_ends_of_a_connection_name_it_alike(phases):
    """What is one rank's local end is its neighbour's remote end, whichever node either is on."""
    _, messages = run(ranks=16, phases=phases)
    ends = defaultdict(set)
    for event in of(messages, StepTimings):
        if (links := event.links) is not None:
            ranks = numbers(links.rank)[numbers(links.of)]
            for rank, local, remote in zip(ranks, numbers(links.local), numbers(links.remote), strict=True):
                ends[frozenset([local, remote])].add(rank)
    assert len(ends) == 16
    assert all(len(pair) == 2 for pair in ends.values())


def test_throttling_shows_in_conditions():
    """A throttled rank reports its reason and a lower clock; the others report neither."""
    _, messages = run(ranks=4, faults=(parse("throttle:rank=1,size=0.5,reason=power"),))
    found = defaultdict(set)
    for event in of(messages, StepTimings):
        if (told := event.conditions) is not None:
            columns = (told.rank, told.values["throttle_reasons"], told.values["sm_clock_mhz"])
            for rank, reasons, clock in zip(*map(numbers, columns), strict=True):
                found[rank].add((reasons, clock < 1400))
    assert found == {0: {(0, False)}, 1: {(0x4, True)}, 2: {(0, False)}, 3: {(0, False)}}


def test_hang_ends_steps_and_leaves_the_others_standing():
    """After a hang no step closes; all ranks but the missing one stand in an open collective."""
    _, messages = run(ranks=10, faults=(Fault("hang", (9,), first=6, seconds=5.0),))
    assert max(step for _, step in durations(messages)) == 5
    assert max(row["step"] for row in summed(messages)) == 5
    hanging = [event for event in of(messages, StepTimings) if event.now_s is not None]
    assert not any(event.rank.data for event in hanging)
    assert {one.rank for event in hanging for one in event.open} == set(range(9))
    last = {event.node: event for event in hanging}
    assert {one.rank for event in last.values() for one in event.open} == set(range(9))
    assert all(event.collectives is not None for event in last.values())


def test_without_phases_there_are_no_steps():
    """Collectives alone carry no step, are not summed, and every tenth step has one more; only links come beside."""
    _, messages = run(ranks=4, steps=30, phases=False, collectives=3)
    events = of(messages, CollectiveCalls)
    assert not any(event.summed for event in events)
    assert {step for event in events for step in numbers(event.step)} == {-1}
    seqs = sorted(seq for event in events for seq in numbers(event.seq)[numbers(event.rank) == 0])
    assert seqs == list(range(30 * 3 + 3))
    beside = of(messages, StepTimings)
    assert [event.ended for event in beside] == [False] * (len(beside) - 1) + [True]
    assert all(event.collectives is None and not event.rank.data for event in beside)
    assert all(event.links is not None for event in beside[:-1])
    assert len(beside) == len(events) + 1


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


def own_work(**options):
    """Forward and backward by step and rank, without noise."""
    _, messages = run(ranks=4, noise=Noise().scaled(0.0), **options)
    found = durations(messages)
    return np.array(
        [[found[rank, step]["forward"] + found[rank, step]["backward"] for rank in range(4)] for step in range(12)]
    )


def test_a_trend_moves_all_ranks_and_a_skew_one():
    """Between its points a trend goes straight; before and after it stays. A rank may be slower for good."""
    usual = own_work()
    ratio = own_work(trend=((4, 1.0), (8, 2.0)), rank_skew={2: 1.03}) / usual
    trend = np.interp(range(12), (4, 8), (1.0, 2.0))
    assert np.allclose(ratio, trend[:, None] * [1.0, 1.0, 1.03, 1.0], rtol=0.02)


def test_early_exits_halve_some_steps_of_some_ranks():
    """Where the model of a rank ends halfway its step has half the work, and the other draws stay as they were."""
    ratio = own_work(early_exits=0.5) / own_work()
    assert set(np.round(ratio, 1).ravel().tolist()) == {0.5, 1.0}


@pytest.mark.parametrize(
    "wrong",
    [
        {"rank_skew": {8: 1.1}},
        {"rank_skew": {1: 0.0}},
        {"trend": ((5, 1.0), (5, 2.0))},
        {"trend": ((5, -1.0),)},
        {"early_exits": 1.5},
    ],
)
def test_a_life_that_cannot_be_is_refused(wrong):
    """Ranks that are not there, factors and shares out of range, and points out of order."""
    with pytest.raises(SpecError):
        Spec(**wrong)


def test_a_fault_on_a_node_or_switch_is_on_all_its_ranks():
    """The last node may have fewer, and the last switch fewer nodes."""
    shape = {"ranks": 20, "ranks_a_node": 4, "nodes_a_switch": 2}
    assert Spec(faults=(parse("compute:node=1"),), **shape).faults[0].ranks == (4, 5, 6, 7)
    assert Spec(faults=(parse("compute:switch=2"),), **shape).faults[0].ranks == (16, 17, 18, 19)
    assert Spec(faults=(parse("compute:node=0,rank=5"),), **shape).faults[0].ranks == (0, 1, 2, 3, 5)
    for text in ("compute:node=5", "compute:switch=3"):
        with pytest.raises(SpecError, match="nodes run from 0 to 4"):
            Spec(faults=(parse(text),), **shape)
    with pytest.raises(SpecError, match="say how many nodes"):
        Spec(ranks=16, faults=(parse("compute:switch=0"),))


def test_a_silent_node_tells_nothing_while_it_lasts_not_even_goodbye():
    """All train on, and nobody is any slower."""
    faults = (parse("silent:node=1,from=10,to=19"), parse("silent:node=2,from=10"))
    job, messages = run(ranks=12, ranks_a_node=4, steps=30, faults=faults)
    told = {name: [one.time_s for one in messages if one.event.node == f"node-000{name}"] for name in range(3)}
    ends = job.spec.began_s + job.left
    assert not [at for at in told[1] if ends[9] <= at < ends[19]]
    assert [at for at in told[1] if at >= ends[19]]
    assert max(told[2]) < ends[9] <= max(told[0])
    goodbyes = {event.node for event in of(messages, StepTimings) if event.ended}
    assert goodbyes == {"node-0000", "node-0001"}
    assert [(truth.kind, truth.lost_s) for truth in job.truth().faults] == [("node_silent", 0.0)] * 2
