"""Cases of harm: a script that Paceline watches ends as it would have, and computes the same as fast."""

import statistics

from experiments.gpu.bench import Bench, Run
from experiments.gpu.case import Case, Reading

#: How much longer a copy beside a product may take with marks between them.
SLOWER = 0.05
REPLAYS = 200


def _ended(run: Run) -> str:
    """How it ended, with what Paceline complained of."""
    complaints = [line for line in run.said.splitlines() if line.startswith("paceline: timing stopped")]
    return f"status {run.status}" + (f", {complaints[0]}" if complaints else "")


def _capture(bench: Bench) -> Reading:
    run = bench.watched("capture", may_fail=True)
    right = run.status == 0 and run.truth[0]["replayed"] == [2.0] * 8 and "timing stopped" not in run.said
    return Reading(f"{_ended(run)}, {len(run.rows)} of 80 steps told", right and len(run.rows) >= 70)


def _workers(bench: Bench) -> Reading:
    loaders = 20 if bench.on_gpu else 5
    run = bench.watched("loader", f"--loaders={loaders}", may_fail=True)
    killed = run.truth[0]["killed"] if run.truth else "unknown"
    words = f"{_ended(run)}, {killed} of {2 * loaders} workers died, {len(run.rows)} of {5 * loaders} steps told"
    return Reading(words, run.status == 0 and killed == 0 and len(run.rows) >= 4 * loaders)


def _overlap(bench: Bench) -> Reading:
    def step_ms(run: Run) -> float:
        return 1e3 * float(statistics.median(step["step"] for step in run.truth[0]["steps"][10:]))

    one = {"CUDA_DEVICE_MAX_CONNECTIONS": "1"}
    free_ms, timed_ms = (
        step_ms(bench.plain("overlap", f"--marks={marks}", environ=one)) for marks in ("none", "timed")
    )
    told_ms = step_ms(bench.watched("overlap", "--marks=phase", environ=one))
    words = f"{free_ms:.2f} ms alone, {timed_ms:.2f} ms with a timed event of one's own, {told_ms:.2f} ms watched"
    return Reading(words, told_ms <= free_ms * (1 + SLOWER))


def _in_backward(bench: Bench) -> Reading:
    run = bench.watched("in_backward", "--steps=30")
    steps = {row.step for row in run.rows}
    return Reading(f"{len(steps)} of 30 steps told", 28 <= len(steps) <= 30)


def _replay(bench: Bench) -> Reading:
    run = bench.watched("replay", f"--replays={REPLAYS}", may_fail=True)
    if run.status:
        return Reading(_ended(run), False)
    losses, grown = run.truth[0]["losses"], run.truth[0]["grown_mib"]
    words = f"{_ended(run)}, loss {losses[0]:.3g} to {losses[-1]:.3g}, {grown:.1f} MiB more, {len(run.rows)} rows"
    return Reading(words, losses[-1] < losses[0] and grown < 64 and len(run.rows) >= 0.9 * REPLAYS)


def _compiled(bench: Bench) -> Reading:
    told = []
    for mode in ("default", "reduce-overhead") if bench.on_gpu else ("eager",):
        run = bench.watched("compiled", f"--mode={mode}", "--steps=30", may_fail=True)
        told.append((mode, _ended(run), len(run.rows), run.status))
    words = "; ".join(f"{mode}: {ended}, {rows} of 30 steps" for mode, ended, rows, _ in told)
    return Reading(words, all(not status and rows >= 28 and "stopped" not in ended for _, ended, rows, status in told))


CASES = (
    Case(
        "capture",
        40,
        "status 0, the graph is right, steps reported",
        "a second of global capture with events held",
        _capture,
        False,
    ),
    Case(
        "workers", 60, "status 0, no worker dies", "loaders forked after steps free no event of their parent", _workers
    ),
    Case(
        "overlap",
        60,
        "watched at most 5 % longer than alone",
        "CUDA_DEVICE_MAX_CONNECTIONS=1: a mark serialises no copy beside a product",
        _overlap,
        False,
    ),
    Case("in-backward", 30, "every step reported", "an optimizer that steps inside backward", _in_backward),
    Case("replay", 40, "every replay reported, memory bounded", "whole steps replayed from a graph", _replay, False),
    Case("compiled", 90, "status 0, every step reported", "torch.compile, with graphs of its own too", _compiled),
)
