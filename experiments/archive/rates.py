"""How fast messages become rows that are there for good: by the processor's time, and end to end from a broker.

Rule of this file: messages are those that sidecars send; a timing is what a rank measures in a step, a phase or a
collective.
"""

import os
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

import psutil

from archive.buffers import MOST_BYTES, Buffers
from archive.messages import rows_of
from archive.writer import Position, Writer
from paceline import topics, wire
from paceline.history.manifest import Manifest
from paceline.history.store import StoreError, open_store
from paceline.kafka import embedded
from paceline.kafka.settings import BrokerSettings
from paceline.kafka.topic_admin import ensure_topics

from ..processes import ROOT, RunError
from ..throughput.jobs import TIMINGS_A_RANK_STEP, Load
from ..throughput.load import encoded, preload

NOTHING = Position({}, {})
#: How long the archive may take for what lies on the broker.
TIMEOUT_S = 600.0


def loads(quick: bool) -> list[Load]:
    """Small jobs whose messages hold many steps, and a large one with a message a node and second."""
    seconds = 20 if quick else 120
    return [Load("12 jobs of 64 ranks", 12, 64, 0.1, seconds), Load("1,000 ranks", 1, 1000, 0.1, seconds)]


def in_process(load: Load) -> dict[str, Any]:
    """Decode, buffer and commit what ``load`` sends; timings a second of this process' processor time."""
    messages = [message.data for message in encoded(load, 1.7e9)]
    with tempfile.TemporaryDirectory(prefix="paceline-archive-") as folder:
        writer = Writer(open_store(folder, {}))
        began_s, steps = time.process_time(), {"read": 0.0, "committed": 0.0}
        buffers = Buffers()
        for offset, data in enumerate(messages):
            buffers.bytes += len(data)
            for rows in list(rows_of(wire.decode(topics.OP, data), 1.7e9)):
                buffers.add(rows, 0, offset, 1.7e9)
            if buffers.bytes >= MOST_BYTES:
                steps["read"] += _since(began_s, steps)
                writer.commit(buffers, NOTHING)
                steps["committed"] += _since(began_s, steps)
                buffers = Buffers()
        steps["read"] += _since(began_s, steps)
        writer.commit(buffers, NOTHING)
        steps["committed"] += _since(began_s, steps)
        return _told(load, writer.manifest, steps["read"] + steps["committed"]) | {
            "messages": len(messages),
            "bytes_in": sum(map(len, messages)),
            "read_ratio": steps["read"] / (steps["read"] + steps["committed"]),
        }


def _since(began_s: float, steps: dict[str, float]) -> float:
    return time.process_time() - began_s - sum(steps.values())


def _told(load: Load, manifest: Manifest, processor_s: float) -> dict[str, Any]:
    rows = sum(file.rows for file in manifest.files if file.table == topics.OP.short)
    return {
        "load": load.name,
        "rows": sum(file.rows for file in manifest.files),
        "timings": rows * TIMINGS_A_RANK_STEP,
        "processor_s": processor_s,
        "timings_a_processor_s": rows * TIMINGS_A_RANK_STEP / processor_s,
        "bytes": sum(file.bytes for file in manifest.files),
    }


def end_to_end(load: Load) -> dict[str, Any]:
    """``paceline archive`` as a process, from what lies on the embedded broker to the last commit."""
    with tempfile.TemporaryDirectory(prefix="paceline-archive-") as folder, embedded.start() as broker:
        settings = BrokerSettings().with_brokers(broker.address)
        ensure_topics(settings)
        sent = preload(settings, load, lambda number: None)
        where = f"{folder}/archive"
        command = [sys.executable, "-m", "archive", "--to", where, "--topic", "op", "--commit-seconds", "2"]
        environ = {**os.environ, "PACELINE_BROKERS": broker.address}
        began_s = time.monotonic()
        with subprocess.Popen(command, cwd=ROOT, env=environ, stderr=subprocess.DEVNULL) as running:
            try:
                process = psutil.Process(running.pid)
                manifest, highest = _archived(running, process, where, sent.rank_steps)
                took_s, used = time.monotonic() - began_s, process.cpu_times()
            finally:
                running.terminate()
                running.wait(60)
        told = _told(load, manifest, used.user + used.system)
        return told | {"took_s": took_s, "timings_a_s": told["timings"] / took_s, "memory_bytes": highest}


def _archived(
    running: "subprocess.Popen[bytes]", process: psutil.Process, where: str, wanted: int
) -> tuple[Manifest, int]:
    """The manifest that holds ``wanted`` rows of steps, and the most memory that the process had."""
    highest, end_s, path = 0, time.monotonic() + TIMEOUT_S, Path(where)
    while time.monotonic() < end_s and running.poll() is None:
        highest = max(highest, process.memory_info().rss)
        manifest = _newest(path)
        if manifest is not None:
            rows = sum(file.rows for file in manifest.files if file.table == topics.OP.short)
            if rows >= wanted:
                if rows > wanted:
                    raise RunError(f"{rows:,} rows of {wanted:,} that were sent: some are there twice")
                return manifest, highest
        time.sleep(0.1)
    raise RunError(f"{wanted:,} rows were not archived within {TIMEOUT_S:.0f} s")


def _newest(path: Path) -> Manifest | None:
    try:
        return open_store(str(path), {}).newest()
    except StoreError:
        return None
