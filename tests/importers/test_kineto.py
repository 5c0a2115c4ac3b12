"""PyTorch profiler traces: a real one, made here, and small ones by hand."""

import gzip
import io
import json
from pathlib import Path

import pytest

from importers.kineto import read
from importers.notes import Notes, SourceError
from importers.traces import Traces
from paceline import wire
from paceline.events import PHASES
from paceline.topics import COLLECTIVE


def seconds(rank):
    """Seconds by step and phase, and of the whole step."""
    return {row.step: row.phases | {"step": row.step_s} for row in rank.rows}


def real(number):
    """A trace that traces/make.py made."""
    with gzip.open(Path(__file__).parent / "traces" / f"rank{number}.json.gz") as stream:
        return read(stream, f"rank{number}.json", Notes())


def event(name, start_ms, length_ms, cat="cpu_op", tid=1, **args):
    span = {"ph": "X", "name": name, "cat": cat, "ts": start_ms * 1e3, "dur": length_ms * 1e3, "tid": tid, "pid": 1}
    return span | {"args": args}


def trace(*events, rank=0, world=2, **more):
    about = {"backend": "nccl", "rank": rank, "world_size": world}
    return io.BytesIO(json.dumps({"distributedInfo": about, "traceEvents": events, **more}).encode())


HOST = (
    event("ProfilerStep#7", 0, 100, "user_annotation"),
    event("enumerate(DataLoader)#x.__next__", 0, 10, "user_annotation"),
    event("aten::linear", 15, 20),
    event("aten::addmm", 16, 18),
    event("autograd::engine::evaluate_function: AddmmBackward0", 40, 20),
    event("gloo:all_reduce", 45, 35, "user_annotation", tid=2),
    event("Optimizer.step#SGD.step", 80, 10, "user_annotation"),
)


def test_phases_of_a_host_trace():
    """Each stretch of a step is one phase; the collective counts where nothing else runs; all add up to the step."""
    found = seconds(read(trace(*HOST), "t.json", Notes()))[7]
    want = {"data": 10, "prepare": 5, "forward": 20, "backward": 20, "communication": 20, "optimizer": 10, "step": 100}
    assert {name: found[name] * 1e3 for name in want} == pytest.approx(want)
    assert sum(found[name] for name in PHASES if name in found) == pytest.approx(found["step"])


def test_phases_of_a_device_trace():
    """With kernels, a phase is the time of the kernels its operators launched, and NCCL's are communication."""
    spans = [
        event("ProfilerStep#0", 0, 100, "user_annotation"),
        event("aten::linear", 0, 5),
        event("cudaLaunchKernel", 1, 1, "cuda_runtime", correlation=1),
        event("gemm", 10, 30, "kernel", tid=7, correlation=1),
        event("autograd::engine::evaluate_function: AddmmBackward0", 6, 5, tid=3),
        event("cudaLaunchKernel", 7, 1, "cuda_runtime", tid=3, correlation=2),
        event("gemm", 40, 30, "kernel", tid=7, correlation=2),
        event(
            "ncclDevKernel_AllReduce_Sum_f32_RING_LL(x)", 60, 30, "kernel", tid=8, correlation=3, dtype="Float",
            **{"Group size": 2, "In msg nelems": 1000, "Process Group Name": "0", "Seq": 41},
        ),
    ]  # fmt: skip
    rank = read(trace(*spans), "t.json", Notes())
    found = seconds(rank)[0]
    assert {name: found[name] * 1e3 for name in ("forward", "backward", "communication")} == pytest.approx(
        {"forward": 30, "backward": 30, "communication": 20}
    )
    (collective,) = rank.collectives
    assert (collective.operation, collective.group, collective.size, collective.bytes, collective.sequence) == (
        "all_reduce",
        "0",
        2,
        4000,
        41,
    )


def test_steps_without_marks_are_cut_by_the_optimizer():
    """Without ProfilerStep marks a step is what lies between two optimizer steps, and that is said."""
    spans = [event("Optimizer.step#SGD.step", start, 5, "user_annotation") for start in (10, 50, 90)]
    notes = Notes()
    found = seconds(read(trace(*spans), "t.json", notes))
    assert [found[step]["step"] for step in (0, 1)] == pytest.approx([0.04, 0.04])
    assert notes.remarks


@pytest.mark.parametrize("second", [(86, 3), (80, 12)])
def test_two_optimizers_of_one_iteration_make_one_step(second):
    """One after the other, or one around the other."""
    spans = [
        one
        for start in (0, 100, 200)
        for one in (
            event("aten::mm", start, 40),
            event("autograd::engine::evaluate_function: MmBackward0", start + 40, 40),
            event("Optimizer.step#Muon.step", start + 82, 3, "user_annotation"),
            event("Optimizer.zero_grad#Muon.zero_grad", start + 85, 1, "user_annotation"),
            event("Optimizer.step#AdamW.step", start + second[0], second[1], "user_annotation"),
        )
    ]
    found = seconds(read(trace(*spans), "t.json", Notes()))
    assert [parts["step"] for parts in found.values()] == pytest.approx([0.1, 0.1])


def test_rank_from_the_name_of_the_file():
    """A trace without distributedInfo is of the rank that its name says; without either it is refused."""
    bare = json.dumps({"traceEvents": HOST}).encode()
    assert read(io.BytesIO(bare), "trace-rank3.json", Notes()).rank == 3
    with pytest.raises(SourceError, match="rank"):
        read(io.BytesIO(bare), "trace.json", Notes())


@pytest.mark.parametrize("data", [b"", b"{", b"[]", b'{"traceEvents": 3}', b'{"distributedInfo": {"rank": 0}}'])
def test_no_trace_is_refused(data):
    """Bytes that are no trace, or one without steps, raise the error that is shown."""
    with pytest.raises(SourceError):
        read(io.BytesIO(data), "t.json", Notes())


def test_ranks_meet_in_one_recording():
    """Traces of two ranks make sound messages; a rank that is missing is named, one that comes twice refused."""
    notes = Notes()
    traces, twice = Traces("job", notes), Traces("job", notes)
    for target, name in ((traces, "b"), (twice, "b"), (twice, "c")):
        target.update(read(trace(*HOST, rank=1), name, notes), name)
    with pytest.raises(SourceError, match="rank 1"):
        list(twice.messages())
    events = [wire.decode(m.topic, wire.encode(m.event)) for m in traces.messages()]
    assert {type(event).__name__ for event in events} == {"StepTimings", "CollectiveCalls"}
    assert any("no trace of rank 0" in line for line in notes.lines())


@pytest.mark.parametrize("written", [str, list])
def test_groups_of_several_ranks_that_share_a_name_are_apart(written):
    """One split makes several groups of one name: their collectives of one number are not the same."""
    notes = Notes()
    traces = Traces("job", notes)
    for rank in range(4):
        group = {
            "Process Group Name": "1",
            "Process Group Ranks": written([rank // 2 * 2, rank // 2 * 2 + 1]),
            "Seq": 1,
        }
        spans = [*HOST[:1], event("gloo:all_reduce", 45, 35, "user_annotation", tid=2, **group)]
        traces.update(read(trace(*spans, rank=rank, world=4), f"rank{rank}", notes), f"rank{rank}")
    calls = [message.event for message in traces.messages() if message.topic == COLLECTIVE]
    assert [one.groups for one in calls] == [["1 0-1"], ["1 0-1"], ["1 2-3"], ["1 2-3"]]


@pytest.mark.parametrize("number", [0, 1])
def test_a_real_trace(number):
    """Traces that torch.profiler made of a gloo run: five steps each, and phases that add up to them."""
    found = seconds(real(number))
    assert sorted(found) == [22, 23, 24, 25, 26]
    for parts in found.values():
        assert min(parts["forward"], parts["backward"], parts["data"], parts["optimizer"]) > 0
        assert sum(parts[name] for name in PHASES if name in parts) == pytest.approx(parts["step"], rel=0.02)


def test_the_late_rank_of_a_real_trace_works_longer_and_waits_less():
    """Rank 1 slept 20 ms before each forward and computed more; rank 0 waited for it in the all-reduce."""
    (fast, slow) = (seconds(real(number)) for number in (0, 1))
    for step in fast:
        assert slow[step]["prepare"] > 0.019
        assert slow[step]["forward"] > 2 * fast[step]["forward"]
        assert fast[step]["communication"] > 5 * slow[step]["communication"]
