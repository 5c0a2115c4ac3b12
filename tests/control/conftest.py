"""Sessions without control, a publisher that numbers its messages, and control as a process with its commands."""

import itertools
import json
import os
import signal
import subprocess
import sys
import time
import uuid
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any
from urllib.error import HTTPError
from urllib.request import urlopen

import pytest

from control.sessions.folder import SessionFolder
from control.sessions.manifest import Definition
from control.sessions.store import SessionStore
from paceline import wire
from paceline.events import HostSamples, NodeDescribed
from paceline.kafka.clients import producer
from paceline.kafka.settings import BrokerSettings
from paceline.kafka.topic_admin import ensure_topics
from paceline.topics import HOST, NODE, Topic
from tests.patience import PATIENCE_S


@pytest.fixture
def store(tmp_path: Path) -> SessionStore:
    return SessionStore(tmp_path / "sessions")


@pytest.fixture
def define() -> Callable[..., Definition]:
    def make(name: str = "s", **about: Any) -> Definition:
        return Definition(name=name, id=uuid.uuid4().hex, cluster="default", started_s=time.time(), **about)

    return make


@pytest.fixture
def begun(store: SessionStore, define: Callable[..., Definition]) -> Callable[..., SessionFolder]:
    """Makes the folder of a session that nobody records yet."""

    def make(name: str = "s", **about: Any) -> SessionFolder:
        return store.create(define(name, **about), "here")

    return make


def host_samples(node: str, producer_name: str, sequence: int) -> HostSamples:
    """One message of a collector, without a row."""
    columns: dict[str, Any] = {name: [] for name in wire.sample_columns(HostSamples)}
    return HostSamples(
        cluster="default", producer=producer_name, sequence=sequence, node=node, t0_s=time.time(), **columns
    )


def node_described(node: str, producer_name: str, sequence: int) -> NodeDescribed:
    """One message of an inventory."""
    return NodeDescribed(
        cluster="default",
        producer=producer_name,
        sequence=sequence,
        node=node,
        time_s=time.time(),
        cpu_model=None,
        cpu_count=1,
        memory_total_bytes=1,
        kernel="",
    )


class Collector:
    """A node that publishes numbered messages."""

    def __init__(self, settings: BrokerSettings, node: str, topic: Topic = HOST) -> None:
        ensure_topics(settings)
        self._topic, self._make = topic, node_described if topic is NODE else host_samples
        self.node, self.name = node, f"collect-{uuid.uuid4().hex}"
        self._client = producer(settings, "test-collector")
        self._numbers = itertools.count()

    def publish(self, count: int, *, skip: int = 0) -> None:
        """Publish so many messages, all acknowledged; of ``skip`` numbers before them nothing is sent."""
        for _ in range(skip):
            next(self._numbers)
        futures = [
            self._client.send(
                self._topic.name, wire.encode(self._make(self.node, self.name, number)), key=self.node.encode()
            )
            for number in itertools.islice(self._numbers, count)
        ]
        for future in futures:
            future.get(PATIENCE_S)

    def close(self) -> None:
        """Leave the broker."""
        self._client.close()


@pytest.fixture
def collector(broker: BrokerSettings) -> Iterator[Collector]:
    one = Collector(broker, f"n-{uuid.uuid4().hex[:8]}")
    yield one
    one.close()


PACELINE = [sys.executable, "-P", "-m", "paceline"]


class Cluster:
    """One control after the other on a folder, and the commands that ask it."""

    def __init__(self, settings: BrokerSettings, home: Path, port: int) -> None:
        self._settings, self.home = settings, home
        self.environ = {
            **os.environ,
            "XDG_DATA_HOME": str(home),
            "PACELINE_BROKERS": settings.address,
            "PACELINE_CONTROL_URL": f"http://127.0.0.1:{port}",
        }
        self.port = port
        self.control: subprocess.Popen[bytes] | None = None

    def start(self) -> None:
        """Start control."""
        with (self.home / "control.log").open("ab") as log:
            command = [*PACELINE, "control", "--port", str(self.port)]
            self.control = subprocess.Popen(command, env=self.environ, stdout=log, stderr=log)

    def run(self, *arguments: str) -> "subprocess.CompletedProcess[str]":
        """Run a command of ours."""
        return subprocess.run([*PACELINE, *arguments], env=self.environ, capture_output=True, text=True, check=False)

    def session(self, *arguments: str) -> Any:
        """What `paceline session ... --json` answers; None where it is refused."""
        done = self.run("session", *arguments, "--json")
        return json.loads(done.stdout) if done.stdout else None

    def state(self, name: str) -> str | None:
        """What `paceline session status` would tell, without a process for each time that a test asks."""
        told = self.asked(f"/v1/sessions/{name}")
        return None if told is None else str(told["state"])

    def asked(self, path: str) -> Any:
        """What control answers to a GET; None while it does not, or where there is nothing."""
        try:
            with urlopen(f"http://127.0.0.1:{self.port}{path}", timeout=PATIENCE_S) as answer:
                return json.loads(answer.read())
        except HTTPError as refused:
            refused.close()
        except OSError:
            pass
        return None

    def recorders(self) -> list[int]:
        """The processes that record sessions of this folder."""
        found = []
        for process in Path("/proc").glob("[0-9]*"):
            try:
                words = (process / "cmdline").read_bytes().split(b"\0")
            except OSError:
                continue
            if b"control.recorder" in words and any(str(self.home).encode() in word for word in words):
                found.append(int(process.name))
        return found

    def kill(self, *numbers: int) -> None:
        for number in numbers:
            os.kill(number, signal.SIGKILL)

    def close(self) -> None:
        if self.control is not None:
            self.control.kill()
            self.control.wait()
        self.kill(*self.recorders())


@pytest.fixture
def cluster(
    broker: BrokerSettings, tmp_path: Path, free_port: Callable[[], int], until: Callable[..., None]
) -> Iterator[Cluster]:
    one = Cluster(broker, tmp_path, free_port())
    one.start()
    until(lambda: one.asked("/v1/sessions") is not None)
    yield one
    one.close()
