"""How well kinds of job are told, by jobs the model never saw, as recorded and as other machines would have recorded.

Every job is judged by a model that was trained on all the others, and by one that has seen no job of its program;
development and held out are one here, because no job has a part in its own judgement. An answer of *unknown* counts as
wrong but for jobs of no kind: compilers.
"""

from collections.abc import Callable, Iterable
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np

from forecaster.job_kinds.labelled_jobs import LabelledJob, pieces, read, resampled, rescaled
from forecaster.job_kinds.train import (
    SEED,
    Judged,
    by_job,
    by_program,
    leave_out,
    macro_f1,
    predicted,
    reach_of,
)

#: Telemetry of the programs beside this file.
RECORDED = Path(__file__).parent / "recorded_jobs"
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


def labelled(data: Path) -> list[LabelledJob]:
    """The jobs in ``data``, and those that ``record`` has made."""
    return [*read(data), *read(RECORDED)]


def evaluate(data: Path) -> list[dict[str, Any]]:
    """One row a condition: how many records, macro F1 and the share left unknown, by jobs and by programs left out."""
    jobs = labelled(data)
    told = {"job": _judged(leave_out(jobs, by_job)), "program": _judged(leave_out(jobs, by_program))}
    rows = []
    for name, changed in conditions().items():
        row: dict[str, Any] = {"condition": name}
        records = {one.job: list(changed(one)) for one in jobs}
        for group, judged in told.items():
            pairs = [(one.job.kind, predicted(one, record)) for one in judged for record in records[one.job.job]]
            answered = [kind == answer for kind, answer in pairs if answer != "unknown"]
            row |= {
                "records": len(pairs),
                f"F1 by {group}": macro_f1(pairs),
                f"unknown by {group}": 1.0 - len(answered) / len(pairs),
                f"right of the rest by {group}": sum(answered) / max(len(answered), 1),
            }
        rows.append(row)
    return rows


def _judged(judged: list[Judged]) -> list[Judged]:
    reach = reach_of(judged)
    return [Judged(one.job, replace(one.model, reach=reach)) for one in judged]
