"""Traces whose events have no category, and tables of Nsight Systems: read as what they are, or refused by name."""

import json

import pytest

from importers.__main__ import main
from paceline import recording, topics, wire
from paceline.events import StepTimings

NCCL = "ncclDevKernel_AllReduce_Sum_bf16_RING_LL"
BASE_US = 1_790_000_000_000_000


@pytest.fixture
def imported(tmp_path, capsys):
    """Import files; the status, what was said, and breakdowns."""

    def run(kind, *files):
        out = tmp_path / "out.jsonl"
        status = main([kind, *map(str, files), "-o", str(out), "--quiet"])
        lines = recording.read(str(out)) if out.exists() else ()
        events = [wire.decode(topics.resolve(line.topic), line.value) for line in lines]
        found = [one for event in events if isinstance(event, StepTimings) for one in event.breakdowns]
        return status, capsys.readouterr().err, found

    return run


def save(path, events, **about):
    path.write_text(json.dumps({**about, "traceEvents": events}))
    return path


def span(name, start, length, pid, tid, **args):
    return {"ph": "X", "name": name, "pid": pid, "tid": tid, "ts": BASE_US + start, "dur": length, "args": args}


def named(what, pid, name, tid=0):
    return {"ph": "M", "name": what, "pid": pid, "tid": tid, "args": {"name": name}}


def xla(device="/device:GPU:0", lane="Stream #20(MemcpyD2D,Compute)", count=8, marks=True):
    """JAX's trace of a process: the device's lanes show the same time several times."""
    events = [named("process_name", 1, device), named("process_name", 701, "/host:CPU")]
    events += [named("thread_name", 1, name, tid) for tid, name in ((20, lane), (31, "XLA Modules"), (32, "Steps"))]
    for step in range(count):
        begin = step * 10_000
        events.append(span("loop_fusion_3", begin + 100, 6000, 1, 20, hlo_op="fusion.3", correlation_id="7"))
        events.append(span("all-reduce.1", begin + 6100, 3000, 1, 20, hlo_op="all-reduce.1"))
        events.append(span("MemcpyD2H", begin + 9100, 100, 1, 20))
        events.append(span("jit_step", begin + 100, 9100, 1, 31))
        events.append(span("PjitFunction(step)", begin + 10, 90, 701, 9))
        events += [span(str(step), begin, 9900, 1, 32)] * marks
    return events


@pytest.mark.parametrize(
    ("device", "lane"),
    [
        ("/device:GPU:0", "Stream #20(MemcpyD2D,Compute)"),
        ("/device:GPU:3 (pid 77)", "Stream #7"),
        ("/device:TPU:0", "XLA Ops"),
    ],
)
def test_the_kernels_of_xla_are_read_once_with_its_steps(imported, tmp_path, device, lane):
    status, said, (found,) = imported("kineto", save(tmp_path / "rank0.json", xla(device, lane)))
    assert (status, found.on_device, found.steps) == (0, True, 8)
    assert found.compute_s == pytest.approx(0.048, rel=0.01)
    assert found.exposed_communication_s == pytest.approx(0.024, rel=0.01)
    assert "left out 16 rows: spans without a category" in said


def test_a_trace_of_xla_without_steps_is_one_step(imported, tmp_path):
    _, said, (found,) = imported("kineto", save(tmp_path / "rank0.json", xla(marks=False)))
    assert found.steps == 1
    assert "taken as one step" in said


def test_each_device_of_a_process_of_xla_has_its_own_times(imported, tmp_path):
    other = [{**event, "pid": 2} for event in xla("/device:GPU:1") if event["pid"] == 1]
    _, _, found = imported("kineto", save(tmp_path / "rank0.json", xla() + other))
    assert [round(one.compute_s, 3) for one in found] == [0.048, 0.048]


def test_pytorchs_first_profiler_is_read(imported, tmp_path):
    events = []
    for step in range(8):
        events.append(span("aten::mm", step * 10_000 + 50, 40, "CPU functions", 1))
        events.append(span("gemm", step * 10_000 + 100, 6000, "CUDA functions", 0))
        events.append(span(NCCL, step * 10_000 + 6100, 3000, "CUDA functions", 0))
    (tmp_path / "rank0.json").write_text(json.dumps(events))
    status, _, (found,) = imported("kineto", tmp_path / "rank0.json")
    assert (status, found.on_device) == (0, True)
    assert found.exposed_communication_s == pytest.approx(0.024, rel=0.01)


def kineto(rank):
    events = []
    for step in range(1, 9):
        begin = step * 10_000
        events.append({**span(f"ProfilerStep#{step}", begin, 9900, 1, 1), "cat": "user_annotation"})
        events.append({**span("aten::mm", begin + 50, 40, 1, 1), "cat": "cpu_op"})
        for place, (name, start, length) in enumerate(
            (("gemm", 100, 6000), (NCCL, 6100, 3000), ("Memcpy DtoD", 9100, 50))
        ):
            number = step * 10 + place
            events.append(
                {**span("cudaLaunchKernel", begin + 60 + place, 1, 1, 1, correlation=number), "cat": "cuda_runtime"}
            )
            args = {"correlation": number, "device": 0, "stream": 7}
            cat = "gpu_memcpy" if name.startswith("Memcpy") else "kernel"
            events.append({**span(name, begin + start, length, 0, 7, **args), "cat": cat})
    return events, {"distributedInfo": {"backend": "nccl", "rank": rank, "world_size": 2}}


def test_a_trace_that_lost_its_categories_says_the_same(imported, tmp_path):
    (tmp_path / "bare").mkdir()
    files, bare = [], []
    for rank in range(2):
        events, about = kineto(rank)
        files.append(save(tmp_path / f"rank{rank}.json", events, **about))
        without = [{name: value for name, value in event.items() if name != "cat"} for event in events]
        bare.append(save(tmp_path / "bare" / f"rank{rank}.json", without, **about))
    assert imported("kineto", *bare)[2] == imported("kineto", *files)[2]


@pytest.mark.parametrize(
    "wrong", [None, 7, [], {}, {"name": None}, {"name": ["/device:GPU:0"]}, {"name": "x" * 10_000}]
)
def test_a_lane_of_a_wrong_name_has_no_kernels(imported, tmp_path, wrong):
    events = xla()
    events[0]["args"] = wrong
    status, said, found = imported("kineto", save(tmp_path / "rank0.json", events))
    assert (status, found) == (2, [])
    assert "spans without a category (cat), as other tools write them" in said


def test_lanes_that_are_named_behind_their_spans_are_refused_rather_than_half_read(imported, tmp_path):
    status, said, _ = imported("kineto", save(tmp_path / "rank0.json", list(reversed(xla()))))
    assert status == 2
    assert "without a category" in said


@pytest.mark.parametrize("spans", [[span("frame", 1, 5, 1, 1)], [span("7", 1, 5, 1, 1)], [span("", 1, 5, None, None)]])
def test_a_trace_of_another_tool_is_refused_by_what_it_lacks(imported, tmp_path, spans):
    status, said, _ = imported("kineto", save(tmp_path / "rank0.json", spans * 3))
    assert status == 2
    assert "3 spans without a category (cat)" in said
    assert "prof.export_chrome_trace" in said


SUMMARY = "Time (%),Total Time (ns),Instances,Avg (ns),Med (ns),Min (ns),Max (ns),StdDev (ns),"
TABLES = {
    "cuda_gpu_kern_sum": f'{SUMMARY}Name\n55.0,120000,12,1000.0,990.0,900,1200,12.0,"void gemm<float>(int, int)"\n',
    "nvtx_sum": f"{SUMMARY}Style,Range\n55.0,120000,12,1000.0,990.0,900,1200,12.0,PushPop,:step\n",
    "cuda_api_sum": f"{SUMMARY}Name\n55.0,120000,12,1000.0,990.0,900,1200,12.0,cudaLaunchKernel\n".replace(
        "Instances", "Num Calls"
    ),
    "of seconds": f"{SUMMARY}Name\n55.0,0.12,12,0.1,0.1,0.1,0.1,0.1,gemm\n".replace("(ns)", "(s)"),
    "with tabs": f"{SUMMARY}Name\n".replace(",", "\t"),
    "cuda_gpu_trace": "Start (ns),Duration (ns),CorrId,GrdX,GrdY,GrdZ,BlkX,BlkY,BlkZ,Reg/Trd,StcSMem (MB),DymSMem (MB),"
    "Bytes (MB),Throughput (MB/s),SrcMemKd,DstMemKd,Device,Ctx,Strm,Name\n0,6,1,1,1,1,1,1,1,9,0,0,,,,,H (0),1,7,g\n",
    "nvtx_pushpop_trace": "Start (ns),End (ns),Duration (ns),DurChild (ns),DurNonChild (ns),Name,PID,TID,Lvl,NumChild,"
    "RangeId,ParentId,RangeStack,NameTree\n0,100,100,0,100,step,1,1,0,0,1,,:1,step\n",
    "ncu": '"ID","Process ID","Process Name","Host Name","Kernel Name","Context","Stream","Metric Name"\n"0","1"\n',
    "as printed by ncu": "==PROF== Connected to process 7 (/usr/bin/python3.12)\n",
    "as printed": "Generating SQLite file r.sqlite from r.nsys-rep\nProcessing [r.sqlite] with [kern_sum.py]... \n"
    f"\n ** CUDA GPU Kernel Summary (cuda_gpu_kern_sum):\n\n{SUMMARY}Name\n",
}


@pytest.mark.parametrize("table", TABLES)
def test_a_table_of_nsights_is_refused_by_name_with_what_to_use_instead(imported, tmp_path, table):
    (tmp_path / "report.csv").write_text(TABLES[table])
    status, said, found = imported("timeline", tmp_path / "report.csv")
    assert (status, found) == (2, [])
    assert "Nsight" in said or "nsys stats" in said
    assert "neither ranks nor steps" in said
    assert "which column" not in said


def test_a_table_of_ops_that_has_such_columns_and_a_step_is_read(imported, tmp_path):
    rows = "".join(f"0,{step},forward,{step * 10},5\n0,{step},backward,{step * 10 + 5},5\n" for step in range(5))
    (tmp_path / "ops.csv").write_text(f"rank,step,name,start,duration\n{rows}")
    assert imported("timeline", tmp_path / "ops.csv")[0] == 0


def two_devices():
    """Device 1 waits 5 ms of each step while device 0 computes."""
    events = []
    for step in range(1, 7):
        begin = step * 10_000
        events.append({**span(f"ProfilerStep#{step}", begin, 9900, 1, 1), "cat": "user_annotation"})
        for name, start, length, device in (("gemm", 100, 8000, 0), ("gemm", 150, 2000, 1), (NCCL, 2150, 5000, 1)):
            number = len(events)
            call = span("cudaLaunchKernel", begin + 60 + device, 1, 1, 1, correlation=number)
            events.append({**call, "cat": "cuda_runtime"})
            args = {"correlation": number, "device": device, "stream": 7}
            events.append({**span(name, begin + start, length, device, 7, **args), "cat": "kernel"})
    return events


def only_collectives_say_it(event):
    if event["name"] == "gemm":
        del event["args"]["device"]


def its_process_is_named(name):
    def change(event):
        event["pid"] = name.format(event["args"].pop("device"))

    return change


DEVICES = {
    "as a text": lambda event: event["args"].update(device=str(event["args"]["device"])),
    "by its process": lambda event: event["args"].pop("device"),
    "by some kernels": only_collectives_say_it,
    "by GPU 1": its_process_is_named("GPU {}"),
    "by device:GPU:1": its_process_is_named("/device:GPU:{}"),
    "by a name without a number": lambda event: event.update(pid="ab"[event["args"].pop("device")]),
}


@pytest.mark.parametrize("how", DEVICES)
def test_two_devices_of_one_process_keep_apart_however_they_are_told(imported, tmp_path, how):
    events = two_devices()
    for event in events:
        if event["cat"] == "kernel":
            DEVICES[how](event)
    _, _, found = imported("kineto", save(tmp_path / "rank0.json", events))
    assert [round(one.compute_s, 3) for one in found] == [0.048, 0.012]
    assert [round(one.exposed_communication_s, 3) for one in found] == [0, 0.03]


def test_two_devices_of_pytorchs_first_profiler_keep_apart(imported, tmp_path):
    events = []
    for step in range(6):
        events.append(span("gemm", step * 10_000 + 100, 8000, "CUDA functions", 0))
        events.append(span(NCCL, step * 10_000 + 150, 6000, "CUDA functions", 1))
    _, _, found = imported("kineto", save(tmp_path / "rank0.json", events))
    assert [round(one.exposed_communication_s, 3) for one in found] == [0, 0.036]


def ascend(*, names_first=True, categories=True):
    """A trace_view.json as torch_npu writes it: a list, times as text, tasks of the device without categories."""
    names = {100: "Python", 200: "CANN", 300: "Ascend Hardware", 400: "Communication", 500: "Overlap Analysis"}
    lanes = [
        {"ph": "M", "name": "process_name", "pid": pid, "tid": 0, "args": {"name": name}} for pid, name in names.items()
    ]
    spans = []
    for step in range(12):
        begin_us = 1_747_130_000_123_456 + 10_000 * step
        for name, pid, start, length in (
            (f"ProfilerStep#{step}", 100, 0, 9900),
            ("aten::mm", 100, 50, 40),
            ("Node@launch", 200, 60, 10),
            ("aclnnMatmul_MatMulV2", 300, 100, 6000),
            ("EVENT_WAIT", 300, 100, 6000),
            (f"hcom_allReduce__583_{step}_1", 400, 6100, 3000),
            ("Computing", 500, 100, 6000),
        ):
            span = {"ph": "X", "name": name, "pid": pid, "tid": 1, "ts": f"{begin_us + start}.789", "dur": length}
            task = {"args": {"Task Type": "AI_CORE", "Physic Stream Id": 7, "connection_id": step}}
            spans.append(span | task | ({"cat": "cpu_op"} if pid == 100 and categories else {}))
    return [*lanes, *spans] if names_first else [*spans, *lanes]


@pytest.mark.parametrize("categories", [True, False])
@pytest.mark.parametrize("names_first", [True, False])
def test_ascends_trace_is_refused_by_name_rather_than_half_read(imported, tmp_path, names_first, categories):
    """Wherever its processes are named, and however many ranks there are."""
    events = ascend(names_first=names_first, categories=categories)
    files = [save(tmp_path / f"rank{rank}.json", events) for rank in range(2)]
    for given in (files[:1], files):
        status, said, found = imported("kineto", *given)
        assert (status, found) == (2, [])
        assert "Ascend's trace_view.json" in said
        assert "paceline import timeline" in said
