"""Makes the recordings of nodes, and the files that were imported (README.md has the commands).

Rule of this file: the standard library alone, and plain JSON: what it writes does not change when the code does.
"""

import csv
import json
import random
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

T0_S = 1_700_000_000.0
GIB = 2**30
#: A message of each event as version 1 has it, which no change to the code touches.
GOLDEN = Path(__file__).parent.parent / "paceline" / "golden" / "v1"
NO_COLUMNS = {"uuids", "device", "time_s", "processes", "cpu_ratio_per_core", "network_errors"}
#: How the names of measures end. The recordings have these first, then what is counted.
UNITS = ("_ratio", "_w", "_j", "_celsius", "_mhz", "_per_s")
THERMAL, POWER_CAP, POWER_BRAKE, HARDWARE, SOFTWARE_THERMAL = 0x40, 0x4, 0x80, 0x8, 0x20


def columns_of(event: str) -> list[str]:
    """The names of an event's columns, in its order."""
    message = json.loads((GOLDEN / f"{event}.json").read_bytes())
    return [name for name, value in message.items() if isinstance(value, list) and name not in NO_COLUMNS]


def line(topic: str, event: dict[str, Any]) -> dict[str, Any]:
    at_s = event.get("t0_s", T0_S)
    envelope = {"schema_version": 1, "cluster": "c", "producer": "collector"}
    return {"topic": topic, "key": "node-1", "timestamp_ms": int(at_s * 1000), "value": envelope | event}


def inventory(gpus: int) -> dict[str, Any]:
    devices = [
        {
            "index": gpu,
            "uuid": f"GPU-{gpu}",
            "name": "H200",
            "memory_total_bytes": 80 * GIB,
            "power_limit_w": 700.0,
            "pcie_generation_max": 5,
            "pcie_width_max": 16,
            "sm_clock_max_mhz": 1980,
        }
        for gpu in range(gpus)
    ]
    node = {"sequence": 0, "node": "node-1", "time_s": T0_S, "cpu_model": None, "cpu_count": 64}
    return line("paceline.node.v1", node | {"memory_total_bytes": 256 * GIB, "kernel": "6", "devices": devices})


def usual(dice: random.Random) -> dict[str, Any]:
    """A GPU at work, as a collector reads it."""
    busy = round(0.9 + 0.02 * dice.random(), 2)
    return {
        "utilization_ratio": busy,
        "sm_active_ratio": round(busy * 0.9, 3),
        "fb_used_bytes": 48 * GIB,
        "fb_total_bytes": 80 * GIB,
        "power_w": round(600 + 20 * dice.random()),
        "power_limit_w": 700.0,
        "temperature_celsius": 64.0,
        "memory_temperature_celsius": 70.0,
        "sm_clock_mhz": 1755.0,
        "memory_clock_mhz": 2619.0,
        "throttle_reasons": 0,
        "pcie_generation": 5,
        "pcie_width": 16,
        "pcie_replays": 0,
        "ecc_corrected": 0,
        "ecc_uncorrected": 0,
        "retired_pages": 0,
        "remapped_rows": 0,
        "xid": 0,
    }


def node(
    seconds: int, gpus: int, seed: int, reads: Callable[[int, int], dict[str, Any]], lost: Callable[[int, int], bool]
) -> Iterator[dict[str, Any]]:
    """A message a second; ``reads(second, gpu)`` is what differs from a GPU at work."""
    dice = random.Random(seed)
    names = sorted(columns_of("DeviceSamples"), key=lambda name: not name.endswith(UNITS))
    yield inventory(gpus)
    for second in range(seconds):
        rows = [usual(dice) | reads(second, gpu) for gpu in range(gpus)]
        gone = [gpu for gpu in range(gpus) if lost(second, gpu)]
        for gpu in gone:
            rows[gpu] = {}
        columns = {name: [row.get(name) for row in rows] for name in names}
        owners = [
            {"device": gpu, "pid": 100 + gpu, "name": "python", "used_bytes": GIB, "job": "job", "rank": gpu}
            for gpu in range(gpus)
        ]
        event = {
            "sequence": second,
            "node": "node-1",
            "t0_s": T0_S + second,
            "uuids": [f"GPU-{gpu}" for gpu in range(gpus)],
            "device": list(range(gpus)),
            "time_s": [0.25] * gpus,
            "processes": owners,
            "not_measured": {f"{name}[{gpu}]": "GPU is lost" for gpu in gone for name in ("power_w", "xid")},
        }
        yield line("paceline.device.v1", event | columns)


def host(seconds: int, used: Callable[[int], float]) -> Iterator[dict[str, Any]]:
    names = columns_of("HostSamples")
    for second in range(seconds):
        columns: dict[str, Any] = {name: [None] for name in names}
        columns |= {"memory_used_bytes": [int(used(second))], "memory_total_bytes": [256 * GIB]}
        columns |= {"swap_used_bytes": [GIB], "cpu_ratio_per_core": [[]], "time_s": [0.25]}
        yield line("paceline.host.v1", {"sequence": second, "node": "node-1", "t0_s": T0_S + second, **columns})


def faults(second: int, gpu: int) -> dict[str, Any]:
    """A dead GPU with a remapped row, a program's own XID, memory that corrects itself, and heat for two minutes."""
    if gpu == 0 and second >= 60:
        return {"xid": 79 if second == 60 else 0, "ecc_uncorrected": 1, "remapped_rows": 1}
    if gpu == 1:
        return {"xid": 31 if second == 90 else 0}
    if gpu == 2:
        return {"ecc_corrected": second // 30}
    hot = gpu == 3 and 100 <= second < 220
    return {"throttle_reasons": THERMAL, "sm_clock_mhz": 1200.0, "temperature_celsius": 96.0} if hot else {}


def throttling(second: int, gpu: int) -> dict[str, Any]:
    """A reason a GPU from second 60 on: power cap, heat by software, power brake, hardware in every other second."""
    mask = [POWER_CAP, SOFTWARE_THERMAL, POWER_BRAKE | HARDWARE, HARDWARE if second % 2 else 0][gpu]
    return {"throttle_reasons": mask, "sm_clock_mhz": 1350.0} if second >= 60 and mask else {}


def links(second: int, gpu: int) -> dict[str, Any]:
    """Half the lanes, replays that go on, an older generation."""
    return [{}, {"pcie_width": 8}, {"pcie_replays": second}, {"pcie_generation": 3 if second > 60 else 5}][gpu]


def idle(second: int, gpu: int) -> dict[str, Any]:
    """One GPU is held and does nothing for eleven minutes."""
    quiet = {"utilization_ratio": 0.0, "sm_active_ratio": 0.0, "power_w": 90, "sm_clock_mhz": 345.0}
    return quiet if gpu == 1 and second < 660 else {}


def filling(second: int, gpu: int) -> dict[str, Any]:
    return {"fb_used_bytes": int((70 + second * 0.02) * GIB)} if gpu == 0 else {}


def uneven(second: int, gpu: int) -> dict[str, Any]:
    return {"utilization_ratio": 0.7} if gpu == 2 else {}


def never(second: int, gpu: int) -> bool:
    return False


NODES: dict[str, Callable[[], Iterator[dict[str, Any]]]] = {
    "node-faults": lambda: node(320, 4, 1, faults, never),
    "node-throttling": lambda: node(240, 4, 2, throttling, never),
    "node-links": lambda: node(240, 4, 3, links, lambda second, gpu: gpu == 0 and second >= 120),
    "node-idle": lambda: node(720, 2, 4, idle, never),
    "node-uneven": lambda: node(240, 4, 5, uneven, never),
}


def memory() -> list[dict[str, Any]]:
    """A GPU and its host fill up, message by message in the order of their times."""
    both = [*node(360, 1, 6, filling, never), *host(360, lambda second: (235 + second * 0.05) * GIB)]
    return sorted(both, key=lambda one: one["timestamp_ms"])


def inspector(folder: Path) -> None:
    """NCCL Inspector's logs of four ranks; rank 2 comes late from the 150th collective on, so it waits least."""
    dice = random.Random(7)
    late = [[0.02 + 0.004 * dice.random() + (0.015 if rank == 2 and number >= 150 else 0) for rank in range(4)]
            for number in range(400)]  # fmt: skip
    for rank in range(4):
        rows, at_s = [], T0_S
        for number, work in enumerate(late):
            at_s += max(work) + 0.003
            wait_us = round(1e6 * (max(work) - work[rank] + 0.003))
            if number % 20 == 0:
                header = {"id": "0xabc", "comm_name": "unknown", "rank": rank, "n_ranks": 4, "nnodes": 1}
                about = {"inspector_output_format_version": "v4.3", "dump_timestamp_us": round(at_s * 1e6)}
                about |= {"git_rev": "", "hostname": "node-1", "pid": 100 + rank}
                rows.append({"header": header, "metadata": about})
            one = {"coll": "AllReduce", "coll_algo": "RING", "coll_proto": "LL", "coll_sn": number}
            one |= {"coll_msg_size_bytes": 1 << 20, "coll_exec_time_us": wait_us, "coll_timing_source": "kernel_gpu"}
            one |= {"coll_algobw_gbs": 1.5, "coll_busbw_gbs": 2.5}
            start_us = round(at_s * 1e6) - wait_us
            one["event_trace_ts"] = {"coll_start_ts": start_us, "coll_stop_ts": start_us + wait_us, "kernel_events": []}
            rows.append({"coll_perf": one})
        (folder / f"rank{rank}.log").write_text("".join(json.dumps(row) + "\n" for row in rows))


def timeline(path: Path) -> None:
    """A table of ops of four ranks; rank 1 reads its data slowly from step 30 on."""
    dice = random.Random(8)
    with path.open("w", newline="") as file:
        out = csv.writer(file)
        out.writerow(["rank", "step", "optype", "start_ts", "duration"])
        now = T0_S
        for step in range(90):
            took = []
            for rank in range(4):
                parts = {"dataloader": 0.02, "forward-compute": 0.1, "backward-compute": 0.2, "optimizer": 0.02}
                parts["dataloader"] += 0.15 if rank == 1 and step >= 30 else 0.0
                took.append({name: value * dice.gauss(1, 0.02) for name, value in parts.items()})
            end = max(sum(parts.values()) for parts in took) + 0.02
            for rank, parts in enumerate(took):
                at = now
                for name, seconds in parts.items():
                    out.writerow([rank, step, name, f"{at:.6f}", f"{seconds:.6f}"])
                    at += seconds
                out.writerow([rank, step, "grads-all-reduce", f"{at:.6f}", f"{now + end - at:.6f}"])
            now += end


def main() -> int:
    what, *rest = sys.argv[1:]
    if what == "inspector":
        inspector(Path(rest[0]))
    elif what == "timeline":
        timeline(Path(rest[0]))
    else:
        for one in memory() if what == "node-memory" else NODES[what]():
            print(json.dumps(one, separators=(",", ":")))
    return 0


if __name__ == "__main__":
    sys.exit(main())
