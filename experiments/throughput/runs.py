"""One run of the worker: a fresh Kafka node, a load, and what came of it.

Rule of this file: two ways to load it. **Pre-loaded**: everything lies on the topic before the worker starts, so that
nobody but worker and broker needs a processor; the rate is taken from the worker's own counter, from the first rows in
to the last. **Paced**: the worker has joined and is idle, then every message comes at its moment, as from a cluster.
"""

import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

from paceline.kafka.topic_admin import ensure_topics

from ..processes import RunError, Worker, apache_kafka, worker
from . import delays
from .jobs import RANKS_A_NODE, Load
from .load import Sent, paced, preload

LOOK_S = 0.1
TIMEOUT_S = 600.0


def say(line: str) -> None:
    """Progress goes to standard error."""
    print(f"bench-streams: {line}", file=sys.stderr, flush=True)


def throughput(load: Load) -> dict[str, Any]:
    """Rows a second of one worker on a pre-loaded topic."""
    with apache_kafka() as settings, tempfile.TemporaryDirectory(prefix="paceline-bench-") as folder:
        ensure_topics(settings)
        sent = preload(settings, load, lambda rows: say(f"{load.name}: {rows:,} rows loaded"))
        say(f"{load.name}: all {sent.rows:,} rows in {sent.messages:,} messages loaded; starting the worker")
        with worker(settings, ready=False, log=Path(folder) / "streams.log") as running:
            measured = _rate(running, sent, load.name)
        answers = delays.read(settings)
    measured |= _described(load, sent) | delays.verdict(load, answers)
    named = f"{measured['named']} of {measured['late']} late ranks named"
    say(f"{load.name}: {measured['rows_per_s']:,.0f} rows/s, {named}")
    return measured


def _rate(running: Worker, sent: Sent, name: str) -> dict[str, Any]:
    first = (time.monotonic(), 0, 0.0)
    told = time.monotonic()
    while True:
        running.check()
        count, now = running.count("events_total"), time.monotonic()
        if count and not first[1]:
            first = (now, count, running.processor_s())
        if count >= sent.messages:
            break
        if now > told + 5.0:
            told = now
            say(f"{name}: {count:,} of {sent.messages:,} messages judged")
        if first[1] and now > first[0] + TIMEOUT_S:
            raise RunError(f"{count} of {sent.messages} messages judged after {TIMEOUT_S:.0f} s")
        time.sleep(LOOK_S)
    share = (count - first[1]) / sent.messages
    seconds, processor_s = now - first[0], running.processor_s() - first[2]
    rows = round(sent.rows * share)
    return {
        "seconds": seconds,
        "processor_s": processor_s,
        "rows_per_s": rows / seconds,
        "rows_per_processor_s": rows / processor_s,
        "bytes_a_row": running.count("event_bytes_total") / sent.rows,
        "dead_letters": running.count("dead_letters_total"),
    }


def delay(load: Load) -> dict[str, Any]:
    """Delays of findings and windows while the load comes at its own pace."""
    with apache_kafka() as settings, tempfile.TemporaryDirectory(prefix="paceline-bench-") as folder:
        ensure_topics(settings)
        with worker(settings, ready=True, log=Path(folder) / "streams.log") as running:
            began, used = time.monotonic(), running.processor_s()
            sent = paced(settings, load, lambda rows: say(f"{load.name}: {rows:,} rows sent"))
            measured: dict[str, Any] = {
                "seconds": time.monotonic() - began,
                "processor_share": (running.processor_s() - used) / (time.monotonic() - began),
                "worst_send_s": sent.late_s,
                "worst_acknowledgement_s": sent.acknowledged_s,
                "backlog_messages": sent.messages - running.count("events_total"),
            }
            _drain(lambda: running.count("events_total") >= sent.messages, running)
        answers = delays.read(settings)
    measured |= _described(load, sent) | delays.verdict(load, answers)
    measured |= {"rows_per_s": sent.rows / load.seconds, "windows": delays.to_windows(answers)}
    measured |= {"findings": delays.to_findings(load, sent, answers)}
    say(f"{load.name}: findings {measured['findings']['from_step_end']}, windows {measured['windows']}")
    return measured


def _drain(done: Callable[[], bool], running: Worker) -> None:
    end = time.monotonic() + TIMEOUT_S
    while not done():
        running.check()
        if time.monotonic() > end:
            raise RunError(f"the worker did not catch up within {TIMEOUT_S:.0f} s")
        time.sleep(LOOK_S)


def _described(load: Load, sent: Sent) -> dict[str, Any]:
    return {
        "name": load.name,
        "kind": "collectives" if load.collectives else "phases",
        "jobs": load.jobs,
        "ranks": load.ranks,
        "nodes": load.jobs * load.ranks // RANKS_A_NODE,
        "rows": sent.rows,
        "messages": sent.messages,
        "rows_a_message": load.rows_a_message,
    }
