"""Cases of exchanges between ranks: what is told as waiting is what the compute stream waited for."""

import statistics

from experiments.gpu.bench import Bench
from experiments.gpu.case import Case, Reading
from experiments.gpu.compared import differences
from experiments.gpu.errors import NotPossibleError
from experiments.gpu.recorded import devices, median_s
from experiments.gpu.scripts.async_save import EVERY

#: Steps at the start that do not count.
WARM_UP = 8
#: What rank 1 sleeps in its forward pass, and how much of that must be told where it belongs.
SLEEP_MS, SHARE = 20.0, 0.2
#: Later than the probe waits for a device before it tells who it is.
LATE_S = 17


def _two_ranks(bench: Bench) -> Reading:
    run = bench.plain("ddp", "--backend=nccl" if bench.on_gpu else "--backend=gloo", "--steps=5", ranks=2)
    return Reading(f"two ranks trained over {run.truth[0]['backend']}", True)


def _ddp(bench: Bench, environ: dict[str, str] | None = None) -> Reading:
    run = bench.watched("ddp", f"--backend={bench.backend}", f"--sleep-ms={SLEEP_MS}", ranks=2, environ=environ)
    waits_ms = [1e3 * median_s(run.rows, "communication", rank, WARM_UP) for rank in (0, 1)]
    forward_ms = [1e3 * median_s(run.rows, "forward", rank, WARM_UP) for rank in (0, 1)]
    told = abs(waits_ms[0] - waits_ms[1] - SLEEP_MS) <= SHARE * SLEEP_MS
    worked = abs(forward_ms[1] - forward_ms[0] - SLEEP_MS) <= SHARE * SLEEP_MS
    words = f"over {bench.backend}: rank 0 waits {waits_ms[0]:.1f} ms, rank 1 {waits_ms[1]:.1f} ms"
    return Reading(f"{words}; forward {forward_ms[0]:.1f} and {forward_ms[1]:.1f} ms", told and worked)


def _nccl2(bench: Bench) -> Reading:
    if bench.on_gpu and not _has_nccl2():
        raise NotPossibleError("this PyTorch has one NCCL back end (nccl2 came with 2.15)")
    return _ddp(bench)


def _legacy(bench: Bench) -> Reading:
    return _ddp(bench, {"TORCH_DIST_USE_NCCL2": "0"})


def _has_nccl2() -> bool:
    from torch.distributed import distributed_c10d

    return hasattr(distributed_c10d, "ProcessGroupNCCL2")


def _fsdp(bench: Bench) -> Reading:
    if bench.on_gpu and bench.backend != "nccl":
        raise NotPossibleError("NCCL lets no two ranks share this GPU, and gloo shards nothing on one")
    run = bench.watched("fsdp", f"--backend={bench.backend}", ranks=2)
    steps = range(WARM_UP, len(run.truth[0]["steps"]))
    rows = [row for row in run.rows if row.rank == 0]
    (waits,) = differences(rows, run.truth[0]["steps"], {"waits": ("communication",)}, steps)
    return Reading(f"{waits.words}, {waits.error:.0%} apart", waits.error <= bench.either(SHARE, 0.5))


def _pipeline(bench: Bench) -> Reading:
    run = bench.watched("pipeline", f"--backend={bench.backend}", ranks=2)
    named = devices(run.recording)[1]
    step_ms = 1e3 * statistics.median(row.step_s for row in run.rows if row.rank == 1 and row.step >= WARM_UP)
    waits_ms = 1e3 * median_s(run.rows, "communication", 1, WARM_UP)
    idle_ms = step_ms - 1e3 * run.truth[1]["alone_s"]
    right = abs(waits_ms - idle_ms) <= 0.3 * step_ms and waits_ms > 0.3 * step_ms
    words = f"the light stage is {named}, waits {waits_ms:.1f} ms of a step of {step_ms:.1f} ms (own: {idle_ms:.1f} ms)"
    return Reading(words, right and (named.startswith("GPU-") or not bench.on_gpu))


def _async_save(bench: Bench) -> Reading:
    run = bench.watched("async_save")
    rows = [row for row in run.rows if row.step >= WARM_UP]
    beside = [row for row in rows if row.step % EVERY in (EVERY // 2, EVERY // 2 + 1)]
    others = [row for row in rows if row not in beside]
    told_ms = [1e3 * median_s(chosen, "communication") for chosen in (beside, others)]
    words = (
        f"{len(run.truth[0]['saved'])} saves; communication {told_ms[0]:.2f} ms beside one, {told_ms[1]:.2f} ms else"
    )
    return Reading(words, told_ms[0] - told_ms[1] <= bench.either(1.0, 5.0))


def _alone(bench: Bench) -> Reading:
    run = bench.watched("ddp", "--steps=40")
    rows = [row for row in run.rows if row.step >= WARM_UP]
    share = statistics.median(row.phases.get("communication", 0.0) / row.step_s for row in rows)
    backend = run.truth[0]["backend"]
    return Reading(
        f"{backend}: {len(run.rows)} of 40 steps, communication {share:.1%} of them",
        len(run.rows) >= 39 and share < 0.1,
    )


def _late(bench: Bench) -> Reading:
    run = bench.watched("ddp", "--steps=20", f"--begin-after-s={LATE_S}")
    named = devices(run.recording).get(0, "nobody")
    return Reading(f"first backward after {LATE_S} s: the device is {named}", named.startswith("GPU-"))


_SLEEPS = "rank 0 waits 20 ms more than rank 1, whose forward takes 20 ms more"

CASES = (
    Case(
        "two-ranks", 40, "NCCL lets two ranks share this GPU", "which back end the cases of two ranks use", _two_ranks
    ),
    Case("nccl-alone", 40, "every step reported, communication under 10 %", "NCCL at world size 1", _alone),
    Case("late", 45, "the device is a GPU", "a model whose first backward comes late has conditions too", _late, False),
    Case("ddp-nccl2", 60, _SLEEPS, "DDP's exposed waits with the NCCL of PyTorch 2.15", _nccl2),
    Case("ddp-legacy", 60, _SLEEPS, "DDP's exposed waits with TORCH_DIST_USE_NCCL2=0", _legacy),
    Case(
        "fsdp2", 60, "communication within 20 % of own events", "what FSDP2's compute stream waits for, no more", _fsdp
    ),
    Case(
        "1f1b", 60, "the light stage waits; its device is a GPU", "pipelines: device time, coalesced waits", _pipeline
    ),
    Case(
        "async-save",
        45,
        "saving adds under 1 ms of communication",
        "a saving thread is not counted as waiting",
        _async_save,
    ),
)
