"""Windows of GPUs as the bus tells them, and sources asked without their thread."""

from collections.abc import Iterable
from typing import Any

from archive.addition import Addition
from archive.writer import Writer
from paceline import events


def window(start_s: float, **changes: Any) -> events.DeviceWindow:
    """A minute of GPU-1 on node-1, as the bus tells it."""
    held: dict[str, Any] = {
        "cluster": "c", "start_s": start_s, "length_s": 60.0, "node": "node-1", "device": "GPU-1", "samples": 60,
        "mean": {"utilization_ratio": 0.9}, "max": {"utilization_ratio": 1.0},
    }  # fmt: skip
    return events.DeviceWindow(**{**held, **changes})


def committed(writer: Writer, additions: Iterable[Addition]) -> int:
    """Commit what a source tells, piece by piece as the archiver does; how many rows."""
    rows = 0
    for addition in additions:
        assert writer.add(addition)
        rows += addition.rows
    return rows
