"""What must lose or alter data: the count of it is exact, nobody healthy is accused, and what comes later is as ever.

Rule of this file: one loss after the other, each with its own jobs, on a stack that is well but for it.
"""

import contextlib
import time
from collections.abc import Callable
from pathlib import Path

from paceline import topics
from paceline.kafka import clients
from paceline.kafka.topic_admin import describe_topics, ensure_topics

from .faults import Stack
from .observer import COUNTED, Observer, missing, numbers
from .player import Player
from .verdict import differences
from .workload import fleet, found_undisturbed, messages

#: Messages that are nothing.
NONSENSE = 5_000
#: What the starved publisher may keep: less than its job says while no broker takes it.
SPOOL_BYTES, MEMORY_BYTES = 96 * 1024, 32 * 1024

Require = Callable[[bool, str], None]
Settled = Callable[[Callable[[], bool]], bool]


def run(stack: Stack, observer: Observer, folder: Path, seed: int, require: Require, settled: Settled) -> None:
    """All of them, and then jobs as if nothing had been."""
    nonsense(stack, observer, require, settled)
    shed(stack, observer, folder, seed, require, settled)
    remade(stack, require, settled)
    afterwards(stack, observer, folder, seed, require, settled)


def nonsense(stack: Stack, observer: Observer, require: Require, settled: Settled) -> None:
    """Messages that are nothing: every one of them is a dead letter, once."""
    before = len(observer.dead_letters)
    producer = clients.producer(stack.cluster.settings, "chaos-nonsense")
    for number in range(NONSENSE):
        producer.send(topics.OP.name, key=b"nobody", value=b"\xff nonsense %d" % number)
    producer.flush()
    producer.close()
    settled(lambda: len(observer.dead_letters) - before >= NONSENSE)
    came = len(observer.dead_letters) - before
    require(came == NONSENSE, f"{NONSENSE} messages of nonsense are {came} dead letters")


def shed(stack: Stack, observer: Observer, folder: Path, seed: int, require: Require, settled: Settled) -> None:
    """A publisher without room, while no broker takes anything: it says exactly what it has lost."""
    sent = messages(fleet(1, seed + 1, time.time(), name="starved"))
    for node in stack.cluster.nodes[:2]:
        node.kill()
    player = Player(
        stack.cluster.settings, sent, 0, folder / "small", memory_bytes=MEMORY_BYTES, spool_bytes=SPOOL_BYTES
    )
    settled(lambda: not player.playing and player.stats().shed > 0)
    stack.cluster.heal()
    account = player.finish(120.0)
    lost = sum(account.shed_by_topic.get(topic.name, 0) for topic in COUNTED)
    there = numbers(sent)
    settled(lambda: missing(there, observer.came) == lost)
    gone = missing(there, observer.came)
    require(not account.spooled, f"what the publisher kept is delivered; {account.spooled} messages still wait")
    require(0 < lost == gone, f"the publisher says it lost {lost} messages; {gone} are missing")
    accused = [one for one in observer.findings if one["job"] == "starved-0" and one["kind"] == "straggler"]
    require(not accused, f"nobody healthy is accused in what is left of the job: {len(accused)} findings")


def remade(stack: Stack, require: Require, settled: Settled) -> None:
    """Topics are deleted and made again: offsets of the old ones mean nothing in the new ones."""
    settings, names = stack.cluster.settings, [topics.OP.name, topics.COLLECTIVE.name]
    before = describe_topics(settings, names)
    with contextlib.closing(clients.admin(settings)) as client:
        client.delete_topics(names)

    def again() -> bool:
        ensure_topics(settings, (topics.OP, topics.COLLECTIVE))  # A worker may be first.
        now = describe_topics(settings, names)
        return all(name in now and now[name].id != before[name].id for name in names)

    require(settled(again), f"deleted and made again: {', '.join(names)}")


def afterwards(stack: Stack, observer: Observer, folder: Path, seed: int, require: Require, settled: Settled) -> None:
    """A healthy and a slow job on the same stack, judged as if nothing had been."""
    sent = messages(fleet(2, seed + 2, time.time(), name="after"))
    wanted = found_undisturbed(sent)
    Player(stack.cluster.settings, sent, 0, folder / "after").finish(120.0)

    def off() -> object:
        return differences(wanted, [one for one in observer.findings if one["job"].startswith("after-")])

    settled(lambda: not off())
    require(bool(wanted) and not off(), f"later jobs are judged as ever: {off()}")
