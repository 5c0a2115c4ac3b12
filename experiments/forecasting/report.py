"""The contest's results as tables and a picture, and in docs/benchmarks.md between its two marks."""

from pathlib import Path
from typing import Any

import numpy as np

from forecaster.question import ENSEMBLE

from .contest import Tally, ratios, relative
from .data import Array

Results = dict[str, dict[str, Tally]]


def summary(results: Results, names: list[str]) -> list[tuple[str, float, float]]:
    """Name, MASE and wQL (geometric means over tasks, relative); the best wQL first."""
    rows = []
    for name in names:
        pairs = np.array([relative(tallies, name) for tallies in results.values()])
        mase, wql = np.exp(np.log(pairs).mean(axis=0))
        rows.append((name, float(mase), float(wql)))
    return sorted(rows, key=lambda row: row[2])


def difference(draws: Array) -> str:
    """Bootstrap values of a ratio as a difference in per cent and its 95 % interval."""
    middle, low, high = 100.0 * (np.quantile(draws, [0.5, 0.025, 0.975]) - 1.0)
    return f"{middle:+.0f} % ({low:+.0f} to {high:+.0f})"


def overall(results: Results, over: str, under: str) -> Array:
    """Bootstrap values of the geometric mean over tasks of the ratio of two models' wQL."""
    logs = [np.log(ratios(tallies, over, under, seed=at)) for at, tallies in enumerate(results.values())]
    return np.asarray(np.exp(np.mean(logs, axis=0)))


def tables(results: Results, names: list[str], said: str) -> str:
    """All tasks together, then the default task by task."""
    cases = sum(len(tallies[ENSEMBLE].errors) for tallies in results.values())
    lines = [
        said,
        f"Relative to repeating the last season (below 1 is better); geometric means over {len(results)} tasks",
        f"with {cases} cases. In brackets 95 % intervals of a bootstrap over series; MSIS: interval scores in naive",
        "errors.",
        "",
        "| model | MASE | wQL | wQL beside the default | MSIS 80 % | MSIS 95 % | inside 80 % | inside 95 % | ms |",
        "|---|---|---|---|---|---|---|---|---|",
    ]
    for name, mase, wql in summary(results, names):
        own = [tallies[name] for tallies in results.values()]
        shown = f"**{name}** (the default)" if name == ENSEMBLE else name
        beside = "" if name == ENSEMBLE else difference(overall(results, name, ENSEMBLE))
        spans = np.mean([np.mean(one.spans, axis=0) for one in own], axis=0)
        inside, inside_95 = (np.mean([np.mean(getattr(one, part)) for one in own]) for part in ("inside", "inside_95"))
        took = 1000.0 * float(np.median([second for one in own for second in one.seconds]))
        lines.append(
            f"| {shown} | {mase:.3f} | {wql:.3f} | {beside} | {spans[0]:.1f} | {spans[1]:.1f} "
            f"| {inside:.0%} | {inside_95:.0%} | {took:.0f} |"
        )
    return "\n".join([*lines, "", *by_task(results, names)]) + "\n"


def by_task(results: Results, names: list[str]) -> list[str]:
    """The default beside the member that did best there, which only hindsight knows."""
    lines = [
        "The default, task by task, beside the best of the others (known only afterwards), and what lay inside its",
        "80 % interval: of all steps, and of the first, middle and last third of them:",
        "",
        "| task | cases | MASE | wQL | best other | default beside it | inside | by thirds |",
        "|---|---|---|---|---|---|---|---|",
    ]
    for task, tallies in results.items():
        mase, wql = relative(tallies, ENSEMBLE)
        own = tallies[ENSEMBLE]
        best = min(
            (name for name in names if name != ENSEMBLE), key=lambda name: relative(tallies, name)[1], default=ENSEMBLE
        )
        thirds = ", ".join(f"{share:.0%}" for share in np.mean(own.thirds, axis=0))
        lines.append(
            f"| {task} | {len(own.errors)} | {mase:.2f} | {wql:.2f} | {best} {relative(tallies, best)[1]:.2f} "
            f"| {difference(ratios(tallies, ENSEMBLE, best))} | {np.mean(own.inside):.0%} | {thirds} |"
        )
    return lines


def rows(title: str, results: list[dict[str, Any]]) -> str:
    """A table of rows with the same names."""
    names = list(results[0])
    lines = [f"{title}:", "", f"| {' | '.join(names)} |".replace("_", " "), "|" + "---|" * len(names)]
    for row in results:
        shown = [_shown(row[name]) for name in names]
        lines.append(f"| {' | '.join(shown)} |")
    return "\n".join(lines) + "\n\n"


def _shown(value: Any) -> str:
    if value is None:
        return "-"
    return f"{value:.3f}" if isinstance(value, float) else str(value)


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
