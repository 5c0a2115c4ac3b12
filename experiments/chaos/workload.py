"""What is sent: jobs one after the other and beside each other, and what is found in them when nothing happens.

Rule of this file: pure, and the same for the same seed.
"""

import json
from collections.abc import Iterable, Iterator
from random import Random
from typing import Any, NamedTuple

from paceline import topics, wire
from paceline.timed_event import TimedEvent
from simulator.fleet import Fleet
from simulator.fleet_file import read
from streams.processor import Processor
from streams.routes import ROUTES

from .verdict import Found

#: Seconds from one job's start to the next one's, how long each runs, and how many pairs of nodes take turns.
EVERY_S, JOB_S, PAIRS = 30, 80, 3
#: What is wrong with every other job, with one rank of it; a link with all ranks of a node.
FAULTS = ("compute", "input", "gc", "throttle", "cpu", "link")


class Message(NamedTuple):
    """What is put on the bus, and when, in seconds from the first message."""

    at_s: float
    topic: str
    key: str | None
    value: bytes
    timestamp_ms: int


def fleet(jobs: int, seed: int, began_s: float, name: str = "job") -> Iterator[TimedEvent]:
    """All messages in the order of time: every ``EVERY_S`` a job of two nodes begins, healthy and slow in turn."""
    draw = Random(seed)
    description = {
        "seed": seed,
        "duration": f"{EVERY_S * (jobs - 1) + JOB_S + 5}s",
        "nodes": [{"name": f"{name}-node", "count": 2 * PAIRS}],
        "jobs": [_job(f"{name}-{at}", at, draw) for at in range(jobs)],
        "sampling": {"every": "1s", "message": "5s"},
    }
    return Fleet(read(json.dumps(description), start_s=began_s)).messages()


def _job(name: str, at: int, draw: Random) -> dict[str, Any]:
    pair = [f"{name.rpartition('-')[0]}-node-{2 * (at % PAIRS) + node:04d}" for node in range(2)]
    kind = FAULTS[at // 2 % len(FAULTS)]
    ranks = list(range(8)) if kind == "link" else [draw.randrange(16)]
    fault = {"kind": kind, "ranks": ranks, "size": 0.6, "from": "15s", "to": "55s"}
    when = {"start": f"{EVERY_S * at}s", "end": f"{EVERY_S * at + JOB_S}s"}
    return {"name": name, "nodes": pair, **when, "faults": [fault] if at % 2 else []}


def messages(events: Iterable[TimedEvent]) -> list[Message]:
    """As they are put on the bus."""
    out: list[Message] = []
    began_s: float | None = None
    for event in events:
        began_s = event.time_s if began_s is None else began_s
        key, value = wire.key_of(event.topic, event.event), wire.encode(event.event)
        out.append(Message(event.time_s - began_s, event.topic.name, key, value, event.timestamp_ms))
    return out


def found_undisturbed(sent: Iterable[Message]) -> list[Found]:
    """Every finding and revision that the same code gives in one process, message by message."""
    processor, out = Processor(), []
    for message in sent:
        topic = topics.resolve(message.topic)
        if topic.name in ROUTES:
            answers = processor.update(topic, wire.decode(topic, message.value))
            out += [json.loads(wire.encode(event)) for target, event in answers if target == topics.FINDING]
    return out
