"""How well it is said when a memory is full: runs asked at moments before, beside when it was.

Recorded runs, whose memory is taken as a little smaller than the most that they ever had; and made-up ones that leak,
that grow in jumps, that grow until they have what they need, and that stay where they are.
"""

from collections.abc import Iterator
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from forecaster.exceedance import exceedance
from forecaster.forecast import forecast
from forecaster.held_forecast import LEVELS
from forecaster.models.registry import Registry
from forecaster.question import Question

from .data import Array, EvaluationSeries, pods

#: Steps ahead, moments that are asked of each run, and the minutes that are known before the first of them.
HORIZON, MOMENTS, KNOWN = 60, 8, 120
#: The size of a memory as a share of the most that was ever used of it; made-up memories have the size 1.
SIZE = 0.99
RUNS, MINUTES = 25, 720


class Asked(NamedTuple):
    """What was said at a moment, and when the memory was full: seconds from then, None where not within the horizon."""

    probability: float
    half_s: float | None
    came_s: float | None


def made_up(kind: str, rng: np.random.Generator) -> Array:
    """Minutes of a memory: ``leak``, ``jumps``, ``warms up`` or ``steady``, with what comes and goes each minute."""
    at = np.arange(MINUTES)
    start, noise = rng.uniform(0.2, 0.5), rng.uniform(0.001, 0.02) * rng.random(MINUTES)
    match kind:
        case "leak":
            base = start + at / rng.uniform(300.0, 1500.0)
        case "jumps":
            base = start + np.cumsum((rng.random(MINUTES) < 1 / 90) * rng.uniform(0.02, 0.15, MINUTES))
        case "warms up":
            base = start + rng.uniform(0.2, 0.6) * (1.0 - np.exp(-at / rng.uniform(60.0, 240.0)))
        case _:
            base = np.full(MINUTES, start + 0.4)
    return np.asarray(np.minimum(base + noise, 1.0))


def sources(folder: Path) -> Iterator[tuple[str, list[EvaluationSeries], float | None]]:
    """Whose memory it is, its runs, and its size where that is known."""
    rng = np.random.default_rng(6)
    for kind in ("leak", "jumps", "warms up", "steady"):
        yield f"made up: {kind}", [EvaluationSeries(kind, made_up(kind, rng), 60.0) for _ in range(RUNS)], 1.0
    yield "GPUs of recorded pods", pods(folder, "gpu_mem_mib", None), None


def evaluate(data: Path, models: Registry) -> list[dict[str, Any]]:
    """One row a source: Brier scores (0 is perfect) of whether it is full within an hour, and how far off the time."""
    return [_row(name, [one for run in runs for one in asked(run, size, models)]) for name, runs, size in sources(data)]


def asked(run: EvaluationSeries, size: float | None, models: Registry) -> Iterator[Asked]:
    """Some moments of a run at which its memory was not full yet."""
    values = run.values
    limit = size or SIZE * float(np.nanmax(values))
    first = KNOWN if size else max(KNOWN, len(values) // 2)
    able = [at for at in range(first, len(values) - HORIZON) if np.nanmax(values[at - 30 : at], initial=0.0) < limit]
    for at in np.random.default_rng(5).permutation(able)[:MOMENTS]:
        question = Question(values[max(0, at - 1440) : at], run.interval_s, HORIZON, np.array(LEVELS), 0.0)
        if np.isfinite(question.values).any():
            said = exceedance(forecast(question, models).values, question.levels, limit, run.interval_s)
            reached = np.flatnonzero(values[at : at + HORIZON] >= limit)
            came_s = float(reached[0] + 1) * run.interval_s if reached.size else None
            yield Asked(said.probability, said.median_s, came_s)


def _row(source: str, told: list[Asked]) -> dict[str, Any]:
    said, came = np.array([one.probability for one in told]), np.array([one.came_s is not None for one in told])
    off = [abs(one.half_s - one.came_s) / 60.0 for one in told if one.half_s is not None and one.came_s is not None]
    return {
        "memory": source,
        "asked": len(told),
        "full within an hour": float(came.mean()),
        "Brier": float(np.mean((said - came) ** 2)),
        "Brier of that share": float(np.mean((came.mean() - came) ** 2)),
        "half or more said, of those that came": float(np.mean(said[came] >= 0.5)) if came.any() else None,
        "the same, of those that did not": float(np.mean(said[~came] >= 0.5)) if not came.all() else None,
        "minutes off": float(np.median(off)) if off else None,
    }
