"""What a benchmark found, and what a file of nodes holds, as tables for a person; and as one JSON document.

Rule of this file: pure. Names from outside are shown with ``visible``.
"""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import asdict
from typing import Any

from paceline.nodes_file import Node, relative
from paceline.rated import Speed
from paceline.visible import visible

from .results import ALL_REDUCE, BUS, Results, is_busy

_PREFIXES = ((1e15, "P"), (1e12, "T"), (1e9, "G"), (1e6, "M"), (1e3, "k"))
_UNITS = {"flop/s": "FLOP/s", "bytes/s": "B/s"}


def amount(value: float, unit: str) -> str:
    """A speed as people write it.

    >>> amount(1.234e11, "flop/s"), amount(512.0, "bytes/s"), amount(3.2e9, "bytes/s")
    ('123 GFLOP/s', '512 B/s', '3.20 GB/s')
    """
    scale, prefix = next(((scale, prefix) for scale, prefix in _PREFIXES if value >= scale), (1.0, ""))
    return f"{_three(value / scale)} {prefix}{_UNITS.get(unit, unit)}"


def size(size_bytes: int) -> str:
    """The size of a message.

    >>> size(4096), size(64 * 2**20)
    ('4 KiB', '64 MiB')
    """
    scale, unit = next(
        ((scale, unit) for scale, unit in ((2**30, "GiB"), (2**20, "MiB"), (2**10, "KiB")) if size_bytes >= scale),
        (1, "B"),
    )
    return f"{size_bytes / scale:g} {unit}"


def speeds_table(speeds: Sequence[Speed], notes: Mapping[str, str]) -> list[str]:
    """A line a speed, under a head."""
    rows = [("device", "what", "speed", "95 % interval", "samples", "others", "how")]
    buses = {(one.device, one.size_bytes, one.ranks): one for one in speeds if one.name == BUS}
    for one in speeds:
        if one.name == BUS:
            continue
        what = one.name if one.size_bytes is None else f"{one.name} {size(one.size_bytes)}"
        between = _between(amount(one.low, one.unit), amount(one.high, one.unit))
        how = notes.get(f"{one.device}/{one.name}", "")
        bus = buses.get((one.device, one.size_bytes, one.ranks)) if one.name == ALL_REDUCE else None
        how += f"; bus {amount(bus.value, bus.unit)}" if bus is not None else ""
        rows.append((one.device, what, amount(one.value, one.unit), between, str(one.samples), others(one), how))
    return columns(rows)


def _between(low: str, high: str) -> str:
    """Both bounds, and their unit once where it is the same."""
    number, _, unit = low.rpartition(" ")
    return f"{number if high.endswith(f' {unit}') else low} to {high}"


def others(one: Speed) -> str:
    """How much of the device others used meanwhile."""
    if one.busy_ratio is None:
        return "?"
    return f"{one.busy_ratio:.0%}{' busy' if is_busy(one) else ''}"


def nodes_table(nodes: Mapping[str, Node]) -> list[str]:
    """A line a node and speed, with its ratio to the median of the nodes of its kind."""
    ratios = relative(nodes)
    peers = [node.kind for node in nodes.values()]
    rows = [("node", "kind", "devices", "what", "speed a device", "of its kind's median", "others")]
    for name, node in sorted(nodes.items()):
        units = {(one.name, one.size_bytes, one.ranks): one for one in node.speeds}
        for what, value in node.by_what().items():
            word = what[0] if what[1] is None else f"{what[0]} {size(what[1])}"
            ratio = f"{ratios[name][what]:.2f}" if peers.count(node.kind) > 1 else "the only one"
            of = units[what]
            rows.append((name, node.kind, str(node.devices), word, amount(value, of.unit), ratio, others(of)))
    return columns(rows)


def document(node: Node, results: Results, stayed: Iterable[Speed], file: str) -> dict[str, Any]:
    """All that was found, for a program."""
    return {
        "node": node.name,
        "kind": node.kind,
        "devices": node.devices,
        "time_s": node.time_s,
        "versions": dict(node.versions),
        "speeds": [asdict(one) | {"how": results.notes.get(f"{one.device}/{one.name}")} for one in results.speeds],
        "not_measured": [asdict(each) for each in results.skipped],
        "busy": results.is_busy,
        "busy_because": results.busy,
        "kept_before": [asdict(one) for one in stayed],
        "file": file,
    }


def columns(rows: Sequence[Sequence[str]]) -> list[str]:
    """Rows under each other, each column as wide as its widest word.

    >>> columns([("a", "bb"), ("ccc", "d")])
    ['a    bb', 'ccc  d']
    """
    shown = [[visible(cell) for cell in row] for row in rows]
    widths = [max(len(row[at]) for row in shown) for at in range(len(shown[0]))]
    return ["  ".join(cell.ljust(width) for cell, width in zip(row, widths, strict=True)).rstrip() for row in shown]


def _three(value: float) -> str:
    """Three digits that say something."""
    digits = 0 if value >= 100 else 1 if value >= 10 else 2
    return f"{value:.{digits}f}"
