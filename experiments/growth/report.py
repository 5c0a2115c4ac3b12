"""The numbers as tables in Markdown and a picture, as they stand in docs/operations.md."""

from pathlib import Path
from typing import Any

from ..machine import headline
from ..markdown import table
from .sizing import Cost, needed

GPUS = 1000


def text(found: dict[str, Any]) -> str:
    """All that was measured."""
    parts = [headline(found) + "."]
    if "sizing" in found:
        # A worker holds more than the process in which states are measured: Faust and its clients, too.
        workers = [run["memory_peak_bytes"] for run in found.get("recovery", [])]
        empty = min(workers, default=found["sizing"][0]["before_bytes"])
        parts.append(_sizing(found["sizing"], empty))
    if "states" in found:
        parts.append(_states(found["states"]))
    if "recovery" in found:
        parts.append(_recovery(found["recovery"]))
    if "scaling" in found:
        parts.append(_scaling(found["scaling"]))
    return "\n\n".join(parts)


def cost(point: dict[str, Any]) -> Cost:
    """What the jobs of ``point`` cost, a rank of theirs."""
    ranks = point["jobs"] * point["ranks"]
    return Cost(
        ranks_a_job=point["ranks"],
        steps_a_s=1 / point["step_s"],
        us_a_rank_step=point["us_a_rank_step"],
        held_bytes_a_rank=point["held_bytes"] / ranks,
        snapshot_bytes_a_rank=point["snapshot_bytes"] / ranks,
        stored_bytes_a_rank_s=point["stored_bytes_a_s"] / ranks,
        bytes_a_rank_step=point["bytes_a_rank_step"],
        packed_bytes_a_rank_step=point["packed_bytes_a_rank_step"],
        window_bytes_a_rank_s=point["answer_bytes_a_rank_s"].get("window", 0.0),
    )


def _sizing(points: list[dict[str, Any]], empty_bytes: float) -> str:
    rows = []
    for point in points:
        each = cost(point)
        need = needed(each, GPUS, empty_bytes)
        rows.append(
            [
                f"{GPUS // each.ranks_a_job} of {each.ranks_a_job:,} ranks",
                f"{each.steps_a_s:g}",
                f"{need.cores:.2f}",
                str(need.workers),
                _bytes(need.memory_bytes),
                _bytes(need.steps_bytes_a_day),
                _bytes(need.packed_steps_bytes_a_day),
                _bytes(need.window_bytes_a_day),
                _bytes(need.changelog_bytes_a_day),
            ]
        )
    head = ["jobs", "steps/s", "cores", "workers", "memory", "op a day, plain", "op a day, gzip", "windows a day"]
    return table([*head, "changelog written a day"], rows)


def _states(points: list[dict[str, Any]]) -> str:
    rows = [
        [
            f"{point['jobs']:,}",
            f"{point['ranks']:,}",
            f"{point['seconds'] / point['step_s']:,.0f}",
            _bytes(point["held_bytes"]),
            _bytes(point["held_bytes"] / point["jobs"] / point["ranks"]),
            _bytes(point["peak_bytes"]),
            _bytes(point["snapshot_bytes"]),
            _bytes(point["snapshot_bytes"] / point["jobs"] / point["ranks"]),
            seconds(point["snapshot_s"]),
            seconds(point["restore_s"]),
            _bytes(point["stored_bytes_a_s"]),
            f"{point['us_a_rank_step']:.1f}",
        ]
        for point in points
    ]
    head = ["jobs", "ranks of each", "steps", "memory", "a rank", "at most", "snapshots", "a rank", "made in"]
    return table([*head, "restored in", "stored a second", "us a rank-step"], rows)


def _recovery(runs: list[dict[str, Any]]) -> str:
    rows = [
        [
            f"{run['jobs']:,}",
            f"{run['ranks']:,}",
            "killed" if run["killed"] else "stopped",
            _bytes(run["changelog_bytes"]),
            f"{run['answers_s']:.1f} s",
            f"{run['ready_s']:.1f} s",
            f"{run['first_s']:.1f} s",
            f"{run['all_s']:.1f} s",
            f"{run['after_messages']:,}",
            _bytes(run["memory_peak_bytes"]),
        ]
        for run in runs
    ]
    head = [
        "jobs",
        "ranks of each",
        "the one before was",
        "changelog",
        "`/healthz`",
        "`/readyz`",
        "first message judged",
    ]
    return table([*head, "all that waited judged", "messages that waited", "memory at most"], rows)


def _scaling(runs: list[dict[str, Any]]) -> str:
    rows = [
        [
            str(run["workers"]),
            str(run["worked"]),
            f"{run['rank_steps']:,}",
            f"{run['rank_steps_per_s']:,.0f}",
            f"{run['rank_steps_per_processor_s']:,.0f}",
            f"{run['processor_s']:.1f} s",
            _bytes(run["memory_peak_bytes"]),
        ]
        for run in runs
    ]
    head = ["workers", "that had messages", "rank-steps", "rank-steps/s", "rank-steps a processor second"]
    return table([*head, "processor time", "memory of the largest"], rows)


def _bytes(value: float) -> str:
    """``value`` in the unit that leaves it at least 1, with two digits or more.

    >>> _bytes(950.0), _bytes(1_250_000), _bytes(33.4e9)
    ('950 B', '1.2 MB', '33 GB')
    """
    units = iter(("B", "kB", "MB", "GB", "TB"))
    unit = next(units)
    while abs(value) >= 999.5:
        value, unit = value / 1000, next(units)
    return f"{value:.0f} {unit}" if abs(value) >= 9.95 else f"{value:.1f} {unit}"


def seconds(value: float) -> str:
    """``value`` in seconds, or in milliseconds where it is small.

    >>> seconds(0.0056), seconds(2.34)
    ('5.6 ms', '2.3 s')
    """
    return f"{value:.1f} s" if value >= 0.9995 else f"{1000 * value:.1f} ms"


def picture(found: dict[str, Any], path: Path) -> None:
    """Memory, snapshots and their time by ranks, for one job that grows and for more and more jobs."""
    import matplotlib

    matplotlib.use("Agg")
    from matplotlib import pyplot

    one = [point for point in found["states"] if point["jobs"] == 1]
    many = [point for point in found["states"] if point["ranks"] == 8]
    figure, panels = pyplot.subplots(1, 3, figsize=(11, 3.4), layout="constrained")
    shown = (
        ("memory, MB", "held_bytes", 1e6),
        ("snapshots, MB", "snapshot_bytes", 1e6),
        ("restored in, s", "restore_s", 1),
    )
    for axes, (words, name, unit) in zip(panels, shown, strict=True):
        for points, label, marker in ((one, "one job", "o"), (many, "jobs of 8 ranks", "s")):
            ranks = [point["jobs"] * point["ranks"] for point in points]
            axes.plot(ranks, [max(point[name], 0) / unit for point in points], marker=marker, label=label)
        axes.set(xscale="log", yscale="log", xlabel="ranks in all", title=words)
        axes.grid(alpha=0.3)
    panels[0].legend(frameon=False)
    figure.savefig(path, dpi=110)
    pyplot.close(figure)
