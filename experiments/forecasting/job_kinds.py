"""How well kinds of job are told, by jobs the model never saw, as recorded and as other machines would have recorded.

Every job is judged by a model that was trained on all the others; development and held out are one here, because no
job has a part in its own judgement. An answer of *unknown* counts as wrong.
"""

from collections.abc import Callable, Iterable
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np

from forecaster.job_kinds.labelled_jobs import LabelledJob, pieces, read, resampled, rescaled
from forecaster.job_kinds.train import SEED, Judged, by_job, leave_out, macro_f1, predicted, reach_of

Condition = Callable[[LabelledJob], Iterable[LabelledJob]]


def conditions() -> dict[str, Condition]:
    """What is done to a job's record before it is judged."""
    random = np.random.default_rng(SEED + 1)

    def without(job: LabelledJob, *names: str) -> LabelledJob:
        return replace(job, series={name: rows for name, rows in job.series.items() if name not in names})

    return {
        "whole job": lambda job: [job],
        "30 s": lambda job: pieces(job, 30.0),
        "15 s": lambda job: pieces(job, 15.0),
        "whole job at 1 Hz": lambda job: [resampled(job, 1.0)],
        "whole job at 0.5 Hz": lambda job: [resampled(job, 2.0)],
        "whole job, rates x 0.33-3": lambda job: [rescaled(job, random) for _ in range(3)],
        "30 s at 1 Hz, rates x 0.33-3": lambda job: pieces(resampled(rescaled(job, random), 1.0), 30.0),
        "whole job, no context switches": lambda job: [without(job, "voluntary_switches_per_s")],
        "whole job, processor alone": lambda job: [without(job, *(set(job.series) - {"cpu_ratio"}))],
    }


def evaluate(data: Path) -> list[dict[str, Any]]:
    """One row a condition: how many records, macro F1, and the share left unknown."""
    judged = leave_out(read(data), by_job)
    reach = reach_of(judged)
    judged = [Judged(one.job, replace(one.model, reach=reach)) for one in judged]
    rows = []
    for name, changed in conditions().items():
        pairs = [(one.job.kind, predicted(one, record)) for one in judged for record in changed(one.job)]
        unknown = sum(answer == "unknown" for _, answer in pairs) / len(pairs)
        rows.append({"condition": name, "records": len(pairs), "macro_f1": macro_f1(pairs), "unknown": unknown})
    return rows
