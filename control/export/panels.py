"""What is drawn of a session: panels on one axis of time, whoever draws them.

Rule of this file: pure. It says what stands in each panel and in which unit; colours and widths are for who draws.
"""

from collections.abc import Iterator
from typing import NamedTuple

from .stat import Statistics
from .timeline import Bin

#: Jobs whose step time is drawn, and findings that are marked.
MOST_JOBS, MOST_FINDINGS = 8, 12
GIB = 1024.0**3


class Curve(NamedTuple):
    """One curve: seconds since the session began, and means; around them least and most."""

    label: str
    time_s: list[float]
    mean: list[float]
    least: list[float]
    most: list[float]


class Panel(NamedTuple):
    """A panel: its title with the unit, its curves, and whether its axis ends at 1."""

    title: str
    unit: str
    curves: list[Curve]
    ratio: bool = False


class Span(NamedTuple):
    """A stretch of time that is marked, in seconds since the session began."""

    label: str
    from_s: float
    to_s: float


def panels(statistics: Statistics) -> list[Panel]:
    """The panels that hold anything, from top to bottom."""
    jobs = [name for name in statistics.timeline.names() if name.startswith("step time/")][:MOST_JOBS]
    wanted = [
        Panel("GPU utilisation", "ratio", [_curve(statistics, "utilization", "all GPUs", 1.0)], ratio=True),
        Panel("GPU memory", "ratio", [_curve(statistics, "memory", "all GPUs", 1.0)], ratio=True),
        Panel("DRAM active", "ratio", [_curve(statistics, "dram", "all GPUs", 1.0)], ratio=True),
        Panel(
            "PCIe a GPU",
            "GiB/s",
            [
                _curve(statistics, "bandwidth/PCIe to the GPU", "to the GPU", 1 / GIB),
                _curve(statistics, "bandwidth/PCIe from the GPU", "from the GPU", 1 / GIB),
            ],
        ),
        Panel("Power a GPU", "W", [_curve(statistics, "power", "all GPUs", 1.0)]),
        Panel("Step time", "s", [_curve(statistics, name, name.partition("/")[2], 1.0) for name in jobs]),
    ]
    kept = [panel._replace(curves=[curve for curve in panel.curves if curve.time_s]) for panel in wanted]
    return [panel for panel in kept if panel.curves]


def findings(statistics: Statistics) -> list[Span]:
    """The findings, from their first step on."""
    return list(_findings(statistics))[:MOST_FINDINGS]


def silences(statistics: Statistics) -> list[Span]:
    """Who was silent when."""
    told = statistics.told
    end_s = told.stopped_s or max((span[1] for span in statistics.spans.values()), default=told.started_s)
    return [
        Span(who, since - told.started_s, (end_s if until is None else until) - told.started_s)
        for who, since, until in told.silences[:100]
    ]


def _findings(statistics: Statistics) -> Iterator[Span]:
    started_s = statistics.told.started_s
    for id_, (first_s, last_s) in statistics.spans.items():
        finding = statistics.findings[id_]
        ranks = f" rank {', '.join(map(str, finding.ranks[:4]))}" if finding.ranks else ""
        yield Span(
            f"{finding.kind.replace('_', ' ')}{ranks}", max(0.0, first_s - started_s), max(0.0, last_s - started_s)
        )


def _curve(statistics: Statistics, name: str, label: str, factor: float) -> Curve:
    started_s, half_s = statistics.told.started_s, statistics.timeline.bin_s / 2
    points: list[tuple[float, Bin]] = list(statistics.timeline.series(name))
    return Curve(
        label,
        [max(0.0, start + half_s - started_s) for start, _ in points],
        [one.total / one.count * factor for _, one in points],
        [one.least * factor for _, one in points],
        [one.most * factor for _, one in points],
    )
