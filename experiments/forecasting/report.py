"""The contest's results as tables and a picture, and in docs/benchmarks.md between its two marks."""

from pathlib import Path
from typing import Any

import numpy as np

from forecaster.forecast import ENSEMBLE

from .contest import Tally, relative

Results = dict[str, dict[str, Tally]]


def summary(results: Results, names: list[str]) -> list[tuple[str, float, float, float, float]]:
    """Name, MASE, wQL (geometric means over tasks, relative), coverage (mean over tasks), ms; the best wQL first."""
    rows = []
    for name in names:
        pairs = np.array([relative(tallies, name) for tallies in results.values()])
        mase, wql = np.exp(np.log(pairs).mean(axis=0))
        inside = np.mean([np.mean(tallies[name].inside) for tallies in results.values()])
        took = np.median([one for tallies in results.values() for one in tallies[name].seconds])
        rows.append((name, float(mase), float(wql), float(inside), float(took) * 1000.0))
    return sorted(rows, key=lambda row: row[2])


def tables(results: Results, names: list[str], machine: str) -> str:
    """Two tables: all tasks together, and the default task by task."""
    cases = sum(len(tallies[ENSEMBLE].errors) for tallies in results.values())
    lines = [
        f"{machine}. Relative to repeating the last season (below 1 is better); geometric means over {len(results)}",
        f"tasks with {cases} cases. Differences under 5 % are ties.",
        "",
        "| model | MASE | wQL | inside the 80 % interval | ms, with its back-test |",
        "|---|---|---|---|---|",
    ]
    for name, mase, wql, inside, took in summary(results, names):
        shown = f"**{name}** (the default)" if name == ENSEMBLE else name
        lines.append(f"| {shown} | {mase:.3f} | {wql:.3f} | {inside:.0%} | {took:.0f} |")
    lines += ["", "The default, task by task:", "", "| task | cases | MASE | wQL | inside |", "|---|---|---|---|---|"]
    for task, tallies in results.items():
        mase, wql = relative(tallies, ENSEMBLE)
        own = tallies[ENSEMBLE]
        lines.append(f"| {task} | {len(own.errors)} | {mase:.2f} | {wql:.2f} | {np.mean(own.inside):.0%} |")
    return "\n".join(lines) + "\n"


def rows(title: str, results: list[dict[str, Any]]) -> str:
    """A table of rows with the same names."""
    names = list(results[0])
    lines = [f"{title}:", "", f"| {' | '.join(names)} |".replace("_", " "), "|" + "---|" * len(names)]
    for row in results:
        shown = [f"{row[name]:.3f}" if isinstance(row[name], float) else str(row[name]) for name in names]
        lines.append(f"| {' | '.join(shown)} |")
    return "\n".join(lines) + "\n\n"


def plot(results: Results, names: list[str], path: Path) -> None:
    """wQL by task and model."""
    import matplotlib

    matplotlib.use("svg")
    from matplotlib import pyplot

    tasks = list(results)
    figure, axes = pyplot.subplots(figsize=(9, 4.5), layout="constrained")
    for name in names:
        values = [relative(results[task], name)[1] for task in tasks]
        strong = name == ENSEMBLE
        axes.plot(
            values, range(len(tasks)), "o", label=name, markersize=9 if strong else 5, alpha=1.0 if strong else 0.5
        )
    axes.set_yticks(range(len(tasks)), tasks)
    axes.invert_yaxis()
    axes.set_xlim(0, 1.6)
    axes.axvline(1.0, color="grey", linewidth=0.8)
    axes.set_xlabel("wQL relative to repeating the last season (smaller is better)")
    axes.legend(loc="center left", bbox_to_anchor=(1.0, 0.5), frameon=False)
    path.parent.mkdir(parents=True, exist_ok=True)
    figure.savefig(path, metadata={"Date": None})
    pyplot.close(figure)
