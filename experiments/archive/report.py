"""The numbers as tables in Markdown, as they stand in docs/benchmarks.md."""

from typing import Any

from ..machine import headline
from ..markdown import table


def text(found: dict[str, Any]) -> str:
    """All that was measured."""
    parts = [headline(found) + "."]
    if "month" in found:
        parts.append(_month(found["month"]))
    if "questions" in found:
        parts.append(_questions(found["questions"]))
    if "rates" in found:
        parts.append(_rates(found["rates"]))
    return "\n\n".join(parts)


def _month(month: dict[str, Any]) -> str:
    rows = [
        [f"`{name}`", f"{one['rows']:,}", f"{one['files']:,}", size(one["bytes"]), f"{one['bytes'] / one['rows']:.0f}"]
        for name, one in month["tables"].items()
    ]
    gpus = f"{month['gpus']:,} GPUs for {month['days']} days, {month['jobs']:,} jobs"
    made = f"; made in {month['took_s'] / 60:.0f} minutes, {size(month['memory_bytes'])} of memory at most"
    return f"{gpus}{made if month['took_s'] else ''}:\n\n" + table(
        ["table", "rows", "files", "size", "bytes a row"], rows
    )


def _questions(questions: list[dict[str, Any]]) -> str:
    rows = [
        [
            one["question"],
            f"{one['rows']:,}",
            "-" if one["aim_s"] is None else f"{one['aim_s']:g} s",
            _spread(one["warm"]),
            _spread(one["cold"]),
            f"{one['warm']['processor_s']:.2f} s",
            size(max(one["warm"]["memory_bytes"], one["cold"]["memory_bytes"])),
        ]
        for one in questions
    ]
    head = ["question", "rows", "aim", "warm: median (95 %), worst", "cold: median (95 %), worst"]
    return table([*head, "processor time, warm", "memory at most"], rows)


def _spread(one: dict[str, Any]) -> str:
    return f"{one['median_s']:.2f} s ({one['low_s']:.2f} to {one['high_s']:.2f}), {one['worst_s']:.2f} s"


def _rates(rates: list[dict[str, Any]]) -> str:
    rows = [
        [
            one["load"],
            one["how"],
            f"{one['timings']:,}",
            f"{one['timings_a_processor_s']:,.0f}",
            f"{one['timings_a_s']:,.0f}" if "timings_a_s" in one else "-",
            f"{one['bytes'] / one['rows']:.0f}",
            size(one["memory_bytes"]) if "memory_bytes" in one else "-",
        ]
        for one in rates
    ]
    head = ["load", "how", "timings", "timings a processor second", "timings/s", "bytes a row", "memory at most"]
    return table(head, rows)


def size(value: float) -> str:
    """``value`` bytes in the unit that leaves it at least 1.

    >>> size(950.0), size(1_250_000), size(8.04e9)
    ('950 B', '1.2 MB', '8.0 GB')
    """
    units = iter(("B", "kB", "MB", "GB", "TB"))
    unit = next(units)
    while value >= 999.5:
        value, unit = value / 1000, next(units)
    return f"{value:.0f} {unit}" if unit == "B" or value >= 99.5 else f"{value:.1f} {unit}"
