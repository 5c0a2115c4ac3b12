"""What a run of the suite found: as JSON, to be carried home, and as the table of docs/benchmarks.md.

Rule of this file: pure but for writing where it is told.
"""

import json
from collections import Counter
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from experiments import markdown
from experiments.gpu.case import BROKEN, FAILS, HOLDS, NOT_RUN
from experiments.gpu.runner import Outcome


def found(facts: dict[str, Any], device: str, outcomes: Sequence[Outcome], took_s: float) -> dict[str, Any]:
    """Everything, as one JSON object."""
    rows = [
        {
            "case": each.case.name,
            "predicted": each.case.predicted,
            "read": each.reading.words,
            "outcome": each.reading.outcome,
            "took_s": round(each.took_s, 1),
        }
        for each in outcomes
    ]
    return {"machine": facts, "device": device, "took_s": round(took_s, 1), "cases": rows}


def summary(rows: Sequence[dict[str, Any]]) -> str:
    """How many predictions hold.

    >>> summary([{"outcome": "holds"}, {"outcome": "holds"}, {"outcome": "not run"}])
    '2 hold, 0 do not hold, 0 broken, 1 not run'
    """
    counts = Counter(row["outcome"] for row in rows)
    return f"{counts[HOLDS]} hold, {counts[FAILS]} do not hold, {counts[BROKEN]} broken, {counts[NOT_RUN]} not run"


def page(told: dict[str, Any]) -> str:
    """The section of docs/benchmarks.md."""
    there = told["machine"]
    head = (
        f"{there['date']}, {there['device']}, PyTorch {there['torch']}, CUDA {there['cuda']}, NCCL {there['nccl']}, "
        f"{there['cores']} cores of {there['processor']}; {told['took_s']:.0f} s: {summary(told['cases'])}."
    )
    rows = [
        [each[name].replace("|", "/") for name in ("case", "predicted", "read", "outcome")] for each in told["cases"]
    ]
    return f"{head}\n\n{markdown.table(['case', 'predicted', 'read', 'holds'], rows)}"


def save(told: dict[str, Any], path: Path) -> None:
    """Write everything down."""
    path.write_text(json.dumps(told, indent=1) + "\n", encoding="utf-8")
