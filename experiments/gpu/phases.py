"""Cases of phases: what Paceline tells of ordinary training is what the device did."""

from experiments.gpu.bench import Bench
from experiments.gpu.case import Case, Reading
from experiments.gpu.compared import Difference, differences
from experiments.gpu.scripts.phases import KINDS

#: How far a phase may be from the script's own events; on a processor, whose cores others want too, from its clock.
ERROR, ERROR_ON_CPU = 0.02, 0.15
#: What the script times, and what Paceline tells of it: an exchange of gradients is inside its ``backward()``.
_PHASES = {
    "data": ("data",),
    "forward": ("forward",),
    "backward": ("backward", "communication"),
    "optimizer": ("optimizer",),
}
_OF_KIND = {"evaluation": {"evaluation": ("evaluation",)}, "checkpoint": {"checkpoint": ("checkpoint",)}}
#: Steps at the start of a kind that do not count.
WARM_UP, STEPS = 3, 15
#: Iterations with a scaler, and that each so many has gradients that are no numbers.
SCALED, SKIPPED_EVERY = 40, 8


def _phases(bench: Bench) -> Reading:
    run = bench.watched("phases", f"--steps={STEPS}")
    worst: list[tuple[str, Difference]] = []
    for place, kind in enumerate(KINDS):
        steps = range(place * STEPS + WARM_UP, (place + 1) * STEPS)
        found = differences(run.rows, run.truth[0]["steps"], _PHASES | _OF_KIND.get(kind, {}), steps)
        worst.append((kind, max(found, key=lambda each: each.error)))
    words = "; ".join(f"{kind}: {one.words}, {one.error:.1%}" for kind, one in worst)
    right = len(run.rows) == STEPS * len(KINDS) and all(
        one.error <= bench.either(ERROR, ERROR_ON_CPU) for _, one in worst
    )
    return Reading(f"{len(run.rows)} of {STEPS * len(KINDS)} steps; furthest of each kind: {words}", right)


def _scaler(bench: Bench) -> Reading:
    run = bench.watched("scaler", f"--steps={SCALED}", f"--every={SKIPPED_EVERY}")
    words = f"{len(run.rows)} rows of {SCALED} iterations, {run.truth[0]['skipped']} of them skipped"
    return Reading(words, SCALED - 1 <= len(run.rows) <= SCALED)


CASES = (
    Case(
        "phases",
        60,
        "every phase within 2 % of the script's own events",
        "accumulation, evaluation, checkpoints, a pinned loader and GradScaler are distinguished in device time",
        _phases,
    ),
    Case("scaler", 30, "a row an iteration", "a step that a GradScaler skips is a step", _scaler),
)
