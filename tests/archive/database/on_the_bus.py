"""A broker as tests write to it, and mirrors that follow it: in this process, and in one that can be killed."""

import contextlib
import os
import subprocess
import sys
import threading
import time
from collections.abc import Iterator

from archive.database.mirror import DatabaseMirror
from paceline import wire
from paceline.kafka import clients
from paceline.kafka.settings import BrokerSettings
from paceline.kafka.topic_admin import ensure_topics, existing_topics
from paceline.topics import Topic
from tests.archive.database.asked import TOPIC_OF, Event
from tests.patience import PATIENCE_S


def send(settings: BrokerSettings, *events: Event) -> None:
    """Publish these, each on its topic by its key, and wait until they are there."""
    with contextlib.closing(clients.producer(settings, "test")) as client:
        for event in events:
            topic = TOPIC_OF[type(event)]
            client.send(topic.name, wire.encode(event), key=str(wire.key_of(topic, event)).encode())
        client.flush()


def send_raw(settings: BrokerSettings, topic: Topic, value: bytes | None) -> None:
    """Publish these bytes."""
    with contextlib.closing(clients.producer(settings, "test")) as client:
        client.send(topic.name, value, key=b"key").get(PATIENCE_S)


def make_again(settings: BrokerSettings, topic: Topic) -> None:
    """Delete a topic with all that it holds, and make it as it was."""
    with contextlib.closing(clients.admin(settings)) as client:
        client.delete_topics([topic.name])
    end = time.monotonic() + PATIENCE_S
    while topic.name in existing_topics(settings):
        assert time.monotonic() < end, "the topic does not go"
        time.sleep(0.05)
    ensure_topics(settings)


@contextlib.contextmanager
def mirrored(settings: BrokerSettings, url: str) -> Iterator[DatabaseMirror]:
    """A mirror that follows, until the block ends."""
    mirror = DatabaseMirror(settings, url, threading.Event())
    mirror.start()
    try:
        yield mirror
    finally:
        assert mirror.stop()


@contextlib.contextmanager
def process(settings: BrokerSettings, url: str) -> Iterator["subprocess.Popen[bytes]"]:
    """A mirror in a process of its own, killed where the block has not done so."""
    command = [sys.executable, "-m", "tests.archive.database.mirroring", settings.address]
    with subprocess.Popen(command, env={**os.environ, "PACELINE_DATABASE": url}) as started:
        try:
            yield started
        finally:
            started.kill()
