"""Kafka gone, the sidecar killed in the middle of it, a rank that goes on at 1,000 rows a second: what a consumer sees.

The outage lasts until both sidecars have spooled; ``OUTAGE_S=60`` makes each of its halves last half a minute.
"""

import contextlib
import os
import signal
import subprocess
import sys
import time
from collections import Counter, defaultdict
from collections.abc import Callable
from pathlib import Path

import pytest

from paceline import columns, topics, wire
from paceline.delivery.segment import scan
from paceline.events import StepTimings
from paceline.kafka import clients
from paceline.kafka.settings import BrokerSettings
from paceline.kafka.topic_admin import ensure_topics
from tests.heard import heard

pytestmark = pytest.mark.e2e
RANK = Path(__file__).parents[1] / "paceline" / "training" / "shipping_rank.py"
#: In the rank's words four rows a step, of which the sums of a node's collectives and one of its steps are left.
ROWS_PER_S = 1000
STEPS_PER_S = ROWS_PER_S // 4
OUTAGE_S = float(os.environ.get("OUTAGE_S", "0"))
Until = Callable[..., object]


def sidecar_of(pid: int) -> int:
    """The sidecar that ``paceline run`` has as a child; 0 for none."""
    for entry in Path("/proc").iterdir():
        if entry.name.isdigit():
            with contextlib.suppress(OSError, IndexError, ValueError):
                parent = int((entry / "stat").read_text().rpartition(")")[2].split()[1])
                if parent == pid and "paceline.sidecar" in (entry / "cmdline").read_text():
                    return int(entry.name)
    return 0


def spooled_rows(folder: Path) -> int:
    """Rows of steps that wait under ``folder``."""
    rows = 0
    for path in folder.glob("*/*.spool"):
        with contextlib.suppress(FileNotFoundError):  # Delivered meanwhile.
            for record in scan(path.read_bytes()).records:
                if record.message.topic == topics.OP.name:
                    rows += columns.rows(wire.decode(topics.OP, record.message.value).step)
    return rows


def consumed(settings: BrokerSettings, job: str, last_step: int) -> list[StepTimings]:
    """What the bus holds of ``job``, in order, up to and with ``last_step``; a partition at least once."""
    got = []
    with contextlib.closing(clients.consumer(settings, topics.OP, from_beginning=True)) as consumer:
        for event in heard(topics.OP, consumer):
            got += [event] if event.job == job else []
            if event.job == job and last_step in columns.numbers(event.step):
                return got
    return got


def numbers(events: list[StepTimings]) -> dict[str, list[int]]:
    """The numbers of each producer in the order of arrival, repetitions left out as every consumer does."""
    seen: dict[str, list[int]] = defaultdict(list)
    for event in events:
        if event.sequence not in seen[event.producer]:
            seen[event.producer].append(event.sequence)
    return seen


@pytest.mark.exactly_once
@pytest.mark.xdist_group("pytorch")
def test_nothing_is_lost(new_apache_kafka: Callable[..., object], tmp_path: Path, until: Until) -> None:
    """Every row once, every number there and in order, none told as lost."""
    kafka, spool, stop = new_apache_kafka().start(), tmp_path / "spool", tmp_path / "stop"  # type: ignore[attr-defined]
    ensure_topics(kafka.settings)
    command = [sys.executable, "-m", "paceline", "run", "--no-panel", "--job", "outage", "--brokers", kafka.address]
    process = subprocess.Popen(
        [*command, "--", sys.executable, str(RANK), str(stop), str(ROWS_PER_S)],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        env={**os.environ, "PACELINE_SPOOL_DIR": str(spool), "TMPDIR": str(tmp_path)},
    )
    try:
        consumed(kafka.settings, "outage", STEPS_PER_S)
        kafka.kill()
        gone_s = time.monotonic()
        until(lambda: spooled_rows(spool) > STEPS_PER_S and time.monotonic() - gone_s >= OUTAGE_S / 2)
        first = sidecar_of(process.pid)
        os.kill(first, signal.SIGKILL)
        held = spooled_rows(spool)
        until(lambda: sidecar_of(process.pid) not in (0, first))
        until(lambda: spooled_rows(spool) > held + STEPS_PER_S and time.monotonic() - gone_s >= OUTAGE_S)
        kafka.start()
        until(lambda: not list(spool.glob("*/*.spool")))
    finally:
        stop.touch()
        out, err = process.communicate()
    steps, unkept = (int(word) for word in out.split())
    events = consumed(kafka.settings, "outage", steps - 1)
    assert all(told == list(range(len(told))) for told in numbers(events).values())
    assert len(numbers(events)) == 2
    once = {(event.producer, event.sequence): event for event in events}.values()
    rows = Counter(step for event in once for step in columns.numbers(event.step))
    calls: Counter[int] = Counter()
    for sums in (event.collectives for event in once if event.collectives is not None):
        for step, count in zip(*map(columns.numbers, (sums.step, sums.count)), strict=True):
            calls[step] += count
    lost = sum(event.lost for event in once)
    assert (rows, calls) == (Counter(range(steps)), Counter(range(steps)))
    assert (lost, unkept, process.returncode) == (0, 0, 0)
    said = err.splitlines()
    assert sum("is started again" in line for line in said) == 1
    assert sum(f"Events wait in {spool}" in line for line in said) == len(said) - 1 <= 2
