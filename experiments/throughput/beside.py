"""The peers, each in a process of its own, on the same one-row events of one topic.

Rule of this file: a peer that is not installed is named and left out; one that fails is told with its reason.
"""

import json
import subprocess
import sys
from importlib.metadata import PackageNotFoundError, version
from typing import Any, NamedTuple

from paceline.kafka.settings import BrokerSettings

from ..processes import ROOT

TIMEOUT_S = 240.0


class Peer(NamedTuple):
    """A peer: how it is told apart, its distribution and module, and how many rows it gets."""

    name: str
    distribution: str
    module: str
    rows: int
    quick_rows: int


PEERS = (
    Peer("Faust, one table write a row", "faust-streaming", "faust_table", 40_000, 10_000),
    Peer("Quix Streams, tumbling window", "quixstreams", "quix", 150_000, 50_000),
    Peer("Bytewax, tumbling window", "bytewax", "bytewax_window", 300_000, 100_000),
)


def measure(settings: BrokerSettings, peer: Peer, topic: str, quick: bool) -> dict[str, Any]:
    """Rows a second of one peer; ``skipped`` instead where it is not installed or fails."""
    try:
        measured: dict[str, Any] = {"name": peer.name, "version": version(peer.distribution)}
    except PackageNotFoundError:
        return {"name": peer.name, "skipped": f"{peer.distribution} is not installed"}
    rows = peer.quick_rows if quick else peer.rows
    module = f"experiments.throughput.peers.{peer.module}"
    command = [sys.executable, "-m", module, settings.address, topic, str(rows)]
    try:
        done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, timeout=TIMEOUT_S, check=False)
    except subprocess.TimeoutExpired:
        return {**measured, "skipped": f"not done with {rows} rows after {TIMEOUT_S:.0f} s"}
    lines = [line for line in done.stdout.splitlines() if line.startswith('{"rows"')]
    if not lines:
        reason = (done.stderr.strip().splitlines() or ["it said nothing"])[-1]
        return {**measured, "skipped": f"ended with status {done.returncode}: {reason[:200]}"}
    told = json.loads(lines[0])
    return {**measured, **told, "rows_per_s": told["rows"] / told["seconds"]}
