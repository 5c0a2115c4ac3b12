"""What is sent: jobs one after the other and beside each other, and what is found in them when nothing happens.

Rule of this file: pure, and the same for the same seed.
"""

import heapq
import json
from collections.abc import Iterable, Iterator
from random import Random
from typing import NamedTuple

from paceline import topics, wire
from paceline.timed_event import TimedEvent
from simulator.fault import Fault
from simulator.job import Job
from simulator.spec import Spec
from streams.processor import Processor
from streams.routes import ROUTES

from .verdict import Found

#: Seconds from one job's start to the next one's; each runs for about ``JOB_S``.
EVERY_S, JOB_S, STEP_S = 30.0, 75.0, 0.5
#: What is wrong with every other job.
FAULTS = ("compute", "input", "gc", "throttle", "cpu", "link")


class Message(NamedTuple):
    """What is put on the bus, and when, in seconds from the first message."""

    at_s: float
    topic: str
    key: str | None
    value: bytes
    timestamp_ms: int


def spec(name: str, began_s: float, seed: int, fault: str | None) -> Spec:
    """A job of two nodes; with ``fault``, of one rank of it."""
    draw = Random(seed)
    rank = draw.randrange(16)
    ranks = tuple(range(8)) if fault == "link" else (rank,)
    faults = () if fault is None else (Fault(kind=fault, ranks=ranks, size=0.6, first=30, last=110),)
    return Spec(job=name, ranks=16, steps=int(JOB_S / STEP_S), step_s=STEP_S, seed=seed, faults=faults, began_s=began_s)


def fleet(jobs: int, seed: int, began_s: float, name: str = "job") -> Iterator[TimedEvent]:
    """The messages of all jobs in the order of time."""
    draw = Random(seed)
    specs = [
        spec(
            f"{name}-{at}",
            began_s + at * EVERY_S,
            draw.randrange(2**31),
            FAULTS[at // 2 % len(FAULTS)] if at % 2 else None,
        )
        for at in range(jobs)
    ]
    return heapq.merge(*(Job(one).messages() for one in specs), key=lambda event: event.time_s)


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
