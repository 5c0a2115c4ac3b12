"""The figures as tables in Markdown, and the picture of recall by size, as they stand in docs/benchmarks.md."""

from pathlib import Path
from typing import Any

from experiments.detection.aims import LEAST_COST, LEAST_SIZE, THOSE, aims
from experiments.detection.judged import PACELINE, RULES
from experiments.detection.score import Marks, Outcome, summary
from experiments.machine import headline
from experiments.markdown import table

By = dict[str, list[Marks]]
#: The key of the large faults among a part's figures.
LARGE = "large"


def figures(parts: dict[str, By]) -> dict[str, Any]:
    """Everything that was measured, as plain data."""
    out: dict[str, Any] = {}
    for part, by_rule in parts.items():
        out[part] = {rule: summary(marks) for rule, marks in by_rule.items()}
        own = [outcome for one in by_rule.get(PACELINE, []) for outcome in one.outcomes]
        if own:
            out[part]["by_fault"] = _by_fault(own)
            large = [outcome for outcome in own if outcome.size >= LEAST_SIZE]
            out[part][LARGE] = _summed(large)
            # What a fault of a real run cost nobody knows: each of them counts.
            out[part][THOSE] = _summed([o for o in large if o.cost is None or o.cost >= LEAST_COST])
            out[part]["recall_by_size"] = {
                rule: _recall_by_size([outcome for one in marks for outcome in one.outcomes])
                for rule, marks in by_rule.items()
            }
            out[part]["missed"] = [_missed(o) for o in own if not o.found]
            out[part]["wrong_cause"] = [o.case for o in own if o.found and not o.cause_right]
        wrong = [
            f"{text} ({one.case})"
            for one in by_rule.get(PACELINE, [])
            for text in one.false_accusations + one.false_remarks
        ]
        out[part]["false"] = wrong
    return out


def _missed(outcome: Outcome) -> str:
    cost = "" if outcome.cost is None else f", cost {outcome.cost:.1%}"
    return f"{outcome.case} ({outcome.length} steps{cost})"


def _by_fault(outcomes: list[Outcome]) -> dict[str, dict[str, Any]]:
    kinds = dict.fromkeys(outcome.fault for outcome in outcomes)
    return {kind: _summed([outcome for outcome in outcomes if outcome.fault == kind]) for kind in kinds}


def _summed(outcomes: list[Outcome]) -> dict[str, Any]:
    return summary([Marks("", outcomes, 0, [], [], 0.0, False)])


def _recall_by_size(outcomes: list[Outcome]) -> dict[str, float]:
    stragglers = [outcome for outcome in outcomes if outcome.fault not in ("hang", "slowdown")]
    sizes = sorted({outcome.size for outcome in stragglers})
    return {
        str(size): sum(o.found for o in stragglers if o.size == size) / sum(1 for o in stragglers if o.size == size)
        for size in sizes
    }


def text(found: dict[str, Any]) -> str:
    """All tables."""
    out = [headline(found)]
    for part, figures_of in found["parts"].items():
        rules = [rule for rule in RULES if rule in figures_of]
        out.append(f"### {part}\n\n" + table(_HEAD, [_row(rule, figures_of[rule]) for rule in rules]))
        if "by_fault" in figures_of:
            kinds = {f"faults of {LEAST_SIZE:.0%} and more": figures_of[LARGE]}
            kinds[f"of these, that cost the job {LEAST_COST:.0%} and more"] = figures_of[THOSE]
            kinds |= figures_of["by_fault"]
            out.append("Paceline, by fault:\n\n" + table(_HEAD[:-2], [_row(k, v)[:-2] for k, v in kinds.items()]))
        for name in ("missed", "wrong_cause", "false"):
            if figures_of.get(name):
                out.append(f"Paceline, {name.replace('_', ' ')}: {'; '.join(figures_of[name][:40])}.")
    out.append("\n".join(aim.line() for aim in aims(found["parts"])))
    return "\n\n".join(out)


_HEAD = ["rule", "faults", "recall", "right cause", "suspected after", "confirmed after", "precision"]
_HEAD += ["false accusations", "false per healthy job-hour"]


def _row(name: str, one: dict[str, Any]) -> list[str]:
    return [
        name,
        str(one["faults"]) if one["faults"] else "-",
        _share(one["recall"]),
        _share(one["cause"]),
        _after(one["suspected_s"], one["suspected_steps"]),
        _after(one["confirmed_s"], one["confirmed_steps"]),
        _share(one["precision"]),
        f"{one['false_accusations']} in {one['jobs']} jobs",
        "-" if one["false_per_healthy_hour"] is None
        else f"{one['false_per_healthy_hour']:.3g} ({one['healthy_hours']:.3g} h)",
    ]  # fmt: skip


def _share(value: float | None) -> str:
    return "-" if value is None else f"{value:.3f}"


def _after(seconds: float | None, steps: float | None) -> str:
    return "-" if seconds is None or steps is None else f"{seconds:.1f} s, {steps:.0f} steps"


def picture(found: dict[str, Any], path: Path) -> None:
    """Recall by size of the fault, for each rule."""
    import matplotlib

    matplotlib.use("Agg")
    from matplotlib import pyplot

    by_rule = found["parts"]["simulated"]["recall_by_size"]
    figure, axes = pyplot.subplots(figsize=(7, 3.6), layout="constrained")
    for rule, by_size in by_rule.items():
        sizes = [float(size) * 100 for size in by_size]
        wide = rule == PACELINE
        axes.plot(sizes, list(by_size.values()), marker="o", label=rule, linewidth=2.5 if wide else 1.2)
    axes.set(
        xscale="log", xlabel="size of the fault, % of the rank's own work", ylabel="share found", ylim=(-0.03, 1.03)
    )
    axes.set_xticks(sizes, [f"{size:g}" for size in sizes], minor=False)
    axes.minorticks_off()
    axes.grid(alpha=0.3)
    axes.legend(frameon=False, loc="center left", bbox_to_anchor=(1.0, 0.5))
    figure.savefig(path, dpi=120)
    pyplot.close(figure)
