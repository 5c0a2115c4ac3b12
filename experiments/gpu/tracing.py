"""Cases of other witnesses: a profiler trace of the same run, and the run with the probe off and on in turn."""

import statistics

from experiments.gpu import recorded
from experiments.gpu.bench import BUDGET, Bench, Run
from experiments.gpu.case import Case, Reading
from paceline import topics
from paceline.events import JobDescribed

#: How far a phase of the trace may be from the live one, as a share of the step: PyTorch's profiler costs time itself.
SHARE = 0.1
PHASES = ("forward", "backward", "optimizer", "communication")
#: What the probe may add to a step, and how far two runs may be apart that are alike.
ADDED, APART = 0.005, 0.03
#: Layers that are sharded one by one, each with marks of its own, and steps enough to choose how many are told.
SHARDS, STEPS = 96, 120


def _kineto(bench: Bench) -> Reading:
    run = bench.watched("traced")
    imported = run.recording.with_name("imported.jsonl")
    bench.paceline("import", "kineto", run.recording.with_name("rank0.pt.trace.json"), "-o", imported, "--quiet")
    first, last = run.truth[0]["first"] + 2, run.truth[0]["last"]
    live = [row for row in run.rows if first <= row.step < last]
    traced = recorded.rows(imported)
    step_s = statistics.median(row.step_s for row in live)
    apart = {phase: recorded.median_s(traced, phase) - recorded.median_s(live, phase) for phase in PHASES}
    words = ", ".join(
        f"{phase} {1e3 * recorded.median_s(live, phase):.2f} ms ({1e3 * apart[phase]:+.2f})" for phase in PHASES
    )
    right = len(traced) >= 8 and all(abs(seconds) <= bench.either(SHARE, 0.2) * step_s for seconds in apart.values())
    return Reading(f"{len(traced)} steps traced; live (trace beside it): {words}", right)


def _overhead(bench: Bench) -> Reading:
    run = bench.watched("steady", options=("--measure-overhead",))
    costs = [event.probe_cost for event in recorded.events(run.recording, topics.JOB, JobDescribed)]
    told = [cost for cost in costs if cost is not None and cost.added_s is not None]
    if not told:
        return Reading(f"no interval from {len(run.rows)} steps", False)
    cost = told[-1]
    added, low, high = (1e6 * (each or 0.0) for each in (cost.added_s, cost.added_low_s, cost.added_high_s))
    step_ms = 1e3 * (cost.step_s or 0.0)
    words = f"{added:+.0f} us [{low:+.0f}, {high:+.0f}] on a step of {step_ms:.2f} ms, {cost.pairs} pairs"
    return Reading(words, added <= 1e3 * step_ms * bench.either(ADDED, 20 * ADDED))


def _budget(bench: Bench) -> Reading:
    def mean_ms(run: Run) -> float:
        return 1e3 * float(statistics.fmean(step["step"] for step in run.truth[0]["steps"][STEPS // 3 :]))

    words = (f"--steps={STEPS}", f"--layers={SHARDS}", "--width=256")
    plain, watched = bench.plain("fsdp", *words), bench.watched("fsdp", *words, environ={BUDGET: str(ADDED)})
    alone_ms, beside_ms = mean_ms(plain), mean_ms(watched)
    told = sum(row.step >= STEPS // 3 for row in watched.rows)
    added = beside_ms / alone_ms - 1
    said = (
        f"{told} of {STEPS - STEPS // 3} steps told; a step takes {alone_ms:.1f} ms alone, {beside_ms:.1f} ms watched"
    )
    return Reading(f"{said} ({added:+.1%})", added <= bench.either(APART, 0.5) and told > 0)


CASES = (
    Case(
        "kineto",
        60,
        "phases of the imported trace within 10 % of a step of the live ones",
        "PyTorch's profiler sees the same run as Paceline does",
        _kineto,
    ),
    Case("overhead", 75, "at most 0.5 % of a step of 20 ms", "what the probe costs, off and on in turn", _overhead),
    Case(
        "budget",
        60,
        "a run of 96 shards takes at most 3 % longer, as two alike may",
        "steps are left out where telling all would cost more than 0.5 %",
        _budget,
    ),
)
