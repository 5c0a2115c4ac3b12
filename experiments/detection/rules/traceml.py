"""TraceML's verdict, from its documentation.

Over windows of at least 20 steps the rank that waited least is the culprit; its score is how much longer than the
median rank it took in its worst phase, as a share of the step: 10 % warns, 20 % is critical. It abstains where data is
missing.
Its window slides; here one follows the other, which costs it at most 20 steps and saves it repeats.
"""

import numpy as np

from experiments.detection.phases import Phases, Tables
from experiments.detection.verdict import Accusation

NAME = "TraceML"
STEPS, WARN = 20, 0.10
_PHASES = {
    "data": ("input_pipeline", ("data", "prepare")),
    "compute": ("worker_compute", ("forward", "backward", "optimizer")),
}


def judge(tables: Tables, phases: Phases) -> list[Accusation]:
    """What it would have said."""
    out = []
    for window in tables.windows(STEPS):
        step, wait = tables.of("step")[window], tables.of("communication")[window]
        if np.isnan(step).any() or tables.ranks < 2:
            continue
        culprit = int(wait.mean(axis=0).argmin())
        scores = {}
        for name, (_, ops) in _PHASES.items():
            seconds = tables.of(*ops)[window].mean(axis=0)
            scores[name] = (seconds[culprit] - np.median(seconds)) / step.mean()
        worst = max(scores, key=lambda name: float(scores[name]))
        if scores[worst] >= WARN:
            end_s = float(np.nanmax(tables.end_s[window]))
            cause = _PHASES[worst][0]
            out.append(
                Accusation(frozenset([culprit]), "confirmed", "straggler", cause, window.start, window.stop - 1, end_s)
            )
    return out
