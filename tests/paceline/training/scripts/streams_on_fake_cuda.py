"""Drives real PyTorch on the fake device as FSDP, DDP, asynchronous savers and whole-step graphs do.

Each case prints one line of JSON: what a rank tells of it, and the truth, which is known because it was launched here.
"""

import functools
import json
import threading
from collections.abc import Callable
from typing import Any

import torch
import torch.distributed as dist
from torch import nn

from paceline.sidecar.decode import MarkDecoder, fault_in
from paceline.sidecar.rank_rows import PARTS
from paceline.training import activation
from paceline.training import probe as hot
from paceline.training.accelerator import Accelerator
from paceline.training.device_clock import DeviceClock
from paceline.training.messages import Marks
from tests.paceline.training.fake_cuda import CUDAGraph, FakeCuda, Stream

cuda = FakeCuda()
cuda.install(torch)
device = torch.device("cuda", 0)
#: What the device's own side of a work does when its result is waited for: nothing but gloo's, unless a case says so.
on_wait: list[Callable[[], None]] = []
real_wait = torch._C._distributed_c10d.Work.wait


def wait(self: Any, *args: Any) -> Any:
    while on_wait:
        on_wait.pop(0)()
    return real_wait(self, *args)


torch._C._distributed_c10d.Work.wait = wait
#: ... and how long the next all-gather takes it.
gathering_ms = [0.0]
real_gather = dist.all_gather_into_tensor


@functools.wraps(real_gather)
def all_gather_into_tensor(*args: Any, **kwargs: Any) -> Any:
    work = real_gather(*args, **kwargs)
    torch.cuda.current_stream(device).launch(gathering_ms[0])
    return work


dist.all_gather_into_tensor = dist.distributed_c10d.all_gather_into_tensor = all_gather_into_tensor
session = activation.activate()
probe = session.probe
dist.init_process_group("gloo", store=dist.HashStore(), rank=0, world_size=1)
compute, side = cuda.default, Stream(cuda)


def now() -> int:
    return int(cuda.now_ms * 1e6)


hot.perf_counter_ns = now  # type: ignore[attr-defined]  # the host's time is the device's: launching takes none


def told(case: Callable[[], dict[str, float]]) -> None:
    """Run ``case``, let the device finish, and print what its marks come to beside the truth."""
    probe.reset()
    probe.most, probe.device = 1_000_000, device
    cuda.now_ms = compute.done_ms = side.done_ms = max(cuda.now_ms, compute.done_ms, side.done_ms)
    clock = DeviceClock(probe, Accelerator(torch, device), now=now)
    probe.use(clock)
    truth = case()
    cuda.advance(1e6)
    message = Marks(marks=clock.translate(list(probe.ring)), offset_ns=0, on_device=True)
    assert fault_in(message) is None
    decoder = MarkDecoder()
    reports = [decoder.decode(message), decoder.end()]
    steps = [dict(zip(PARTS, row.seconds, strict=True)) for report in reports if report for row in report.steps]
    calls = [
        {"operation": row.operation, "duration": row.duration_s, "wait": row.wait_s}
        for report in reports
        if report
        for row in report.collectives
    ]
    rows = [{name: round(took * 1e3, 3) for name, took in step.items() if took == took} for step in steps]
    print(json.dumps({"case": case.__name__, "steps": rows, "collectives": calls, "truth": truth, "off": probe.off}))


weights = nn.Parameter(torch.ones(4))
optimizer = torch.optim.SGD([weights], lr=0.1)


def stands_until(event: Any) -> float:
    """Milliseconds that the stream that computes will stand for ``event``, which it is told to wait for."""
    stands = max(event.at_ms - max(compute.done_ms, cuda.now_ms), 0.0)
    torch.cuda.current_stream(device).wait_event(event)
    return stands


def gather(took_ms: float) -> Any:
    """An all-gather on its own stream, as ``fully_shard`` issues it; the event behind it."""
    side.wait_stream(compute)
    gathering_ms[0] = took_ms
    with torch.cuda.stream(side):
        dist.all_gather_into_tensor(torch.empty(4), torch.ones(4))
        return side.record_event()


def sharded() -> dict[str, float]:
    """Twelve layers whose next all-gather overlaps with computing: 20 ms of them each step, 2 ms in the way."""
    exposed = 0.0
    for _ in range(3):
        exposed = 0.0
        probe.mark(2)
        compute.launch(0.0)
        event = gather(2.0)
        for layer in range(12):
            exposed += stands_until(event)
            if layer < 11:
                event = gather(18.0 / 11)
            compute.launch(5.0)
        probe.mark(16 + 2)
        loss = weights.sum()
        handle = loss.grad_fn.register_prehook(lambda _: compute.launch(30.0))
        loss.backward()
        handle.remove()
        optimizer.step()
    return {"communication": exposed, "forward": 60.0, "backward": 30.0, "duration": 18.0 / 11}


def reduced_beside() -> dict[str, float]:
    """DeepSpeed's way: gradients are reduced on a stream of its own; computing waits for it, neither named."""
    for _ in range(3):
        loss = weights.sum()
        handle = loss.grad_fn.register_prehook(lambda _: compute.launch(30.0))
        loss.backward()
        handle.remove()
        side.wait_stream(compute)
        with torch.cuda.stream(side):
            dist.all_reduce(torch.ones(4))
            side.launch(9.0)
            event = torch.cuda.Event()
            event.record()
        compute.launch(4.0)
        event.wait()
        optimizer.step()
    return {"communication": 5.0, "backward": 30.0}


def copies_beside() -> dict[str, float]:
    """A loader that copies on a stream of its own is waited for, but by no other rank."""
    copying = Stream(cuda)
    for _ in range(3):
        gather(0.0)
        probe.mark(2)
        copying.wait_stream(compute)
        copying.launch(7.0)
        compute.wait_stream(copying)
        compute.launch(5.0)
        probe.mark(16 + 2)
        weights.sum().backward()
        optimizer.step()
    return {"communication": 0.0, "forward": 12.0}


def bucketed() -> dict[str, float]:
    """DDP whose stream waits where a bucket is issued: two buckets of 6 ms behind 4 ms of gradients each."""
    model = nn.Sequential(*[nn.Linear(300, 300, bias=False) for _ in range(4)])
    ddp = nn.parallel.DistributedDataParallel(model, bucket_cap_mb=0.5)
    session.groups.world().waits_at_issue = True
    for parameter in model.parameters():
        parameter.register_hook(lambda gradient: compute.launch(2.0))
    buckets: list[int] = []

    def exchange(state, bucket):  # type: ignore[no-untyped-def]  # DDP wants its own words or none
        buckets.append(bucket.index())
        work = dist.all_reduce(bucket.buffer(), async_op=True)
        side.wait_stream(compute)
        side.launch(6.0)
        compute.done_ms = side.done_ms  # as nccl2 does by itself, unseen by Python
        return work.get_future().then(lambda future: future.value()[0])

    ddp.register_comm_hook(None, exchange)
    step = torch.optim.SGD(model.parameters(), lr=0.1)
    for _ in range(8):
        buckets.clear()
        ddp(torch.ones(1, 300)).sum().backward()
        step.step()
        step.zero_grad()
    session.groups.world().waits_at_issue = False
    return {"communication": 6.0 * len(buckets), "backward": 8.0, "buckets": float(len(buckets))}


def replayed() -> dict[str, float]:
    """A whole step in one graph: 3 ms of work, replayed 200 times, with a loader before each."""
    weights.sum().backward()
    optimizer.step()
    graph = CUDAGraph(cuda)
    with cuda.graph(graph):
        weights.sum().backward()
        cuda.current_stream().launch(3.0)
        optimizer.step()
    for _ in range(200):
        probe.mark(0)
        probe.mark(16)
        graph.replay()
    return {"backward": 3.0, "replays": 200.0}


def issued_ahead() -> dict[str, float]:
    """The host is 20 ms ahead of the device when it issues an exchange of 5 ms, which is waited for."""
    for _ in range(3):
        probe.mark(2)
        compute.launch(20.0)
        work = dist.all_reduce(torch.ones(2), async_op=True)
        side.wait_stream(compute)
        side.launch(5.0)
        on_wait.append(lambda: setattr(compute, "done_ms", side.done_ms))
        work.wait()
        probe.mark(16 + 2)
        weights.sum().backward()
        optimizer.step()
    return {"communication": 5.0, "duration": 5.0}


def saved_beside() -> dict[str, float]:
    """Another thread talks to other ranks while the training thread is in a backward: none of its business."""

    def save() -> None:
        dist.all_reduce(torch.ones(2))
        dist.all_reduce(torch.ones(2), async_op=True).wait()

    def beside(_: Any) -> None:
        thread = threading.Thread(target=save)
        thread.start()
        thread.join()
        compute.launch(4.0)

    for _ in range(3):
        loss = weights.sum()
        handle = loss.grad_fn.register_prehook(beside)
        loss.backward()
        handle.remove()
        optimizer.step()
    return {"communication": 0.0, "backward": 4.0}


for case in (sharded, reduced_beside, copies_beside, bucketed, replayed, issued_ahead, saved_beside):
    told(case)
dist.destroy_process_group()
