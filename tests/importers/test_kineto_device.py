"""Where a device's time goes: by the steps and phases that launched its kernels, every moment once."""

import io
import json

import numpy as np
import pytest

from experiments.breakdown.traces import Made, document
from importers.kineto import read
from importers.notes import Notes
from paceline.events import PHASES

ASYNCHRONOUS = Made()
HOST_BOUND = Made(kernel_us=300, launch_us=1500)
AMD = Made(behind_us=200_000, rccl=True, steps=2)
ONE_STEP = Made(steps=1)
INFERENCE = Made(marks=False, training=False, annotation="execute_model")
NO_MARKS = Made(marks=False, training=False)
OLD = Made(before_2022=True, launch_us=700)
LOADING = Made(data_us=30_000)
EVERY = [ASYNCHRONOUS, HOST_BOUND, AMD, ONE_STEP, INFERENCE, NO_MARKS, OLD, LOADING]
NAMES = ["asynchronous", "host_bound", "amd", "one_step", "inference", "no_marks", "old", "loading"]
every = pytest.mark.parametrize("made", EVERY, ids=NAMES)


def imported(made_or_events, **about):
    """The trace of ``made``, or of these events, of rank 0."""
    if isinstance(made_or_events, Made):
        content = document(made_or_events)
    else:
        content = {"distributedInfo": {"backend": "nccl", "rank": 0, "world_size": 2}, "traceEvents": made_or_events}
    return read(io.BytesIO(json.dumps(content | about).encode()), "t.json", Notes(), alone=True)


def masks(made):
    """Microsecond by microsecond from the first kernel to the last: whether a kernel of each kind runs."""
    events = [event for event in document(made)["traceEvents"] if event["args"].get("stream") is not None]
    first = min(event["ts"] for event in events)
    length = max(event["ts"] + event["dur"] for event in events) - first
    kinds = {name: np.zeros(length, dtype=bool) for name in ("compute", "communication", "copy")}
    for event in events:
        name = event["name"]
        kind = "communication" if name.startswith("nccl") else "copy" if name.startswith("Mem") else "compute"
        kinds[kind][event["ts"] - first : event["ts"] + event["dur"] - first] = True
    return kinds


@every
def test_the_breakdown_is_what_counting_microseconds_gives(made):
    """Computation covers communication, which covers copies; the rest is idle; together they are the span."""
    told, count = imported(made).breakdowns[0], masks(made)
    compute, communication, copy = count["compute"], count["communication"], count["copy"]
    want = {
        "span_s": compute.size,
        "compute_s": compute.sum(),
        "exposed_communication_s": (communication & ~compute).sum(),
        "exposed_copy_s": (copy & ~communication & ~compute).sum(),
        "idle_s": (~(copy | communication | compute)).sum(),
    }
    assert {name: getattr(told, name) * 1e6 for name in want} == pytest.approx(want, abs=0.5)
    parts = told.compute_s + told.exposed_communication_s + told.exposed_copy_s + told.idle_s
    assert parts == pytest.approx(told.span_s)
    assert told.on_device


@every
def test_phases_are_disjoint_and_steps_make_up_the_whole(made):
    """A step's phases add up to it, none is negative, and all steps to the time from first kernel to last."""
    trace = imported(made)
    for row in trace.rows:
        assert set(row.phases) <= set(PHASES)
        assert min(row.phases.values()) >= 0
        assert sum(row.phases.values()) == pytest.approx(row.step_s)
    assert sum(row.step_s for row in trace.rows) == pytest.approx(trace.breakdowns[0].span_s)
    waiting = sum(row.phases["communication"] for row in trace.rows)
    assert waiting == pytest.approx(trace.breakdowns[0].exposed_communication_s)


@pytest.mark.parametrize("made", [ASYNCHRONOUS, AMD], ids=["asynchronous", "amd"])
def test_a_kernel_belongs_to_the_step_that_launched_it(made):
    """However far behind its host the device is: every step has its own kernels, and as long a step as they take."""
    events = document(made)["traceEvents"]
    marks = {e["name"]: (e["ts"], e["ts"] + e["dur"]) for e in events if e["name"].startswith("ProfilerStep")}
    launches = {e["args"]["correlation"]: e["ts"] for e in events if e["cat"] == "cuda_runtime"}
    gemms = [e for e in events if e["name"].startswith("gemm_") and "backward" not in e["name"]]
    elsewhere = 0
    trace = imported(made)
    for row in trace.rows:
        begin, end = marks[f"ProfilerStep#{row.step}"]
        mine = [e for e in gemms if begin <= launches[e["args"]["correlation"]] < end]
        assert row.phases["forward"] >= sum(e["dur"] for e in mine) / 1e6
        elsewhere += sum(e["dur"] for e in mine if not begin <= e["ts"] < end)
    assert elsewhere >= 0.29 * sum(e["dur"] for e in gemms)


def test_a_device_that_waits_for_its_host_is_idle():
    """Its kernels start at once and take as long as its peers'; what it lacks is work. A busy device's start late."""
    starved, busy = imported(Made(kernel_us=300, launch_us=900)), imported(Made(kernel_us=300, launch_us=150))
    assert starved.breakdowns[0].compute_s == pytest.approx(busy.breakdowns[0].compute_s, rel=0.05)
    assert starved.breakdowns[0].idle_s > 5 * busy.breakdowns[0].idle_s
    assert starved.breakdowns[0].launch_delay_s < 1e-4 < busy.breakdowns[0].launch_delay_s
    assert all(row.phases["idle"] > row.phases["forward"] for row in starved.rows)


def test_two_starved_ranks_of_eight_are_seen_in_one_step():
    """All compute as long; ranks 0 and 6 idle, and their kernels start at once."""
    launches = [900 if rank in (0, 6) else 150 for rank in range(8)]
    told = [
        imported(Made(rank=rank, world=8, steps=1, kernel_us=300, launch_us=us)) for rank, us in enumerate(launches)
    ]
    breakdowns = [trace.breakdowns[0] for trace in told]
    assert max(one.compute_s for one in breakdowns) < 1.15 * min(one.compute_s for one in breakdowns)
    idlest = sorted(breakdowns, key=lambda one: -one.idle_s)[:3]
    assert {one.rank for one in idlest[:2]} == {0, 6}
    assert idlest[1].idle_s > 3 * idlest[2].idle_s
    assert max(breakdowns[rank].launch_delay_s for rank in (0, 6)) < min(breakdowns[1].launch_delay_s, 1e-4)
    assert all(trace.rows[0].phases["idle"] == pytest.approx(trace.breakdowns[0].idle_s) for trace in told)


def test_idle_time_in_which_the_host_waits_for_data_is_data():
    """And only that: a loader beside which kernels run costs nothing."""
    loading, hidden = imported(LOADING), imported(ASYNCHRONOUS)
    assert all(row.phases["data"] > 0.005 for row in loading.rows[1:])
    assert all(row.phases.get("data", 0.0) == 0.0 for row in hidden.rows[1:])


def test_the_sizes_that_an_operator_tells_are_its_kernels():
    """``record_param_comms`` around the launch tells operation, group and size; RCCL's kernels tell them themselves."""
    for made, operation in ((ASYNCHRONOUS, "all_reduce"), (AMD, "all_reduce"), (Made(all_to_all=True), "all_to_all")):
        found = imported(made).collectives
        assert {(one.operation, one.group, one.size, one.bytes) for one in found} == {(operation, "0", 2, 2048)}


@pytest.mark.parametrize(
    ("made", "steps"), [(INFERENCE, [0, 1, 2]), (NO_MARKS, [0]), (Made(marks=False), [0, 1]), (ONE_STEP, [5])]
)
def test_steps_without_marks(made, steps):
    """Annotations that come again mark iterations, as optimizer steps do; else the whole trace is one."""
    assert [row.step for row in imported(made).rows] == steps


def kernel(start, length, correlation, name="gemm", cat="kernel", tid=7, **args):
    return {
        "ph": "X", "cat": cat, "name": name, "ts": start, "dur": length, "tid": tid, "pid": 0,
        "args": {"correlation": correlation, "stream": tid, **args},
    }  # fmt: skip


def on_host(name, start, length, tid=1, cat="cpu_op", **args):
    return {"ph": "X", "cat": cat, "name": name, "ts": start, "dur": length, "tid": tid, "pid": 1, "args": args}


def launch(start, correlation, tid=1):
    return on_host("cudaLaunchKernel", start, 2, tid, "cuda_runtime", correlation=correlation)


STEP = on_host("ProfilerStep#0", 0, 100, cat="user_annotation")
FORWARD = on_host("aten::linear", 0, 30)
OPTIMIZER = on_host("Optimizer.step#SGD.step", 60, 30, cat="user_annotation")


def milliseconds(events):
    """Phases of the only step, its microseconds as milliseconds."""
    (row,) = imported([STEP, *events]).rows
    return {name: value * 1e6 for name, value in row.phases.items() if value}


def test_overlapping_streams_count_once():
    """Of two kernels that run together the first has the time."""
    events = [FORWARD, OPTIMIZER, launch(10, 1), launch(70, 2), kernel(20, 40, 1), kernel(30, 50, 2, tid=8)]
    assert milliseconds(events) == pytest.approx({"forward": 40, "optimizer": 20})


@pytest.mark.parametrize(
    "name",
    [
        "ncclDevKernel_Generic(ncclDevComm*, channelMasks, ncclWork*)",
        "ncclDevKernel_Generic_4(ncclDevKernelArgsStorage<4096ul>)",
        "mscclKernel_Sum_half_Simple_false(ncclDevComm*, mscclAlgo*, mscclWork*)",
        "mscclKernel_Sum_uint8_t_LL_false(ncclDevComm*, mscclAlgo*, mscclWork*)",
        "rccl_main_kernel",
    ],
)
def test_kernels_of_rccl_are_communication(name):
    """Small messages go by MSCCL's kernels on AMD's GPUs: they are no computing."""
    events = [STEP, FORWARD, launch(1, 1), launch(5, 2), kernel(10, 20, 1), kernel(30, 40, 2, name)]
    told = imported(events).breakdowns[0]

    assert (told.compute_s, told.exposed_communication_s) == pytest.approx((20e-6, 40e-6))


def test_a_kernel_whose_launch_is_not_in_the_trace_follows_the_one_before_it():
    """Its own correlation is unknown, or 0 as many have it; before all others, it is of no step."""
    events = [FORWARD, launch(10, 1), kernel(5, 10, 77), kernel(20, 10, 1), kernel(30, 10, 0), kernel(40, 10, 0)]
    assert milliseconds(events) == pytest.approx({"forward": 30, "idle": 5})


def test_an_operator_that_a_kernel_names_stands_for_its_launch():
    """Where runtime calls were not recorded."""
    operators = [on_host("aten::linear", 0, 30, **{"External id": 3}), OPTIMIZER]
    assert milliseconds([*operators, kernel(65, 10, 9, **{"External id": 3})]) == pytest.approx({"forward": 10})


def test_launches_on_two_threads_are_told_apart():
    """A backward's thread launches while the main thread is in an operator."""
    backward = on_host("autograd::engine::evaluate_function: MmBackward0", 5, 90, tid=2)
    events = [on_host("aten::linear", 0, 80), backward, launch(10, 1), launch(20, 2, tid=2)]
    found = milliseconds([*events, kernel(30, 10, 1), kernel(40, 20, 2)])
    assert found == pytest.approx({"forward": 10, "backward": 20})


def test_an_annotation_around_an_iteration_hides_no_phase():
    """One that spans backward and optimizer tells nothing of what runs in it."""
    events = [on_host("train_step", 0, 99, cat="user_annotation"), FORWARD, OPTIMIZER, launch(10, 1), launch(70, 2)]
    assert milliseconds([*events, kernel(20, 10, 1), kernel(80, 10, 2)]) == pytest.approx(
        {"forward": 10, "optimizer": 10, "idle": 50}
    )


def test_annotations_of_old_traces_hide_nothing_either():
    """Before 2022 they had the category of operators."""
    spans = [on_host("train_step", 0, 99), FORWARD, on_host("Optimizer.step#SGD.step", 60, 30)]
    events = [event | {"cat": "Operator"} for event in (STEP, *spans)] + [launch(10, 1), launch(70, 2)]
    (row,) = imported([*events, kernel(20, 10, 1), kernel(80, 10, 2)]).rows
    assert {name: value * 1e6 for name, value in row.phases.items() if value} == pytest.approx(
        {"forward": 10, "optimizer": 10, "idle": 50}
    )


@pytest.mark.parametrize("old", [False, True])
def test_without_a_device_operators_stand_for_kernels(old):
    """The union of operators; of collectives what they leave; neither marks nor the loader compute."""
    events = [
        STEP,
        on_host("enumerate(DataLoader)#x.__next__", 0, 10, cat="user_annotation"),
        on_host("aten::linear", 20, 20),
        on_host("aten::addmm", 25, 10),
        on_host("aten::mm", 30, 20, tid=2),
        on_host("c10d::allreduce_", 50, 5),
        on_host("gloo:all_reduce", 45, 25, tid=3, cat="user_annotation"),
        on_host("Optimizer.step#SGD.step", 75, 25, cat="user_annotation"),
        on_host("aten::add_", 80, 10),
    ]
    told = imported([event | ({"cat": "Operator"} if old else {}) for event in events]).breakdowns[0]
    got = {name: getattr(told, f"{name}_s") * 1e6 for name in ("span", "compute", "exposed_communication", "idle")}
    assert got == pytest.approx({"span": 70, "compute": 40, "exposed_communication": 20, "idle": 10})
    assert not told.on_device


def test_threads_that_work_at_once_count_once_on_a_host():
    """Phases of a trace without a device are disjoint, too."""
    backward = on_host("autograd::engine::evaluate_function: MmBackward0", 30, 40, tid=2)
    loader = on_host("enumerate(DataLoader)#x.__next__", 0, 20, cat="user_annotation")
    (row,) = imported([STEP, loader, on_host("aten::linear", 10, 50), backward, OPTIMIZER]).rows
    assert sum(row.phases.values()) == pytest.approx(row.step_s)
    assert row.phases["data"] * 1e6 == pytest.approx(20)


def test_arguments_of_another_kind_cost_what_they_tell_and_no_more():
    """A correlation that is a word, or has too many bits, is none: without any, a kernel's own time counts."""
    events = [FORWARD, launch(10, "one"), kernel(20, 10, 2**64), kernel(40, 10, None)]
    assert milliseconds(events) == pytest.approx({"forward": 20, "idle": 10})
    odd = kernel(20, 10, 1, "ncclDevKernel_AllReduce_Sum_f32(x)", dtype=7, **{"In msg nelems": 4})
    assert [one.bytes for one in imported([STEP, FORWARD, launch(10, 1), odd]).collectives] == [0]


@pytest.mark.parametrize("odd", [{"ts": None}, {"name": 7}, {"dur": "long"}, {"args": None}])
def test_an_event_of_another_form_is_left_out_and_counted(odd):
    """And no other with it. One without arguments is an event all the same."""
    events = [STEP, FORWARD, launch(10, 1), kernel(20, 10, 1), kernel(40, 10, 1) | odd]
    notes = Notes()
    content = {"traceEvents": events}
    trace = read(io.BytesIO(json.dumps(content).encode()), "t.json", notes, alone=True)
    whole = "args" in odd
    assert trace.breakdowns[0].span_s * 1e6 == pytest.approx(30 if whole else 10)
    assert any("another form" in line for line in notes.lines()) is not whole
