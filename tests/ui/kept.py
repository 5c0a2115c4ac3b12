"""An archive in a folder as the page's tests read it: three weeks of two jobs, their nodes and GPUs.

Rule of this file: it is written as ``paceline archive`` writes it, by the same commits.
"""

import datetime
from collections.abc import Iterable
from pathlib import Path
from typing import Any

from archive.buffers import Buffers
from archive.messages import rows_of
from archive.writer import Position, Writer
from paceline import events
from paceline.history.store import open_store
from tests.derived_events import described, finding, job_window

#: Wednesday, 25 November 2026, 12:00 UTC; the hours and days before it.
NOW_S = datetime.datetime(2026, 11, 25, 12, tzinfo=datetime.UTC).timestamp()
HOUR_S, DAY_S = 3600.0, 86_400.0


def keep(folder: Path, told: Iterable[tuple[float, Any]]) -> None:
    """Commit events, each published at its time, to the archive in ``folder``."""
    buffers = Buffers()
    for offset, (published_s, event) in enumerate(told):
        for rows in rows_of(event, published_s):
            buffers.add(rows, 0, offset, published_s)
    writer = Writer(open_store(str(folder), {}))
    writer.commit(buffers, Position({("paceline.window.v1", 0): len(writer.manifest.files) + 1}, {}))


def cost(gpu_hours: float) -> events.Cost:
    """What an episode of a job of 64 GPUs costs."""
    return events.Cost(lost_s=gpu_hours * HOUR_S / 64, gpu_hours=gpu_hours, throughput_lost_ratio=0.2)


def device_window(at_s: float, device: str, busy: float | None, job: str = "", **changes: Any) -> events.DeviceWindow:
    """An hour of a GPU of gpu-01."""
    held: dict[str, Any] = {
        "cluster": "default", "start_s": at_s, "length_s": HOUR_S, "node": "gpu-01", "device": device, "samples": 360,
        "mean": {} if busy is None else {"utilization_ratio": busy}, "max": {},
    }  # fmt: skip
    if job:
        held["job"] = job
    return events.DeviceWindow(**{**held, **changes})


def three_weeks(now_s: float = NOW_S) -> list[tuple[float, Any]]:
    """Job ``llm-7b`` with a straggler every other day, ``llm-70b`` of cluster ``lab`` with a slow link, and GPUs."""
    told: list[tuple[float, Any]] = []
    for back in range(20, 0, -1):
        at_s = now_s - back * DAY_S
        told += _pace(at_s, slow=back % 2 == 0)
        told += [
            (at_s, device_window(at_s, "GPU-0", 0.9, "llm-7b")),
            (at_s, device_window(at_s, "GPU-1", 0.01, "llm-7b")),
            (at_s, device_window(at_s, "GPU-2", 0.0)),
            (at_s, device_window(at_s, "GPU-3", None)),
        ]
        if back % 2 == 0:
            told += _straggler(at_s, back)
    told += _others(now_s)
    return sorted(told, key=lambda one: one[0])


def _pace(at_s: float, *, slow: bool) -> list[tuple[float, Any]]:
    told: list[tuple[float, Any]] = []
    for number in range(60):
        worst_s = 0.9 if slow and number > 20 else 0.52
        window = job_window(
            cluster="default", job="llm-7b", start_s=at_s + 120.0 * number, length_s=60.0, steps=60, ranks=64,
            step_median_s=worst_s + 0.1, step_p95_s=worst_s + 0.15, own_worst_s=worst_s, wait_ratio=worst_s - 0.4,
        )  # fmt: skip
        told.append((at_s + 120.0 * number + 60.0, window))
    return told


def _straggler(at_s: float, back: int) -> list[tuple[float, Any]]:
    causes = ("throttling", "worker_compute", "input_pipeline", "cpu_contention")
    same = {
        "id": f"straggler-{back}", "cluster": "default", "job": "llm-7b", "ranks": [back],
        "nodes": [f"gpu-{back % 6:02d}"], "cause": causes[back // 2 % 4],
        "summary": f"Rank {back} needs 1.8 times the median rank's time.",
        "first_step": 1000 * (20 - back), "last_step": 1000 * (20 - back) + 500,
    }  # fmt: skip
    states = ((1, "suspected", 0.1), (2, "confirmed", 1.0), (3, "recovered", 1.7))
    return [
        (at_s + revision * 0.7 * HOUR_S, finding(revision=revision, state=state, cost=cost(share * back), **same))
        for revision, state, share in states
    ]


def _others(now_s: float) -> list[tuple[float, Any]]:
    link = {"id": "link-1", "cluster": "lab", "job": "llm-70b", "kind": "communication_bound", "cause": "link",
            "ranks": [], "nodes": ["lab-1", "lab-2"],
            "summary": "The link between lab-1 and lab-2 carries a third of its rate."}  # fmt: skip
    begun_s = now_s - 1.2 * DAY_S  # It goes on over midnight: its cost belongs to both days.
    jobs = {"cluster": "default", "job": "llm-7b", "world_size": 64, "started_s": now_s - 20 * DAY_S}
    lab = {"cluster": "lab", "job": "llm-70b", "world_size": 128, "started_s": begun_s - HOUR_S}
    return [
        (begun_s, finding(revision=1, state="suspected", cost=cost(4.0), **link)),
        (begun_s + 0.8 * DAY_S, finding(revision=2, state="confirmed", cost=cost(10.0), **link)),
        *((now_s - 20 * DAY_S, described(node=f"gpu-{number:02d}", **jobs)) for number in range(6)),
        *((begun_s - HOUR_S, described(node=node, **lab)) for node in ("lab-1", "lab-2")),
    ]
