"""The all-reduce of a benchmark: over ranks that it starts on this node, or over those that a launcher has started.

Rule of this file: PyTorch is an argument. What was measured before a rank failed is kept; the failure is told.
"""

import os
from collections.abc import Callable, Mapping
from typing import Any

from paceline.rated import CPU, HOST, Speed

from .busy import cpu_use, others_ratio, own_cpu_s, own_cpus
from .launched_ranks import LaunchedRanks
from .local_ranks import LocalRanks, RankError
from .rank import place
from .results import ALL_REDUCE, BUS, BYTES, Results
from .speed import speed
from .sweep import LARGEST_CPU, LARGEST_GPU, bus_bytes_per_s, sweep

#: Ranks on a node without GPUs.
MOST_CPU_RANKS = 4

OnSize = Callable[[int], None]


def backend_of(torch: Any, *, cpu: bool) -> str:
    """NCCL (RCCL on ROCm) between GPUs, gloo between processors."""
    gpus = not cpu and torch.cuda.is_available() and torch.distributed.is_nccl_available()
    return "nccl" if gpus else "gloo"


def local_count(torch: Any, backend: str) -> int:
    """How many ranks this node's own all-reduce has: one a GPU, or some processors."""
    if backend == "nccl":
        return int(torch.cuda.device_count())
    return max(2, min(MOST_CPU_RANKS, os.cpu_count() or 1))


def local(
    torch: Any,
    backend: str,
    count: int,
    budget_s: float,
    environ: Mapping[str, str],
    results: Results,
    on_size: OnSize,
    on_start: Callable[[], None],
) -> None:
    """Start ``count`` ranks, and put what they measure into ``results``; ``on_start`` is called until they begin."""
    if count < 2:
        results.skip(HOST, ALL_REDUCE, "all_reduce needs two GPUs; start one rank per GPU with torchrun or srun")
        return
    store = torch.distributed.TCPStore("127.0.0.1", 0, is_master=True, wait_for_workers=False)
    sampled: list[tuple[int, list[float]]] = []
    before = cpu_use(cpus=own_cpus())
    ranks = LocalRanks(count, backend, store.port, _largest(backend), budget_s, environ)
    try:
        ranks.run(on_size, lambda size, speeds: sampled.append((size, speeds)), on_start)
    except RankError as error:
        results.skip(device_of(backend), ALL_REDUCE, str(error), failed=True)
    finally:
        ranks.close()  # They are waited for, so what they used is known as our own.
    _add(results, backend, count, sampled, others_ratio(before, cpu_use(cpus=own_cpus())))


def launched(
    torch: Any, backend: str, ranks: LaunchedRanks, budget_s: float, results: Results, on_size: OnSize
) -> None:
    """Take part as one of the ``ranks`` that are there."""
    sampled: list[tuple[int, list[float]]] = []
    before = after = None
    try:
        # Of all processors, for a launcher may have given each rank some of its own.
        before = cpu_use(beside_s=ranks.beside_s("before", own_cpu_s()))
        device, timer = place(torch, backend, ranks.local_rank)
        ranks.join(backend)
        for each in sweep(torch, device, timer, _largest(backend), budget_s, on_size):
            sampled.append((each.size_bytes, each.speeds))
        after = cpu_use(beside_s=ranks.beside_s("after", own_cpu_s()))
    except (RuntimeError, ValueError) as error:
        why = f"another rank has gone, or they cannot reach each other: {str(error).splitlines()[0][:200]}"
        results.skip(device_of(backend), ALL_REDUCE, why, failed=True)
    _add(results, backend, ranks.ranks, sampled, others_ratio(before, after))


def device_of(backend: str) -> str:
    """Whose speed it is: between GPUs the node's, over gloo the processors'."""
    return HOST if backend == "nccl" else CPU


def _largest(backend: str) -> int:
    return LARGEST_GPU if backend == "nccl" else LARGEST_CPU


def _add(
    results: Results, backend: str, ranks: int, sampled: list[tuple[int, list[float]]], busy_ratio: float | None
) -> None:
    device = device_of(backend)
    for size, speeds in sampled:
        buses = [bus_bytes_per_s(each, ranks) for each in speeds]
        for name, values in ((ALL_REDUCE, speeds), (BUS, buses)):
            results.speeds.append(_rated(device, name, values, size, ranks, busy_ratio))
    results.notes[f"{device}/{ALL_REDUCE}"] = results.notes[f"{device}/{BUS}"] = f"{backend}, {ranks} ranks"


def _rated(device: str, name: str, values: list[float], size: int, ranks: int, busy_ratio: float | None) -> Speed:
    return speed(device, name, BYTES, values, busy_ratio, size_bytes=size, ranks=ranks)
