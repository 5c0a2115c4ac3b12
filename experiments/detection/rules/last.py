"""Last to arrive, as trace viewers (HTA, TraceLens) tell it: who comes last to the collective has held it up.

They show it and name no bound; here a rank is named when it was last in more than half of 20 steps.
"""

from collections import Counter

import numpy as np

from experiments.detection.phases import Phases, Tables
from experiments.detection.verdict import Accusation

NAME = "last to arrive"
STEPS, SHARE = 20, 0.5


def judge(tables: Tables, phases: Phases) -> list[Accusation]:
    """Whom it would have named."""
    out = []
    wait = tables.of("communication")
    if tables.ranks < 2:
        return []
    for window in tables.windows(STEPS):
        heard = wait[window][~np.isnan(wait[window]).any(axis=1)]
        last = Counter(heard.argmin(axis=1).tolist())
        for rank, count in last.items():
            if count > SHARE * STEPS:
                end_s = float(np.nanmax(tables.end_s[window]))
                out.append(
                    Accusation(
                        frozenset([rank]), "confirmed", "straggler", "unknown", window.start, window.stop - 1, end_s
                    )
                )
    return out
