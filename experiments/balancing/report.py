"""The simulated figures as tables, and the aims that they are held to."""

from typing import Any, NamedTuple

from ..markdown import table
from .measures import spread

OURS = "Paceline"


class Aim(NamedTuple):
    """What was to be reached and what was."""

    name: str
    found: str
    met: bool


def aims(found: dict[str, Any]) -> list[Aim]:
    """Of the simulated part."""
    exact, noisy = (found["fail_slow"][f"noise {noise}, prefetch 0"][OURS] for noise in ("0%", "5%"))
    fractions = [each["of_oracle"] for each in (*exact, *noisy)]
    begins = [each["adaptation_steps"][0] for each in (*exact, *noisy)]
    late = [steps for each in (*exact, *noisy) for steps in each["adaptation_steps"][1:]]
    slowest, first = (max((steps for steps in many if steps is not None), default=0) for many in (late, begins))
    quiet = [*found["quiet"]["equal workers, noise 5%"], *found["quiet"]["unequal workers, noise 5%"]]
    most = max(each["plans" if each["equal"] else "late_plans"] for each in quiet)
    random = found["random"][OURS]
    worst = max(each["of_uniform_time"] for each in random)
    return [
        Aim(
            "at least 0.95 of the oracle where a rank fails slow",
            f"mean {sum(fractions) / len(fractions):.3f}, worst {min(fractions):.3f} of {len(fractions)} runs",
            min(fractions) >= 0.95,
        ),
        Aim(
            "adapts there within 3 steps of the first batch not yet handed out",
            f"at most {slowest} in {len(late)} changes, {late.count(None)} not at all",
            slowest <= 3 and None not in late,
        ),
        Aim(
            "as soon at the start, where nothing is known of any rank",
            f"at most {first} in {len(begins)} runs, {begins.count(None)} not at all",
            first <= 3 and None not in begins,
        ),
        Aim(
            "at most 1 plan in 500 quiet steps at 5 % noise; of unequal workers, after the first 50",
            f"at most {most} in {len(quiet)} runs",
            most <= 1,
        ),
        Aim(
            "never under uniform in random scenarios",
            f"worst {worst:.4f} of uniform's time in {len(random)} runs",
            worst <= 1.0,
        ),
    ]


def text(found: dict[str, Any]) -> str:
    """All of it in Markdown."""
    parts = [f"Rank 3 of 4 fails slow: {name}\n\n" + _policies(each) for name, each in found["fail_slow"].items()]
    parts.append("Random scenarios\n\n" + _policies(found["random"]))
    parts.append("Paceline in random scenarios\n\n" + _random(found["random"][OURS]))
    parts.append("Paceline in 500 quiet steps\n\n" + _quiet(found["quiet"]))
    rows = [[aim.name, aim.found, "yes" if aim.met else "no"] for aim in aims(found)]
    parts.append(table(["aim", "found", "met"], rows))
    return "\n\n".join(parts)


def _policies(by_policy: dict[str, list[dict[str, Any]]]) -> str:
    """Throughput against the oracle's, runs one by one."""
    rows = []
    for name, each in by_policy.items():
        oracle, behind = (spread([one[key] for one in each]) for key in ("of_oracle", "of_oracle_behind_prefetch"))
        plans = sum(one["plans"] for one in each) / len(each)
        rows.append(
            [
                name,
                f"{oracle['mean']:.3f}",
                f"{oracle['worst']:.3f}",
                f"{behind['mean']:.3f}",
                f"{behind['p10']:.3f}",
                f"{behind['worst']:.3f}",
                f"{max(one['of_uniform_time'] for one in each):.3f}",
                f"{plans:.1f}",
            ]
        )
    head = ["policy", "of the oracle", "worst", "of the oracle behind prefetch", "10 % of runs below", "worst"]
    return table([*head, "worst time over uniform's", "plans a run"], rows)


def _random(ours: list[dict[str, Any]]) -> str:
    rows = []
    begins, later = [one["adaptation_steps"][:1] for one in ours], [one["adaptation_steps"][1:] for one in ours]
    for name, parts in (("the start, from equal shares", begins), ("changes later", later)):
        steps = [each for part in parts for each in part]
        known = sorted(each for each in steps if each is not None)
        within = sum(each <= 3 for each in known)
        half = f"half in {known[len(steps) // 2]}" if len(steps) // 2 < len(known) else "fewer than half at all"
        rows.append(
            [
                f"{name}: within 10 % of the oracle's step, from the first batch not yet handed out",
                f"{within} of {len(steps)} in at most 3 steps, {half}; "
                f"{steps.count(None)} not before the next change or the end",
            ]
        )
    for title, key, worst in (
        ("farthest from the oracle", "of_oracle", min),
        ("nearest to uniform", "of_uniform_time", max),
    ):
        one = worst(ours, key=lambda each: float(each[key]))
        rows.append([title, f"{one['scenario']}: {one[key]:.3f}, {one['plans']} plans"])
    return table(["Paceline", "found"], rows)


def _quiet(quiet: dict[str, list[dict[str, Any]]]) -> str:
    rows = [
        [
            name,
            str(len(each)),
            f"{sum(one['plans'] for one in each) / len(each):.2f}",
            str(max(one["plans"] for one in each)),
            str(max(one["late_plans"] for one in each)),
            f"{min(one['of_oracle'] for one in each):.3f}",
            f"{max(one['of_uniform_time'] for one in each):.4f}",
        ]
        for name, each in quiet.items()
    ]
    head = ["workers", "runs", "plans a run", "most", "most after step 50", "least of the oracle"]
    return table([*head, "worst time over uniform's"], rows)
