"""``paceline analyze`` of a recording in which unequal nodes are described: the right one is named."""

import json
import subprocess
import sys
from pathlib import Path

import pytest

from paceline import topics, wire
from paceline.events import NodeDescribed
from tests.rated_nodes import described, gpu, speed


def recorded(path: Path, events: list[NodeDescribed]) -> str:
    lines = [
        {
            "topic": topics.NODE.name,
            "key": event.node,
            "timestamp_ms": int(event.time_s * 1000),
            "value": json.loads(wire.encode(event)),
        }
        for event in events
    ]
    path.write_text("".join(json.dumps(line) + "\n" for line in lines))
    return str(path)


def analyzed(*arguments: str) -> str:
    command = [sys.executable, "-m", "paceline", "analyze", *arguments]
    return subprocess.run(command, capture_output=True, text=True, check=True, timeout=120).stdout


@pytest.mark.slow
def test_two_unequal_nodes_are_told_apart(tmp_path: Path) -> None:
    """Of four of a kind one is slow by its GPU and one by its memory; clusters are kept apart."""
    events = []
    for at in range(4):
        rated = [
            speed(f"GPU-{at}", "gemm_bfloat16", 4e14 if at == 2 else 7e14),
            speed("cpu", "memory_triad", 2e11 if at == 1 else 4e11, unit="bytes/s"),
        ]
        events.append(described(f"n{at}", 0, rated, gpu(f"GPU-{at}")))
    events.append(described("n9", 0, [speed("GPU-9", "gemm_bfloat16", 1e14)], gpu("GPU-9"), cluster="another"))
    recording = recorded(tmp_path / "nodes.jsonl", events)
    findings = [json.loads(line) for line in analyzed(recording, "--json").splitlines()]
    assert {(one["kind"], *one["nodes"], *one["devices"]) for one in findings} == {
        ("below_rating", "n1"),
        ("below_rating", "n2", "GPU-2"),
    }
    assert "n2 lies under its rating: GPU-2: gemm_bfloat16 400 Tflop/s, 43% under" in analyzed(recording)
    suggested = [json.loads(line) for line in analyzed(recording, "--suggestions", "--json").splitlines()]
    assert {(one["action"], one["target"]) for one in suggested} == {
        ("measure_node", "node:n1"),
        ("measure_node", "node:n2"),
    }
    assert any("paceline benchmark" in line for line in suggested[0]["apply"])
