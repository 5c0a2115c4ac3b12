"""The real runs' figures as tables, and the aims that they are held to."""

from typing import Any

from ..markdown import table
from .models import KINDS
from .report import Aim

HEAD = ["policy", "samples/s", "over uniform", "of the oracle", "step, ms", "slowest rank over the mean", "epoch, s"]


def aims(found: dict[str, Any]) -> list[Aim]:
    """Of the parts that were run."""
    told: list[Aim] = []
    for kind in (kind for kind in KINDS if kind in found):
        fixed, slowed = found[kind]["1:1:2:4"]["ours"], found[kind]["slowed in the middle"]["ours"]
        bound = found[kind]["1:1:2:4"]["oracle"]["over_uniform"]
        words = f"{fixed['over_uniform']:.2f}; the oracle's {bound:.2f}"
        told.append(Aim(f"{kind}: 1.9 times uniform at 1:1:2:4", words, fixed["over_uniform"] >= 1.9))
        words = f"{slowed['of_oracle']:.3f}"
        told.append(Aim(f"{kind}: 0.9 of the oracle where a rank fails slow", words, slowed["of_oracle"] >= 0.9))
    for kind, one in found.get("equal", {}).items():
        words = f"{_ratio(one)} of plain PyTorch's samples/s"
        told.append(Aim(f"{kind}: at most 1 % where all are equal", words, one["over_uniform"] >= 0.99))
    if "convergence" in found:
        plain, ours = found["convergence"]["plain"], found["convergence"]["ours"]
        apart, noise = abs(plain["mean"] - ours["mean"]), max(plain["sd"], ours["sd"])
        told.append(Aim("last loss within noise", f"{apart:.4f} apart, deviation {noise:.4f}", apart <= noise))
    return told


def text(found: dict[str, Any]) -> str:
    """All of it in Markdown."""
    parts = []
    for kind in (kind for kind in KINDS if kind in found):
        parts += [f"{kind}, {name}\n\n{_policies(one)}" for name, one in found[kind].items()]
    for name, title in (("equal", "All ranks alike"), ("ablations", "Training done otherwise, at 1:1:2:4")):
        if name in found:
            rows = [
                [way, f"{one['plain']:.0f}", f"{one['ours']:.0f}", _ratio(one), str(one["plans"])]
                for way, one in found[name].items()
            ]
            head = ["run", "plain, samples/s", "ours, samples/s", "ours over plain", "plans"]
            parts.append(f"{title}\n\n" + table(head, rows))
    if "convergence" in found:
        rows = [[name, f"{one['mean']:.4f}", f"{one['sd']:.4f}"] for name, one in found["convergence"].items()]
        parts.append("Last loss over seeds\n\n" + table(["run", "mean", "standard deviation"], rows))
    rows = [[aim.name, aim.found, "yes" if aim.met else "no"] for aim in aims(found)]
    return "\n\n".join([*parts, table(["aim", "found", "met"], rows)])


def _policies(by_policy: dict[str, dict[str, Any]]) -> str:
    rows = [
        [
            name,
            f"{one['samples_per_s']:.0f}",
            f"{one['over_uniform']:.2f}",
            f"{one['of_oracle']:.3f}",
            f"{one['step_ms']:.0f}",
            f"{one['slowest_over_mean']:.2f}",
            f"{one['epoch_s']:.1f}",
            str(one["plans"]),
            ", ".join(str(steps) for steps in one["adapts_in_steps"]),
        ]
        for name, one in by_policy.items()
    ]
    return table([*HEAD, "plans", "steps to adapt"], rows)


def _ratio(one: dict[str, float]) -> str:
    """Ours over plain, with its standard error."""
    return f"{one['over_uniform']:.3f} ± {one['standard_error']:.3f}"
