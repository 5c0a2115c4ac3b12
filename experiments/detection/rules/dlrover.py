"""dlrover's checks, from its documentation.

Before the run, pairs of ranks are timed, and one that takes more than twice the median is a straggler; during it, a
kernel that runs for more than 300 s is a hang.

The check before the run is taken to see each rank's work in its first steps as it is.
"""

import numpy as np

from experiments.detection.phases import COMPUTE, Phases, Tables
from experiments.detection.verdict import Accusation

NAME = "dlrover"
STEPS, TIMES, HANG_S = 10, 2.0, 300.0


def judge(tables: Tables, phases: Phases) -> list[Accusation]:
    """What it would have said."""
    out = []
    if tables.steps >= STEPS:
        seconds = tables.of(*COMPUTE)[:STEPS]
        heard = ~np.isnan(seconds).any(axis=0)
        median = np.where(heard, np.median(np.nan_to_num(seconds), axis=0), np.nan)
        middle = float(np.nanmedian(median)) if heard.any() else np.nan
        for rank in np.flatnonzero(median > TIMES * middle).tolist():
            out.append(
                Accusation(
                    frozenset([rank]), "confirmed", "straggler", "unknown", 0, STEPS - 1, float(tables.end_s[STEPS - 1])
                )
            )
    if phases.open_s and max(phases.open_s.values()) > HANG_S:
        ranks = frozenset(phases.missing)
        out.append(Accusation(ranks, "confirmed", "hang", "unknown", tables.steps, tables.steps, phases.last_s))
    return out
