"""Profiler traces of other kinds than one device, one file a rank, NCCL's names and all kernels there."""

import bz2
import gzip
import json
import lzma
import pickle
import re

import pytest
import zstandard

from importers.__main__ import main
from importers.kineto_collectives import is_collective_kernel
from importers.kineto_ranks import rank_in
from paceline import recording, topics, wire
from paceline.columns import numbers
from paceline.events import StepTimings
from streams.analyze import main as analyze
from streams.profiler_traces import is_trace

BASE_US = 1_790_000_000_000_000
NCCL = "ncclDevKernel_AllReduce_Sum_bf16_RING_LL(ncclDevKernelArgsStorage<4096ul>)"
VLLM = "void vllm::cross_device_reduce_1stage<__nv_bfloat16, 2>(vllm::RankData*, vllm::Signal*, int)"


class Profile:
    """A small trace, in microseconds from one moment."""

    def __init__(self, rank=0, world=2, *, info=True):
        self.events, self.number, self.about = [], 0, {}
        if info:
            self.about["distributedInfo"] = {"backend": "nccl", "rank": rank, "world_size": world}

    def span(self, cat, name, start, length, tid=1, pid=1, **args):
        event = {"ph": "X", "cat": cat, "name": name, "pid": pid, "tid": tid, "ts": BASE_US + start, "dur": length}
        self.events.append({**event, "args": args})

    def kernel(self, name, launch, start, length, *, device=0, tid=1, call="cudaLaunchKernel", lost=False, **args):
        self.number += 1
        self.span("cuda_runtime", call, launch, 5, tid, correlation=self.number)
        if not lost:
            said = {"correlation": self.number, "device": device, "stream": 7, **args}
            self.span("kernel", name, start, length, 7, device, **said)

    def steps(self, count, *, work=6000, meeting=NCCL, operator="c10d::allreduce_", length=10_000, first=1, lost=()):
        """``lost`` are the places of steps without kernels."""
        for place in range(count):
            begin = (place + first - 1) * length
            self.span("user_annotation", f"ProfilerStep#{place + first}", begin, length - 100)
            self.span("cpu_op", "aten::mm", begin + 50, 40)
            self.kernel("gemm", begin + 60, begin + 100, work, lost=place in lost)
            self.span("cpu_op", operator, begin + 120, 40)
            self.kernel(meeting, begin + 130, begin + 100 + work, length - 900 - work, lost=place in lost)
        return self

    def save(self, path):
        path.write_text(json.dumps(self.about | {"traceEvents": self.events}))
        return str(path)


@pytest.fixture
def imported(tmp_path, capsys):
    """Import files; the status, what was said, breakdowns, and the rank and step of each row."""

    def run(*files):
        out = tmp_path / "out.jsonl"
        status = main(["kineto", *files, "-o", str(out), "--quiet"])
        told, rows = [], []
        for line in recording.read(str(out)) if out.exists() else ():
            event = wire.decode(topics.resolve(line.topic), line.value)
            if isinstance(event, StepTimings):
                told += event.breakdowns
                rows += zip(numbers(event.rank), numbers(event.step), strict=True)
        return status, capsys.readouterr().err, told, rows

    return run


def saved(tmp_path, *profiles, name="rank{}.json"):
    return [one.save(tmp_path / name.format(number)) for number, one in enumerate(profiles)]


def panel(capsys, files):
    assert analyze([*files, "--panel"]) == 0
    return capsys.readouterr().out


# Kernels that the profiler lost.


@pytest.mark.parametrize("lost", [range(4), range(2, 5), range(17, 20), [9], range(20)])
def test_steps_without_their_kernels_are_compared_with_nobody(imported, tmp_path, lost):
    """Nor is the step after them, whose idle time would be theirs; they are counted, and the others kept."""
    files = saved(tmp_path, Profile(0).steps(20, lost=lost), Profile(1).steps(20))
    status, said, told, rows = imported(*files)
    apart = {place + 1 for place in lost} | {place + 2 for place in lost}
    assert status == 0
    assert f"rank 0: {2 * len(lost)} of 40 kernel launches have no kernel" in said
    assert {step for rank, step in rows if rank == 0} == set(range(1, 21)) - apart
    assert [(one.rank, one.whole, one.lost_kernels) for one in told] == [(0, False, 2 * len(lost)), (1, True, 0)]


@pytest.mark.parametrize("lost", [range(4), range(20)])
@pytest.mark.parametrize("count", [6, 20])
@pytest.mark.parametrize("world", [2, 4])
def test_a_healthy_rank_whose_kernels_are_lost_is_not_accused(tmp_path, capsys, world, count, lost):
    """Of two and of four ranks, by neither its own times nor its peers'."""
    ranks = [Profile(rank, world).steps(count, lost=() if rank else lost, length=200_000) for rank in range(world)]
    said = panel(capsys, saved(tmp_path, *ranks))
    assert "held the job back" not in said
    assert "computed" not in said
    assert "last in collectives" not in said


def test_a_rank_without_a_device_is_not_compared_with_devices(imported, tmp_path):
    """Its host's time is another clock, launches or not."""
    bare = Profile(0).steps(3)
    bare.events = [event for event in bare.events if event["cat"] not in ("kernel", "cuda_runtime")]
    _, said, told, rows = imported(*saved(tmp_path, bare, Profile(1).steps(3)))
    assert {rank for rank, _ in rows} == {1}
    assert "rank 0: no kernels" in said
    assert [one.whole for one in told] == [False, True]


def test_what_has_no_kernel_is_not_lost(imported, tmp_path):
    """A host function, calls captured into a graph, a driver's call in a runtime's; kernels that tell no launch."""
    odd = Profile(0).steps(3)
    odd.span("cuda_runtime", "cudaLaunchHostFunc", 200, 5, correlation=900)
    odd.span("cuda_runtime", "cudaStreamBeginCapture", 210, 5, correlation=901)
    odd.span("cuda_runtime", "cudaLaunchKernel", 220, 5, correlation=902)
    odd.span("cuda_runtime", "cudaStreamEndCapture", 230, 5, correlation=903)
    odd.span("cuda_driver", "cuLaunchKernel", 61, 2, correlation=904)
    bare = Profile(1).steps(3)
    for event in bare.events:
        if event["cat"] == "kernel":
            del event["args"]["correlation"]
    _, said, told, rows = imported(*saved(tmp_path, odd, bare))
    assert "kernel launches have no kernel" not in said
    assert all(one.whole for one in told)
    assert len(rows) == 6


def test_steps_whose_launches_are_lost_as_well_are_compared_with_nobody(imported, tmp_path):
    """The host worked in them; a last step of a few operators is none of these."""
    gone = Profile(0).steps(6)
    gone.events = [one for one in gone.events if one["tid"] == 1 or not 20_000 < one["ts"] - BASE_US < 40_000]
    gone.events = [
        one for one in gone.events if one["cat"] != "cuda_runtime" or not 20_000 < one["ts"] - BASE_US < 40_000
    ]
    rest = Profile(1).steps(6)
    for one in (gone, rest):
        one.span("user_annotation", "ProfilerStep#7", 60_000, 900)
        one.span("user_annotation", "enumerate(DataLoader)", 60_010, 500)
    _, said, told, rows = imported(*saved(tmp_path, gone, rest))
    assert "rank 0: no kernels in the trace of some steps (steps 3-5)" in said
    assert [step for rank, step in rows if rank == 0] == [1, 2, 6]
    assert [one.whole for one in told] == [False, True]


def test_one_lost_kernel_of_a_thousand_is_counted_and_changes_nothing(imported, tmp_path, monkeypatch):
    """It is less than what cuts a trace at its end."""
    monkeypatch.setattr("importers.kineto_lost.FEW", 20)
    files = saved(tmp_path, Profile(0).steps(10), Profile(1).steps(10))
    content = json.loads((tmp_path / "rank0.json").read_text())
    del content["traceEvents"][-1]
    (tmp_path / "rank0.json").write_text(json.dumps(content))
    _, said, told, rows = imported(*files)
    assert "rank 0: 1 of 20 kernel launches have no kernel in the trace: too few to matter" in said
    assert (len(rows), all(one.whole for one in told)) == (20, True)


def graphed(rank, count=20, *, lost=()):
    """Each step launches a graph of 20 kernels, which the trace lacks in the steps at ``lost``, and an empty one."""
    made = Profile(rank).steps(count, work=1000, length=10_000)
    for place in range(count):
        begin = place * 10_000
        made.kernel("gemm", begin + 70, 0, 0, call="cudaGraphLaunch", lost=True)
        graph = made.number
        for each in range(0 if place in lost else 20):
            at = begin + 1100 + each * 100
            made.span("kernel", "gemm", at, 100, 7, 0, correlation=graph, device=0, stream=7)
        made.kernel("", begin + 80, 0, 0, call="cudaGraphLaunch", lost=True)
    return made


@pytest.mark.parametrize("lost", [range(10, 20), range(10), [9], range(1, 20)])
def test_steps_whose_graphs_have_lost_their_kernels_are_compared_with_nobody(imported, tmp_path, lost):
    """A graph that has none in any step is empty."""
    _, said, told, rows = imported(*saved(tmp_path, graphed(0, lost=lost), graphed(1)))
    apart = {place + 1 for place in lost} | {place + 2 for place in lost}
    assert {step for rank, step in rows if rank == 0} == set(range(1, 21)) - apart
    assert f"rank 0: {len(lost)} of 60 kernel launches have no kernel" in said
    assert "rank 1" not in said
    assert [(one.rank, one.whole, one.lost_kernels) for one in told] == [(0, False, len(lost)), (1, True, 0)]


def test_steps_with_other_graphs_are_whole(imported, tmp_path):
    """An evaluation launches one graph, which is empty."""
    ranks = [graphed(rank, 6) for rank in range(2)]
    for rank in ranks:
        rank.span("user_annotation", "ProfilerStep#7", 60_000, 9_900)
        rank.kernel("gemm", 60_060, 60_100, 6000)
        rank.kernel("", 60_080, 0, 0, call="cudaGraphLaunch", lost=True)
    _, said, told, rows = imported(*saved(tmp_path, *ranks))
    assert "have no kernel" not in said
    assert ([one.whole for one in told], len(rows)) == ([True, True], 14)


@pytest.mark.parametrize("share", [1, 2])
def test_kernels_that_have_lost_their_length_are_not_taken_for_fast_ones(imported, tmp_path, share):
    """Every second one, or all of a name in a trace of nanoseconds."""
    short, whole = Profile(0).steps(20, work=6000.5), Profile(1).steps(20, work=6000.5)
    for place, event in enumerate(one for one in short.events if one["name"] == "gemm"):
        event["dur"] = 0 if place >= 10 and place % share == 0 else event["dur"]
    _, said, told, rows = imported(*saved(tmp_path, short, whole))
    assert f"rank 0: {10 // share} kernels have length 0 (steps 11-20); these steps are compared with no other" in said
    assert {step for rank, step in rows if rank == 0} == set(range(1, 11))
    assert [one.whole for one in told] == [False, True]


def test_short_kernels_of_a_trace_of_whole_microseconds_are_whole(imported, tmp_path):
    """Older versions of PyTorch cut the fraction off."""
    ranks = [Profile(rank).steps(4) for rank in range(2)]
    for rank in ranks:
        for place in range(4):
            rank.kernel("fill", place * 10_000 + 65, place * 10_000 + 50, place % 2)
    _, said, told, rows = imported(*saved(tmp_path, *ranks))
    assert "length 0" not in said
    assert ([one.whole for one in told], len(rows)) == ([True, True], 8)


# Events that have lost their time.


def untimed(rank, begin, *, only=None, count=20, world=2, kept=0, on_host=False):
    """Nearly all events from step ``begin`` on have ``ts`` and ``dur`` 0, or those of the categories ``only``."""
    one = Profile(rank, world).steps(count)
    if on_host:
        one.events = [event for event in one.events if event["cat"] not in ("kernel", "cuda_runtime")]
    for place, event in enumerate(one.events):
        if event["cat"] in ("cpu_op", "user_annotation"):
            event["args"]["External id"] = place + 1
        late = event["ts"] - BASE_US >= (begin - 1) * 10_000
        if late and (only is None or event["cat"] in only) and not (kept and place % kept == 0):
            event.update(ts=0.0, dur=0.0)
    return one


@pytest.mark.parametrize("kept", [0, 7, 10])
@pytest.mark.parametrize("only", [None, ["cuda_runtime"], ["cpu_op"], ["cpu_op", "cuda_runtime"], ["kernel"]])
def test_steps_whose_events_have_lost_their_time_are_compared_with_nobody(imported, tmp_path, only, kept):
    """Whatever lost it, all of a kind or nearly all; how many is reported, and no time of 1970 is in the breakdown."""
    _, said, told, rows = imported(*saved(tmp_path, untimed(0, 11, only=only, kept=kept), Profile(1).steps(20)))
    assert re.search(r"rank 0: \d+ events have no time \(ts and dur are 0\) \(steps [\d, -]+\)", said)
    assert {step for rank, step in rows if rank == 0} in (set(range(1, 10)), set(range(1, 11)))
    assert len([rank for rank, _ in rows if rank == 1]) == 20
    assert [one.whole for one in told] == [False, True]
    assert all(one.span_s < 1.0 for one in told)


def test_a_host_whose_events_have_lost_their_time_has_the_steps_before(imported, tmp_path):
    ranks = [untimed(rank, 11, on_host=True) for rank in range(2)]
    _, said, told, rows = imported(*saved(tmp_path, *ranks))
    assert {step for _, step in rows} == set(range(1, 10))
    assert ("have no time" in said, [one.whole for one in told]) == (True, [False, False])


def test_without_numbers_no_step_is_known_to_be_before_the_loss(imported, tmp_path):
    one = untimed(0, 11)
    for event in one.events:
        event["args"].pop("External id", None)
    _, said, _, rows = imported(*saved(tmp_path, one, Profile(1).steps(20)))
    assert {rank for rank, _ in rows} == {1}
    assert "it is compared with no other rank" in said


def test_a_healthy_or_slow_rank_is_not_accused_for_what_has_no_time(tmp_path, capsys):
    ranks = [Profile(rank, 4).steps(30, work=9000) for rank in range(1, 4)]
    said = panel(capsys, saved(tmp_path, untimed(0, 11, world=4, count=30), *ranks))
    assert "held the job back" not in said


def test_one_event_without_a_time_changes_nothing(imported, tmp_path, monkeypatch):
    monkeypatch.setattr("importers.kineto_events.FEW", 20)
    odd = Profile(0).steps(20)
    odd.span("cpu_op", "aten::add", -BASE_US, 0)
    _, said, told, rows = imported(*saved(tmp_path, odd, Profile(1).steps(20)))
    assert "rank 0: 1 events have no time (ts and dur are 0): too few to matter" in said
    assert (len(rows), all(one.whole for one in told)) == (40, True)


def test_a_trace_in_which_nothing_has_a_time_is_refused(imported, tmp_path):
    status, said, *_ = imported(*saved(tmp_path, untimed(0, 1)))
    assert (status, "no event in it has a time (ts and dur are 0)" in said) == (2, True)


# Communication by other libraries.

KERNELS = (
    VLLM,
    "void sglang::cross_device_reduce_2stage<__half, 8>(sglang::RankData*)",
    "void aiter::cross_device_reduce_1stage<__hip_bfloat16, 8>(aiter::RankData*)",
    "void quickreduce::allreduce_prototype_twoshot<quickreduce::AllReduceTwoshot<__half>>(__half const*)",
    "void c10d::symmetric_memory::two_shot_all_reduce_kernel<__nv_bfloat16, 16>(__nv_bfloat16**, unsigned int**)",
    "void (anonymous namespace)::multimem_one_shot_all_reduce_kernel<c10::BFloat16, 16>(c10::BFloat16*)",
    "void mscclpp::allreduce7<__half>(mscclpp::DeviceHandle)",
    "void deep_ep::internode_ll::dispatch<true, false, 7168>(void*, float*)",
    "void deep_ep::intranode::combine<__nv_bfloat16, 8, 768, 4096>(__nv_bfloat16*)",
    "nvshmemi_proxy_quiet_kernel()",
    "void rocshmem::barrier_all_kernel()",
    "oneccl_allreduce_large_kernel<sycl::half>",
    "oneapi::ccl::ring_allreduce",
    "void flashinfer::trtllm_allreduce_fusion::allreduce_fusion_kernel_oneshot_lamport<4, __half, 8>(Params)",
    "void tensorrt_llm::kernels::oneShotAllReduceKernel<__half, 8, true>(AllReduceParams)",
    "void userbuffers_fp16_sum_inplace_gpu_rr_rs_oop<4>(int)",
    "EpDispatchIntraNodeKernel_bf16",
    "void hybrid_ep::dispatch_kernel<hybrid_ep::INTRA_NODE_S2G_GROUP, 8>(Params)",
    "void a2a_combine_recv_kernel<true, 7168>(unsigned int*)",
    "void nixl_ep::dispatch<true, 7168>(void*)",
    "void mooncake::combine<7168, 9>(void*, int*)",
    "hcom_send__428_0_1",
    "all-reduce-start.1",
    "reduce-scatter.7",
    "collective-permute-start",
    "rcclDevKernel_Generic(rcclDevKernelArgs)",
    "ncclKernel_AllReduce_RING_LL_Sum_float(ncclWorkElem)",
    "void fbgemm_gpu::two_shot_all_reduce<true>(int, int, unsigned long, std::array<int, 8>)",
    "void fbgemm_gpu::one_shot_all_reduce_kernel(int)",
    "void barrier_on_stream_kernel_threadgroup<(threadgroup_t)2>(int, int)",
    "cnclSendKernel_b16(cnclDevComm*)",
    "void bkcl::p2p_kernel<float16>(void*)",
    "ixcclKernel_Generic(ixcclComm*)",
    "ecclP2pKernel",
    "nccldevkernel_allreduce_sum_bf16_ring_ll(nccldevkernelargsstorage<4096ul>)",
    "ncclDevKernel_Generic_1(ncclDevKernelArgsStorage<4096ul>)",
    "NCCLDEVKERNEL_ALLGATHER_RING_LL",
)
NO_COLLECTIVES = (
    "void at::native::reduce_kernel<512, 1, at::native::ReduceOp<float>>(at::native::ReduceOp<float>)",
    "void at::native::_scatter_gather_elementwise_kernel<128, 8>(int)",
    "triton_red_fused_all_gather_into_tensor_add_3",
    "void cutlass::all_gather_gemm_kernel<Gemm>(Params)",
    "void blockAllReduceSum<float>(float*)",
    "void layer_norm<WarpAllReduce>(float*)",
    "void broadcast_kernel<float>(int)",
    "vectorized_gather_kernel",
    "occlude_kernel",
    "void fbgemm_gpu::f8f8bf16_rowwise_gemm<128>(Params)",
    "void fbgemm::all_gather_gemm_kernel<Gemm>(Params)",
    "void fbgemm_gpu::permute_2D_sparse_data_kernel<true>(int)",
)


@pytest.mark.parametrize("name", KERNELS)
def test_a_collective_is_known_by_its_kernel(imported, tmp_path, name):
    """Whatever operator launches it: a rank that waits in it computes less than the other."""
    ranks = [Profile(rank).steps(3, meeting=name, operator="aten::add", work=4000 * (rank + 1)) for rank in (0, 1)]
    _, said, told, _ = imported(*saved(tmp_path, *ranks))
    assert [one.exposed_communication_s for one in told] == pytest.approx([0.0153, 0.0033])
    assert "no communication is recognised" not in said


@pytest.mark.parametrize("backend", ["nccl", "gloo", "xccl", "hccl", "mccl", "cncl", "rccl", "ucc"])
def test_the_hosts_spans_of_any_backend_are_communication(imported, tmp_path, backend):
    """Of traces without kernels."""
    one = Profile(world=1)
    for step in range(3):
        one.span("user_annotation", f"ProfilerStep#{step}", 10_000 * step, 9_900)
        one.span("cpu_op", "aten::mm", 10_000 * step + 100, 5_000)
        one.span("user_annotation", f"{backend}:all_reduce", 10_000 * step + 5_200, 3_000, tid=2)
    (told,) = imported(one.save(tmp_path / "rank0.json"))[2]
    assert (told.compute_s, told.exposed_communication_s) == pytest.approx((0.015, 0.009))


@pytest.mark.parametrize("name", NO_COLLECTIVES)
def test_a_kernel_of_one_device_is_no_collective(name):
    """Though its name has a part of one."""
    assert not is_collective_kernel(name)


@pytest.mark.parametrize(
    ("operator", "inside", "meets"),
    [
        ("vllm::all_reduce", None, True),
        ("_C_custom_ar::all_reduce", None, True),
        ("symm_mem::one_shot_all_reduce", None, True),
        ("sglang::reg_all_gather_into_tensor", None, True),
        ("fbgemm::two_shot_car_allreduce", None, True),
        ("fbgemm::nccl_allgather", None, True),
        ("fbgemm::all_gather_gemm", None, False),
        ("c10d::broadcast_", None, True),
        ("mpi:all_to_all", None, True),
        ("c10d::allgather_", "aten::copy_", False),
        ("symm_mem::fused_all_gather_matmul", None, False),
        ("aten::scatter_reduce", None, False),
        ("fsdp::all_gather_copy_in", None, False),
    ],
)
def test_a_collective_is_known_by_the_operator_that_launches_it(imported, tmp_path, operator, inside, meets):
    """The innermost one: a copy in a collective's operator is a copy."""
    ranks = [Profile(rank).steps(3, meeting="kernel_7", operator=operator) for rank in (0, 1)]
    for one in ranks if inside else ():
        for place in range(3):
            one.span("cpu_op", inside, 10_000 * place + 125, 20)
    _, said, told, _ = imported(*saved(tmp_path, *ranks))
    assert all((one.exposed_communication_s > 0) is meets for one in told)
    assert ("no communication is recognised" in said) is not meets


@pytest.mark.long
def test_nothing_recognised_is_said_before_nobody_is_cleared(tmp_path, capsys):
    """In the import and in the panel; a single rank has nobody to wait for."""
    ranks = [Profile(rank, 4).steps(30, meeting="kernel_7", operator="x", length=250_000) for rank in range(4)]
    files = saved(tmp_path, *ranks)
    assert analyze([*files, "--panel"]) == 0
    said = capsys.readouterr()
    assert "no communication is recognised" in said.err
    assert "no communication is recognised" in said.out
    assert "no rank holds this job back" not in said.out
    assert analyze([Profile(0, 1).steps(30, meeting="kernel_7").save(tmp_path / "one.json"), "--panel"]) == 0
    assert "no communication is recognised" not in capsys.readouterr().err


# Several devices of one process.


def two_devices(told_by="device"):
    one = Profile(info=False)
    for place in range(4):
        begin = 10_000 * place
        one.span("user_annotation", f"ProfilerStep#{place + 1}", begin, 9900)
        one.span("cpu_op", "aten::mm", begin + 50, 40)
        one.kernel("gemm", begin + 60, begin + 100, 8000)
        one.span("cpu_op", "aten::mm", begin + 100, 40, tid=2)
        one.kernel("gemm", begin + 110, begin + 150, 2000, device=1, tid=2)
        one.kernel("ncclDevKernel_Reduce_Sum_f32_RING_LL(x)", begin + 210, begin + 2150, 5950, device=1, tid=2)
    for event in one.events if told_by == "pid" else ():
        event["args"].pop("device", None)
    return one


@pytest.mark.parametrize("told_by", ["device", "pid"])
def test_each_device_of_a_process_has_its_own_times(imported, tmp_path, told_by):
    """What one computes hides nothing of another's collectives."""
    _, said, told, _ = imported(two_devices(told_by).save(tmp_path / "dp.json"))
    assert [one.device for one in told] == [0, 1]
    assert [one.compute_s for one in told] == pytest.approx([0.032, 0.008])
    assert [one.exposed_communication_s for one in told] == pytest.approx([0.0, 0.0238])
    assert "devices 0-1" in said


# Several files of a rank.


def cycles(tmp_path, name, *, restart=False, ranks=2, info=True):
    """Five windows of three steps each."""
    files = []
    for rank in range(ranks):
        for cycle in range(5):
            one = Profile(rank, ranks, info=info).steps(3, first=2 + 5 * cycle, work=3000 * (rank + 1))
            for event in one.events if restart else ():
                if event["name"].startswith("ProfilerStep#"):
                    event["name"] = f"ProfilerStep#{int(event['name'][13:]) - 5 * cycle}"
            files.append(one.save(tmp_path / name.format(rank=rank, cycle=1_790_000_000_000 + cycle)))
    return files


def test_files_of_a_rank_are_windows_of_one_run(imported, tmp_path):
    """In any order; its breakdown is of all of them."""
    files = cycles(tmp_path, "node1_41{rank}.{cycle}.pt.trace.json")
    status, said, told, rows = imported(*reversed(files))
    steps = [2 + 5 * cycle + place for cycle in range(5) for place in range(3)]
    assert (status, sorted(rows)) == (0, [(rank, step) for rank in (0, 1) for step in steps])
    assert [(one.rank, one.steps) for one in told] == [(0, 15), (1, 15)]
    assert [one.compute_s for one in told] == pytest.approx([0.045, 0.09])
    assert "10 files of 2 ranks" in said


@pytest.mark.long
def test_steps_that_begin_anew_in_each_window_are_numbered_on(imported, tmp_path):
    """The same on every rank; where one has fewer files nothing tells which is missing."""
    files = cycles(tmp_path, "rank{rank}.{cycle}.json", restart=True)
    assert sorted(imported(*files)[3]) == [(rank, step) for rank in (0, 1) for step in range(15)]
    status, said, *_ = imported(*files[1:])
    assert (status, "4 to 5 files" in said) == (2, True)


def test_windows_of_one_process_without_a_rank_are_rank_0(imported, tmp_path):
    """By the name that TensorBoard's handler gives them."""
    files = cycles(tmp_path, "node1_41{rank}.{cycle}.pt.trace.json", ranks=1, info=False)
    assert {rank for rank, _ in imported(*files)[3]} == {0}


def test_a_missing_window_shifts_no_collective(imported, tmp_path):
    """Those without a number of their own are counted, which needs all of them."""
    files = cycles(tmp_path, "node1_41{rank}.{cycle}.pt.trace.json")
    status, said, *_ = imported(*files[1:])
    assert (status, "rank 0: fewer files than other ranks" in said) == (0, True)
    content = (tmp_path / "out.jsonl").read_text()
    assert "collective" not in content


def test_files_that_all_say_rank_0_are_the_ranks_of_their_names(imported, tmp_path):
    """And that is said; where names tell none they are refused."""
    same = [Profile(0, 1).steps(3, work=3000 * (rank + 1)) for rank in range(3)]
    _, said, told, _ = imported(*saved(tmp_path, *same, name="17-TP-{}.trace.json"))
    assert [one.rank for one in told] == [0, 1, 2]
    assert "another rank in the file than in its name" in said
    status, said, *_ = imported(*saved(tmp_path, *same, name="{}.json"))
    assert status == 2
    assert "rank 0 is already in" in said


def test_a_file_that_contradicts_its_name_is_reported(imported, tmp_path):
    """What is in it is taken."""
    _, said, told, _ = imported(Profile(0).steps(3).save(tmp_path / "rank7.json"))
    assert [one.rank for one in told] == [0]
    assert "rank7.json: rank 0 by what is in it, rank 7 by its name" in said


@pytest.mark.parametrize(
    ("name", "rank"),
    [
        ("node1_local_rank0_rank8.json", 8),
        ("rank8_local_rank0.json", 8),
        ("rank8/local_rank0.json", 8),
        ("node_rank1_local_rank3_global_rank11.json", 11),
        ("node_rank1/rank9.json", 9),
        ("world_rank12.json", 12),
        ("trace_rank4.json", 4),
        ("my trace-rank-4.json", 4),
        ("RANK[3].json", 3),
        ("rank=3/trace.json", 3),
        ("trace.rank.3.json", 3),
        ("rank0003.json", 3),
        ("local_rank3.json", 3),
        ("LOCAL_RANK=3.json", 3),
        ("17-TP-3-DP-0-PP-0.trace.json.gz", 3),
        ("17-TP-3-DP-0-PP-1.trace.json.gz", None),
        ("node_rank1.json", None),
        ("node_rank1/local_rank3.json", None),
        ("group_rank2/trace.json", None),
        ("tp_rank1_pp_rank2.json", None),
        ("rank1234567.json", None),
        ("frank3.json", None),
    ],
)
def test_a_number_that_is_another_s_is_no_rank(name, rank):
    """A process' number on its node, a node's, or one within a group of a job."""
    assert rank_in(f"run/{name}") == rank


# What is on a device's lanes and is no kernel.


def with_syncs(rank, *, categories):
    """Each step waits for nearly all of its time, on lanes of the device, for a stream, an event and the device."""
    one = Profile(rank).steps(6)
    for place, name in enumerate(["Stream Sync", "Event Sync", "Device Sync", "Context Sync", "Stream Wait Event"] * 6):
        stream = 7 if name.startswith("Stream") else -1
        args = {"correlation": 1000 + place, "stream": stream, "device": 0, "cuda_sync_kind": name}
        one.span("cuda_sync", name, place // 5 * 10_000 + 100, 9500, stream, 0, **args)
    if not categories:
        for event in one.events:
            del event["cat"]
    return one


@pytest.mark.parametrize("categories", [True, False])
def test_waiting_on_a_stream_is_neither_work_nor_hides_communication(imported, tmp_path, categories):
    (tmp_path / "syncs").mkdir()
    _, _, plain, rows = imported(*saved(tmp_path, Profile(0).steps(6), Profile(1).steps(6)))
    files = saved(tmp_path / "syncs", *(with_syncs(rank, categories=categories) for rank in range(2)))
    _, said, told, with_rows = imported(*files)
    assert (told, with_rows) == (plain, rows)
    assert told[0].exposed_communication_s > 0.01
    assert "kernel launches" not in said


@pytest.mark.long
@pytest.mark.parametrize("category", ["gpu_user_annotation", "user_annotation"])
def test_a_collective_without_its_kernel_clears_and_accuses_nobody(tmp_path, capsys, category):
    """``nccl:all_reduce`` alone, as annotations have it: no communication is recognised, and there is no NaN."""
    ranks = []
    for rank in range(2):
        one = Profile(rank).steps(20, work=60_000 + 20_000 * rank, length=100_000)
        one.events = [event for event in one.events if event["name"] != NCCL]
        for place in range(20):
            begin = place * 100_000 + 60_100 + 20_000 * rank
            one.span(category, "nccl:all_reduce", begin, 39_000 - 20_000 * rank, 7, 0)
        ranks.append(one)
    files = saved(tmp_path, *ranks)
    said = panel(capsys, files)
    assert "held the job back" not in said
    assert analyze([*files, "--breakdown"]) == 0
    said += capsys.readouterr().out
    assert "nan" not in said.lower().split()


# How a trace is written.

WORD = '"PLACEHOLDER"'
NOT_JSON = {
    "quote": '"{"device": "cpu"}(12): run"',
    "nan": "nan",
    "infinity": "-Infinity",
    "python": "None",
}


#: What profilers write into strings all the same.
ODD_WORDS = {
    "backslash": '"torch\\cuda\\__init__.py(219): \\_lazy_init"',
    "control": '"line one\nline two\x00\x01\t\x1f"',
    "latin1": '"torch/_inductor/config.py(0): \udcfc\udcff\udce2\udc82"',
    "half a pair": '"config.py(0): \\ud800 \\udcff \\ud83d\\ude00"',
    "an escaped backslash": '"C:\\\\ud800\x02"',
}


def text(rank=0):
    one = Profile(rank).steps(40)
    one.span("python_function", "PLACEHOLDER", 300_000, 5)
    return json.dumps(one.about | {"traceEvents": one.events}, indent=1)


@pytest.mark.long
@pytest.mark.parametrize("piece", [2000, 1 << 23])
@pytest.mark.parametrize("place", ["name", "args", "host", "behind"])
@pytest.mark.parametrize("kind", ODD_WORDS)
def test_characters_that_json_does_not_allow_cost_no_rank(imported, tmp_path, monkeypatch, kind, place, piece):
    """In a name, an argument, before and behind the events; with them the trace says what it says without them."""
    monkeypatch.setattr("importers.kineto_pieces._PIECE", piece)
    monkeypatch.setattr("importers.kineto_pieces._TAIL", piece // 2)

    def made(word):
        said = text().replace(WORD, word) if place == "name" else text()
        if place == "args":
            said = said.replace('"stream": 7', f'"stream": 7, "kernel file": {word}', 40)
        if place == "host":
            said = said.replace("{", f'{{"host_name": {word},', 1)
        if place == "behind":
            said = said[: said.rindex("}")] + f', "traceName": {word}}}'
        return said.encode("utf-8", "surrogateescape")

    answers = []
    for name, word in (("plain", '"plain"'), ("odd", ODD_WORDS[kind])):
        (tmp_path / f"{name}.json").write_bytes(made(word))
        answers.append(imported(str(tmp_path / f"{name}.json")))
    (status, said, told, rows), (odd_status, odd_said, odd_told, odd_rows) = answers
    assert (status, odd_status) == (0, 0)
    assert (odd_told, odd_rows) == (told, rows)
    more = [line for line in odd_said.splitlines() if line not in said]
    assert all("characters that JSON does not allow" in line for line in more)
    assert len(more) == 1 or place != "name"


@pytest.mark.parametrize("piece", [2000, 1 << 23])
@pytest.mark.parametrize("kind", NOT_JSON)
def test_what_is_no_json_is_named_with_its_place_in_the_file(imported, tmp_path, monkeypatch, kind, piece):
    """By byte and line of the whole file, whatever the piece that was being read."""
    monkeypatch.setattr("importers.kineto_pieces._PIECE", piece)
    monkeypatch.setattr("importers.kineto_pieces._TAIL", piece // 2)
    data = text().replace(WORD, NOT_JSON[kind]).encode("utf-8", "surrogateescape")
    path = tmp_path / "bad.json"
    path.write_bytes(data)
    status, said, *_ = imported(str(path))
    assert status == 2
    place = re.search(r"\(byte ([\d,]+), line ([\d,]+)\)", said)
    assert place is not None, said
    byte, line = (int(number.replace(",", "")) for number in place.groups())
    begin = text().index(WORD)
    assert begin <= byte <= begin + len(NOT_JSON[kind]) + 1
    assert line == data.count(b"\n", 0, byte) + 1


def test_a_trace_that_breaks_off_or_goes_on_is_named_with_the_place(imported, tmp_path):
    """Half a file, and two files in one."""
    whole = text().encode()
    for name, data, byte in (("half", whole[:20_000], 20_000), ("two", whole + b"\n" + whole, len(whole) + 1)):
        path = tmp_path / f"{name}.json"
        path.write_bytes(data)
        status, said, *_ = imported(str(path))
        assert (status, f"byte {byte:,}, line" in said) == (2, True), said


@pytest.mark.parametrize("form", ["list", "indented list", "mark", "gz", "zst", "twice"])
def test_a_trace_is_the_same_in_every_form(imported, tmp_path, form):
    """A bare list of events, a byte order mark, packed, with a key that comes twice: `analyze` knows it, too."""
    document = json.loads(text())
    listed = json.dumps(document["traceEvents"], indent=2 if form == "indented list" else None).encode()
    data, end = {
        "list": (listed, ""),
        "indented list": (b" \n" + listed + b"\n", ""),
        "mark": (b"\xef\xbb\xbf" + text().encode(), ""),
        "gz": (gzip.compress(text().encode()), ".gz"),
        "zst": (zstandard.ZstdCompressor().compress(text().encode()), ".zst"),
        "twice": (text().replace("{", '{"schemaVersion": 1, "schemaVersion": 2,', 1).encode(), ""),
    }[form]
    path = tmp_path / f"rank0.json{end}"
    path.write_bytes(data)
    status, _, told, rows = imported(str(path))
    assert (status, told[0].steps, len(rows)) == (0, 40, 40)
    assert is_trace(str(path))


def test_utf_16_is_refused_by_name(imported, tmp_path):
    """With what converts it."""
    path = tmp_path / "rank0.json"
    path.write_bytes(text().encode("utf-16"))
    assert is_trace(str(path))
    status, said, *_ = imported(str(path))
    assert (status, "iconv -f UTF-16" in said) == (2, True)


OTHERS = {
    "gzip": (gzip.compress, ".gz"),
    "zstd": (zstandard.compress, ".zst"),
    "zip archive": (lambda data: b"PK\x03\x04" + data, "unpack it"),
    "bzip2": (bz2.compress, "unpack it"),
    "xz": (lzma.compress, "unpack it"),
    "tar archive": (lambda data: b"a.json".ljust(257, b"\0") + b"ustar\x0000" + data, "unpack it"),
    "pickle": (pickle.dumps, "export_chrome_trace"),
    "SQLite": (lambda data: b"SQLite format 3\0" + data, "export_chrome_trace"),
    "HTML": (lambda data: b"\r\n<!DOCTYPE html><html>" + data, "download"),
    "Git LFS": (lambda data: b"version https://git-lfs.github.com/spec/v1\noid sha256:1\n", "git lfs pull"),
}


@pytest.mark.parametrize("kind", OTHERS)
@pytest.mark.parametrize("packed", [False, True])
def test_a_file_of_another_kind_is_refused_by_its_name(imported, tmp_path, kind, packed):
    """With what to do with it; also inside of a .gz."""
    make, mend = OTHERS[kind]
    path = tmp_path / ("rank0.json.gz" if packed else "rank0.json")
    data = make(text().encode())
    path.write_bytes(gzip.compress(data) if packed else data)
    status, said, *_ = imported(str(path))
    assert (status, kind in said, mend in said) == (2, True, True)


@pytest.mark.parametrize(
    "about",
    [
        {"backend": None, "rank": 0, "world_size": 2},
        {"backend": ["nccl"], "rank": 0, "world_size": 2, "nccl_version": 7},
        {"backend": "nccl", "rank": "0", "world_size": "2"},
        {"backend": "nccl", "rank": None, "world_size": 2},
        {"backend": "nccl", "rank": -1, "world_size": -1},
        {},
        [],
        "nccl",
        None,
    ],
)
def test_what_a_trace_says_wrongly_of_its_rank_is_left_out(imported, tmp_path, about):
    """The trace is read, and its name tells the rank."""
    one = Profile(0).steps(3)
    one.about["distributedInfo"] = about
    status, _, told, _ = imported(one.save(tmp_path / "rank0.json"))
    assert (status, [(each.rank, each.steps) for each in told]) == (0, [(0, 3)])


def test_a_damaged_zst_is_named(imported, tmp_path):
    """One line, no traceback."""
    packed = zstandard.ZstdCompressor().compress(text().encode())
    for data in (packed[: len(packed) // 2], packed[:200] + bytes(50) + packed[250:], b"no zstd"):
        path = tmp_path / "rank0.json.zst"
        path.write_bytes(data)
        status, said, *_ = imported(str(path))
        assert status in (1, 2)
        assert "rank0.json.zst" in said
        assert len(said.splitlines()) == 1
