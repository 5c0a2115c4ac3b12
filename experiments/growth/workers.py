"""Real workers on one Apache Kafka node: what a restart takes, and what more of them bring.

Rule of this file: every run has a node of its own. Messages are made before they are needed, and not compressed: only
what workers do is measured. Processor time is that of the workers' processes.
"""

import contextlib
import tempfile
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

from paceline import topics
from paceline.kafka import clients
from paceline.kafka.settings import BrokerSettings
from paceline.kafka.topic_admin import ensure_topics
from streams.faust_app import CHANGELOG, NEEDED

from ..processes import RunError, Worker, apache_kafka, worker
from ..throughput.jobs import Load
from ..throughput.load import FLUSH_S, Encoded, encoded

LOOK_S = 0.05
TIMEOUT_S = 300.0
#: What is left for the time after a restart, in the load's own seconds.
AFTER_S = 2


def recovery(load: Load, killed: bool = False) -> dict[str, Any]:
    """A worker that has judged ``load`` but for its end stops, or is ``killed``, and another one takes over."""
    messages = list(encoded(load, time.time() - load.seconds))
    before = [message for message in messages if message.due_s < load.seconds - AFTER_S]
    after = messages[len(before) :]
    with apache_kafka() as settings, tempfile.TemporaryDirectory(prefix="paceline-growth-") as folder:
        ensure_topics(settings, NEEDED)
        send(settings, before)
        log = Path(folder) / "streams.log"
        with worker(settings, ready=False, log=log) as first:
            wait_until(lambda: judged([first]) >= len(before), [first])
            busy = {"checkpoints": first.count("checkpoints_total"), "stored": first.count("checkpoint_bytes_total")}
            if killed:
                # What it stores, it has stored: only the group does not know that it has gone.
                wait_until(lambda: first.count("uncommitted_events") == 0, [first])
                first.process.kill()
        send(settings, after)
        began_s = time.monotonic()
        with worker(settings, ready=False, log=log) as second:
            answers_s = time.monotonic() - began_s
            wait_until(lambda: second.ask("readyz"), [second])
            ready_s = time.monotonic() - began_s
            wait_until(lambda: judged([second]) > 0, [second])
            first_s = time.monotonic() - began_s
            wait_until(lambda: judged([second]) >= len(after), [second])
            all_s = time.monotonic() - began_s
            found = {
                "jobs": load.jobs,
                "ranks": load.ranks,
                "killed": killed,
                "answers_s": answers_s,
                "ready_s": ready_s,
                "first_s": first_s,
                "all_s": all_s,
                "after_messages": len(after),
                "checkpoints": busy["checkpoints"],
                "stored_bytes": busy["stored"],
                "changelog_bytes": topic_bytes(settings, CHANGELOG.name),
                "memory_peak_bytes": second.memory_peak_bytes(),
                "states": second.count("units"),
                "dead_letters": second.count("dead_letters_total"),
            }
    return found


def scaling(load: Load, workers: int) -> dict[str, Any]:
    """Rank-steps a second, and a processor second, of so many workers that share all partitions of ``load``."""
    messages = list(encoded(load, time.time() - load.seconds))
    with (
        apache_kafka() as settings,
        tempfile.TemporaryDirectory(prefix="paceline-growth-") as folder,
        contextlib.ExitStack() as stack,
    ):
        ensure_topics(settings, NEEDED)
        running = [
            stack.enter_context(worker(settings, ready=False, log=Path(folder) / f"{number}.log"))
            for number in range(workers)
        ]
        # All have joined, and each has its share: one that is not ready yet would leave its own to the others.
        wait_until(lambda: all(each.ask("readyz") for each in running), running)
        used = [each.processor_s() for each in running]
        began_s = time.monotonic()
        send(settings, messages)
        wait_until(lambda: judged(running) >= len(messages), running)
        seconds = time.monotonic() - began_s
        processor_s = sum(each.processor_s() for each in running) - sum(used)
        rank_steps = sum(message.rank_steps for message in messages)
        return {
            "workers": workers,
            "jobs": load.jobs,
            "ranks": load.ranks,
            "rank_steps": rank_steps,
            "seconds": seconds,
            "processor_s": processor_s,
            "rank_steps_per_s": rank_steps / seconds,
            "rank_steps_per_processor_s": rank_steps / processor_s,
            "judged_twice": judged(running) - len(messages),
            "worked": sum(each.count("events_total") > 0 for each in running),
            "memory_peak_bytes": max(each.memory_peak_bytes() for each in running),
            "topic_bytes": {topic.short: topic_bytes(settings, topic.name) for topic in (topics.OP, topics.WINDOW)},
        }


def send(settings: BrokerSettings, messages: Sequence[Encoded]) -> None:
    """Put ``messages`` on the bus, the jobs in turn over all partitions."""
    places: dict[str, int] = {}
    producer: Any = clients.producer(settings, "growth-load", compression_type=None)
    try:
        for message in messages:
            place = places.setdefault(message.job, len(places) % topics.OP.partitions)
            producer.send(topics.OP.name, key=message.job.encode(), value=message.data, partition=place)
        producer.flush(FLUSH_S)
    finally:
        producer.close()


def judged(running: Sequence[Worker]) -> int:
    """Messages that they have taken."""
    return sum(each.count("events_total") for each in running)


def wait_until(condition: Callable[[], object], running: Sequence[Worker]) -> None:
    end = time.monotonic() + TIMEOUT_S
    while not condition():
        for each in running:
            each.check()
        if time.monotonic() > end:
            raise RunError(f"not done after {TIMEOUT_S:.0f} s, {judged(running)} messages judged")
        time.sleep(LOOK_S)


def topic_bytes(settings: BrokerSettings, name: str) -> int:
    """What ``name`` takes of the brokers' disks."""
    with contextlib.closing(clients.admin(settings)) as client:
        told = client.describe_log_dirs()
    return sum(
        partition["partition_size"]
        for broker in told
        for folder in broker["log_dirs"]
        for topic in folder["topics"]
        if topic["name"] == name
        for partition in topic["partitions"]
    )
