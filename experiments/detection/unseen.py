"""Shapes of job on which no threshold was chosen, each with faults and without any.

Rule of this file: data, and the jobs that follow from it. Steps are counted in looks of ``LOOK_S``, so that a job of
short steps has as many of them as one of long steps.
"""

import math
from typing import Any

from experiments.detection.score import LOOK_S
from experiments.detection.simulated import Planned, spec_of
from simulator.fault import Fault
from simulator.spec import Noise

#: Looks before a fault (three times as many where the pace changes at first), with it, and after it.
BEFORE, DURING, AFTER = 60, 60, 30
SHAPES: dict[str, dict[str, Any]] = {
    "2 ranks": {"ranks": 2},
    "3 ranks": {"ranks": 3},
    "64 ranks on 8 nodes": {"ranks": 64, "fsdp": True, "collectives": 2},
    "steps of 5 ms": {"ranks": 4, "step_s": 0.005},
    "steps of 40 s": {"ranks": 8, "step_s": 40.0, "microbatches": 4},
    "heavy tails": {"ranks": 8, "noise": Noise(op=0.04, tail=0.02)},
    "drift of all ranks": {"ranks": 8, "noise": Noise(node=0.02), "trend": ((0, 1.0), (60, 1.06), (120, 0.96))},
    "rank 0 saves every 50 steps": {"ranks": 8, "checkpoint_every": 50, "checkpoint_s": 3.0},
    "one rank 3 % slower": {"ranks": 8, "rank_skew": {5: 1.03}},
    "warm-up of 100 steps": {"ranks": 8, "trend": ((0, 2.0), (100, 1.0)), "late": True},
    "pace that falls over 100 steps": {"ranks": 8, "trend": ((0, 1.0), (100, 2.0)), "late": True},
    "early exits": {"ranks": 8, "early_exits": 0.2},
    "growing sequences": {"ranks": 16, "uneven": 0.1, "microbatches": 4, "trend": ((0, 1.0), (1200, 2.0))},
}  # fmt: skip
FAULTS = (("compute", 0.3), ("input", 0.3), ("slowdown", 0.3))


def jobs(seed: int) -> list[Planned]:
    """Every shape with each of the faults, and four times as long without any."""
    made: list[Planned] = []
    for name, shape in SHAPES.items():
        shape = dict(shape)
        look = max(math.ceil(LOOK_S / shape.get("step_s", 0.5)), 1)
        first = look * BEFORE * (3 if shape.pop("late", False) else 1)
        for kind, size in FAULTS:
            ranks = () if kind == "slowdown" else ((seed + 7 * len(made)) % shape["ranks"],)
            fault = Fault(kind, ranks, size, first, first + look * DURING - 1)
            steps = first + look * (DURING + AFTER)
            made.append(
                Planned(f"{name}: {kind} {size:.0%}", spec_of(seed, 200_000 + len(made), steps, (fault,), shape))
            )
        steps = 4 * look * (BEFORE + DURING)
        made.append(Planned(f"{name}: healthy", spec_of(seed, 200_000 + len(made), steps, (), shape)))
    return made
