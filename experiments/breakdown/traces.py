"""Made-up PyTorch profiler traces of jobs on GPUs, with the properties of real ones.

Rule of this file: a host that launches and a device that follows, in whole microseconds, from a seed. Kernels run in
the order of their launches on each stream, when the device comes to them: with much to do it falls behind its host, and
runs a step's kernels while the host is steps ahead; with little it waits for launches. Collectives run on a stream of
their own beside the backward, copies on a third.
"""

import random
from dataclasses import dataclass, field
from typing import Any

Event = dict[str, Any]

#: Threads, and streams of the device.
_MAIN, _BACKWARD, _COMPUTE, _COMMUNICATION, _COPY = 100, 200, 7, 20, 24
_TO_DEVICE_US = 5


@dataclass
class Made:
    """How a trace is made. Times in microseconds."""

    rank: int = 0
    world: int = 2
    steps: int = 3
    layers: int = 12
    seed: int = 0
    #: What a kernel takes, and from one launch to the next.
    kernel_us: int = 900
    launch_us: int = 300
    #: How long the loader takes, and how far behind its host the device is when the trace begins.
    data_us: int = 400
    behind_us: int = 0
    collective_us: int = 1500
    first_step: int = 5
    begin_us: int = 1_000_000
    #: Variants: see ``document``.
    marks: bool = True
    training: bool = True
    rccl: bool = False
    before_2022: bool = False
    distributed: bool = True
    all_to_all: bool = False
    annotation: str = ""
    about: dict[str, Any] = field(default_factory=dict)


class _Trace:
    """Events as they come, the host's clock, and until when each stream is busy."""

    def __init__(self, made: Made) -> None:
        self.made = made
        self.random = random.Random((made.seed << 20) + made.rank)
        self.events: list[Event] = []
        self.now = made.begin_us
        self.free = dict.fromkeys((_COMPUTE, _COMMUNICATION, _COPY), made.begin_us + made.behind_us)
        self.number = 0

    def span(self, name: str, start: int, end: int, cat: str, tid: int, **args: Any) -> None:
        self.events.append(
            {"ph": "X", "cat": cat, "name": name, "pid": 1, "tid": tid, "ts": start, "dur": end - start, "args": args}
        )

    def launch(self, thread: int, stream: int, name: str, length: int, after: int = 0, **args: Any) -> int:
        """A kernel or copy launched now; when it ends."""
        self.number += 1
        call = "cudaMemcpyAsync" if name.startswith("Mem") else "cudaLaunchKernel"
        call = call.replace("cuda", "hip") if self.made.rccl else call
        self.span(call, self.now, self.now + 4, "cuda_runtime", thread, correlation=self.number)
        start = max(self.now + _TO_DEVICE_US, self.free[stream], after)
        self.free[stream] = start + length
        cat = {"Memcpy": "gpu_memcpy", "Memset": "gpu_memset"}.get(name[:6], "kernel")
        self.span(name, start, start + length, cat, stream, correlation=self.number, stream=stream, device=0, **args)
        return start + length

    def operator(self, name: str, thread: int, kernel: str, gaps: int = 1) -> int:
        """An operator that launches one kernel; when that ends."""
        begin = self.now
        self.now += 3
        length = max(int(self.made.kernel_us * self.random.uniform(0.6, 1.4)), 1)
        end = self.launch(thread, _COMPUTE, kernel, length)
        self.now += max(int(self.made.launch_us * self.random.uniform(0.7, 1.3)) * gaps - 3, 5)
        self.span(name, begin, self.now - 1, "cpu_op", thread, **{"External id": self.number})
        return end

    def collective(self, thread: int, after: int) -> None:
        """A collective of the default group, launched now, that needs what ends at ``after``."""
        made, begin = self.made, self.now
        kind = "all_to_all" if made.all_to_all else "allreduce"
        said = {"Collective name": kind, "In msg nelems": 1024, "Out msg nelems": 1024, "Group size": made.world}
        said |= {"dtype": "BFloat16", "Process Group Name": "0"}
        self.now += 10
        plain = "SendRecv" if made.all_to_all else "AllReduce_Sum_bf16_RING_LL"
        name = "ncclDevKernel_Generic_4(ncclDevKernelArgsStorage<4096ul>)" if made.rccl else f"ncclDevKernel_{plain}(x)"
        length = int(made.collective_us * self.random.uniform(0.8, 1.2))
        self.launch(thread, _COMMUNICATION, name, length, after, **(said if made.rccl else {}))
        self.now += 10
        self.span("record_param_comms", begin + 2, self.now - 2, "cpu_op", thread, **said)
        self.span(f"nccl:{kind}", begin, self.now, "user_annotation", thread)


def document(made: Made) -> dict[str, Any]:
    """The trace, as its file's JSON."""
    trace = _Trace(made)
    for number in range(made.steps):
        begin = trace.now
        _step(trace)
        if made.marks:
            name = f"ProfilerStep#{made.first_step + number}"
            trace.span(name, begin, trace.now - 1, "user_annotation", _MAIN)
        elif made.annotation:
            trace.span(f"{made.annotation} {number}", begin, trace.now - 1, "user_annotation", _MAIN)
    events = [_older(event) for event in trace.events] if made.before_2022 else trace.events
    about = {"backend": "nccl", "rank": made.rank, "world_size": made.world}
    head: dict[str, Any] = {"schemaVersion": 1, "deviceProperties": [{"id": 0, "name": "made up"}]}
    head |= {"distributedInfo": about} if made.distributed else {}
    return {**head, **made.about, "traceEvents": events, "traceName": "made.json"}


def _step(trace: _Trace) -> None:
    made, begin = trace.made, trace.now
    if made.data_us:
        trace.now += max(made.data_us, 2)
        loader = "enumerate(DataLoader)#_MultiProcessingDataLoaderIter.__next__"
        trace.span(loader, begin, trace.now - 1, "user_annotation", _MAIN)
    copy = trace.now
    trace.launch(_MAIN, _COPY, "Memcpy HtoD (Pinned -> Device)", 700)
    trace.now += 20
    trace.span("aten::copy_", copy, trace.now - 1, "cpu_op", _MAIN)
    for layer in range(made.layers):
        end = trace.operator("aten::linear", _MAIN, f"gemm_{layer % 3}")
        if not made.training and layer % 4 == 3:
            trace.collective(_MAIN, end)
    if not made.training:
        return
    for layer in range(made.layers):
        end = trace.operator(
            "autograd::engine::evaluate_function: AddmmBackward0", _BACKWARD, f"gemm_backward_{layer % 3}"
        )
        if layer % 4 == 3:
            trace.collective(_BACKWARD, end)
    begin = trace.now
    trace.launch(_MAIN, _COMPUTE, "multi_tensor_apply_kernel", made.kernel_us, trace.free[_COMMUNICATION])
    trace.now += 60
    trace.span("Optimizer.step#AdamW.step", begin, trace.now - 1, "user_annotation", _MAIN)


_OLDER = {"cpu_op": "Operator", "kernel": "Kernel", "cuda_runtime": "Runtime", "gpu_memcpy": "Memcpy"}


def _older(event: Event) -> Event:
    """The same as PyTorch 1.8 wrote it: other categories, and annotations are operators."""
    args = {name.replace("External id", "external id"): value for name, value in event["args"].items()}
    cat = _OLDER.get(event["cat"], "Operator" if event["cat"] == "user_annotation" else event["cat"])
    return event | {"cat": cat, "args": args}
