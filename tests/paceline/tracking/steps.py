"""Messages of a node's sidecar, for tests of those who make points of them."""

import time
from typing import Any

from paceline import columns, recording, topics, wire
from paceline.events import Column, StepTimings
from paceline.events.columns import Speakers


def message(sequence: int, steps: list[int], step_s: float = 0.5, **changes: Any) -> StepTimings:
    """Steps of ranks 0 and 1 of job ``train``: half forward, a tenth waiting."""
    count = 2 * len(steps)
    held: dict[str, Any] = {
        "cluster": "c", "producer": "p1", "sequence": sequence, "job": "train", "attempt": 0, "node": "n1",
        "t0_s": time.time(), "rank": columns.whole([0, 1] * len(steps)),
        "step": columns.whole([step for step in steps for _ in range(2)]),
        "start_s": columns.offsets([0.0] * count), "step_s": columns.durations([step_s] * count),
        "speakers": Speakers(ranks=columns.whole([0, 1]), world_sizes=columns.whole([2, 2]), devices=["cpu", "cpu"]),
        "phases": phases(count, forward=step_s / 2, communication=step_s / 10),
    }  # fmt: skip
    return StepTimings(**{**held, **changes})


def phases(count: int, **seconds: float) -> dict[str, Column]:
    return {name: columns.durations([value] * count) for name, value in seconds.items()}


def line(event: StepTimings) -> bytes:
    return recording.render(topics.OP.name, "train", int(time.time() * 1000), wire.encode(event))
