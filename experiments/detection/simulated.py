"""The grid of simulated jobs: kinds of fault x sizes x shapes of job x lengths, and healthy hours.

Rule of this file: which jobs, and running one through the rules. What is reported first has the fixed ``SEED``; another
one gives jobs that nobody has looked at, of the same kinds, with other ranks at fault and each fault at another length.
"""

from itertools import cycle, islice, product
from typing import Any, NamedTuple

from experiments.detection.judged import judge
from experiments.detection.score import Marks, mark
from experiments.detection.verdict import Case, Injected
from simulator.fault import Fault
from simulator.job import Job
from simulator.spec import Spec
from simulator.truth import Truth

KINDS = ("compute", "throttle", "input", "gc", "cpu", "memory", "link")
SIZES = (0.05, 0.1, 0.2, 0.5, 1.0, 2.0)
LENGTHS = (150, 60, 25)
FIRST, AFTER, SEED = 60, 30, 70_000
#: Healthy hours that the other tools' rules judge.
MOST_OTHERS = 16
SHAPES: dict[str, dict[str, Any]] = {
    "DDP 8": {"ranks": 8},
    "FSDP 32": {"ranks": 32, "fsdp": True, "collectives": 4},
    "PP 4 x DP 16": {"ranks": 64, "pp": 4, "microbatches": 8},
    "DDP 16, uneven, 4 micro-batches": {"ranks": 16, "microbatches": 4, "uneven": 0.3},
    "PP 4 x DP 8, uneven, long last stage": {
        "ranks": 32,
        "pp": 4,
        "microbatches": 8,
        "uneven": 0.3,
        "stage_skew": {3: 1.3},
    },
}
LARGE: dict[str, dict[str, Any]] = {"DDP 1,000": {"ranks": 1000}, "DDP 10,000": {"ranks": 10_000, "step_s": 0.25}}
#: Healthy jobs of an hour each; every pause and unevenness that is no fault is in one of them.
HEALTHY: tuple[dict[str, Any], ...] = (
    {"ranks": 8, "step_s": 2.0, "evaluate_every": 300, "checkpoint_every": 200},
    {"ranks": 16, "step_s": 10.0, "uneven": 0.3, "microbatches": 4, "checkpoint_every": 150},
    {"ranks": 16, "step_s": 15.0, "pp": 4, "microbatches": 8, "checkpoint_every": 100, "checkpoint_s": 30.0},
    {"ranks": 8, "step_s": 5.0, "fsdp": True, "collectives": 3, "evaluate_every": 200, "evaluate_s": 60.0},
    {"ranks": 16, "step_s": 20.0, "pp": 4, "uneven": 0.2, "stage_skew": {3: 1.3}},
    {"ranks": 32, "step_s": 10.0, "tp": 2, "pp": 2, "evaluate_every": 100},
    {"ranks": 4, "step_s": 1.0, "checkpoint_every": 1000, "checkpoint_s": 20.0},
    {"ranks": 8, "step_s": 10.0, "phases": False, "collectives": 6},
)


class Planned(NamedTuple):
    """A job to simulate, and whether the other tools' rules judge it as well."""

    name: str
    spec: Spec
    others: bool = True


def faulty(quick: bool, seed: int = SEED) -> list[Planned]:
    """The jobs with a fault."""
    kinds, sizes = (KINDS, (0.1, 0.5)) if quick else (KINDS, SIZES)
    shapes = dict(list(SHAPES.items())[:3:2]) if quick else SHAPES
    lengths = islice(cycle(LENGTHS), (seed - SEED) % len(LENGTHS), None)
    made: list[Planned] = []

    def plan(name: str, steps: int, fault: Fault, shape: dict[str, Any]) -> None:
        made.append(Planned(name, spec_of(seed, len(made), steps, (fault,), shape)))

    for kind, size, (name, shape) in product(kinds, sizes, shapes.items()):
        length = next(lengths)
        rank = (seed + 7 * len(made)) % shape["ranks"]
        fault = Fault(kind, (rank,), size, FIRST, FIRST + length - 1)
        plan(f"{name}: {kind} {size:.0%}", FIRST + length + AFTER, fault, shape)
    for name, shape in shapes.items():
        for fault in (Fault("hang", (3,), first=FIRST, seconds=60.0), Fault("slowdown", (), 0.3, FIRST)):
            plan(f"{name}: {fault.kind}", 2 * FIRST, fault, shape)
    for name, shape in () if quick else LARGE.items():
        # The largest job takes minutes: it gets one fault.
        for kind, size in (("gc", 0.1), ("compute", 0.2), ("input", 0.5))[: 3 if shape["ranks"] < 5000 else 1]:
            fault = Fault(kind, (shape["ranks"] // 3,), size, 30, 69)
            plan(f"{name}: {kind} {size:.0%}", 80, fault, shape)
    return made


def healthy(hours: int, seed: int = SEED) -> list[Planned]:
    """Jobs without any fault, an hour each.

    What the other tools' rules say of healthy hours is told by the first few; Paceline gets them all.
    """
    made = []
    for number, shape in zip(range(hours), cycle(HEALTHY), strict=False):
        spec = spec_of(seed, 100_000 + number, int(3600 / shape["step_s"]), (), shape)
        made.append(Planned(f"healthy hour {number}", spec, spec.phases and number < MOST_OTHERS))
    return made


def spec_of(seed: int, number: int, steps: int, faults: tuple[Fault, ...], shape: dict[str, Any]) -> Spec:
    """Job ``number`` of those that ``seed`` makes."""
    return Spec(**{"step_s": 0.5, **shape}, steps=steps, seed=seed + number, faults=faults, job=f"job-{number}")


def run(planned: Planned) -> dict[str, Marks]:
    """One job through every rule; the marks by rule."""
    name, spec, others = planned
    job = Job(spec)
    said = judge(((message.time_s, message.topic, message.event) for message in job.messages()), others=others)
    case = _case(name, job.truth())
    return {rule: mark(case, accusations) for rule, accusations in said.items()}


def _case(name: str, truth: Truth) -> Case:
    faults = tuple(
        Injected(
            fault.fault,
            fault.size,
            frozenset(fault.ranks),
            fault.first_step,
            fault.last_step,
            fault.began_s,
            fault.kind,
            fault.cause,
            fault.lost_s / max(fault.ended_s - fault.began_s, 1e-9),
        )
        for fault in truth.faults
    )
    part = "simulated" if faults else "healthy"
    return Case(name, part, truth.ranks, truth.elapsed_s / 3600, truth.step_s, faults, tuple(truth.also))
