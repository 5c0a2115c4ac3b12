"""NVIDIA Resiliency Extension's straggler detection, from its documentation.

Every 60 s, for each section: the best rank's median over the own median is the score; below 0.75 the rank is a
straggler. Sections here are the phases that a user would wrap (data, forward, backward, optimizer); it has none for
communication, whose kernels it drops.
"""

import numpy as np

from experiments.detection.phases import Phases, Tables
from experiments.detection.verdict import Accusation

NAME = "NVRx"
REPORT_S, SCORE = 60.0, 0.75
_CAUSES = {"data": "input_pipeline", "forward": "worker_compute", "backward": "worker_compute"}
#: A section that takes less of the step than this on every rank is not one that anybody would wrap.
_LEAST_SHARE = 0.05


def judge(tables: Tables, phases: Phases) -> list[Accusation]:
    """What it would have reported."""
    out = []
    for window in tables.minutes(REPORT_S):
        for section in ("data", "forward", "backward", "optimizer"):
            seconds = tables.of(section)[window]
            heard = ~np.isnan(seconds).all(axis=0)
            if not heard.any():
                continue
            median = np.full(seconds.shape[1], np.nan)
            median[heard] = np.nanmedian(seconds[:, heard], axis=0)
            best = float(np.nanmin(median))
            if not best > 0 or np.nanmax(median) < _LEAST_SHARE * np.nanmedian(tables.of("step")[window]):
                continue
            for rank in np.flatnonzero(np.nan_to_num(best / median, nan=1.0) < SCORE).tolist():
                cause = _CAUSES.get(section, "unknown")
                end_s = float(np.nanmax(tables.end_s[window]))
                out.append(
                    Accusation(frozenset([rank]), "confirmed", "straggler", cause, window.start, window.stop - 1, end_s)
                )
    return out
