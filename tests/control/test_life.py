"""Sessions by the commands of docs/sessions.md: recorder and control are killed, and nothing is lost."""

import json
import os
import signal
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from paceline.kafka.settings import BrokerSettings
from tests.control.conftest import Collector

pytestmark = [pytest.mark.e2e, pytest.mark.bus]
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
        self._port = port
        self.control: subprocess.Popen[bytes] | None = None

    def start(self) -> None:
        """Start control."""
        with (self.home / "control.log").open("ab") as log:
            command = [*PACELINE, "control", "--port", str(self._port)]
            self.control = subprocess.Popen(command, env=self.environ, stdout=log, stderr=log)

    def run(self, *arguments: str) -> "subprocess.CompletedProcess[str]":
        """Run a command of ours."""
        return subprocess.run([*PACELINE, *arguments], env=self.environ, capture_output=True, text=True, check=False)

    def session(self, *arguments: str) -> Any:
        """What `paceline session ... --json` answers; None where it is refused."""
        done = self.run("session", *arguments, "--json")
        return json.loads(done.stdout) if done.stdout else None

    def state(self, name: str) -> str | None:
        told = self.session("status", name)
        return None if told is None else str(told["state"])

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
    until(lambda: one.session("list") is not None)
    yield one
    one.close()


def numbers(path: Path, collector: Collector) -> list[int]:
    """The numbers of a collector's messages in a recording."""
    values = [json.loads(row)["value"] for row in path.read_text().splitlines()]
    return [value["sequence"] for value in values if value.get("producer") == collector.name]


def test_nothing_is_lost_when_recorder_and_control_are_killed(
    cluster: Cluster, collector: Collector, until: Callable[..., None], tmp_path: Path
) -> None:
    """The session is told as interrupted, recovered by its name, and holds every message once."""
    assert cluster.run("session", "start", "mine", "--nodes", collector.node).returncode == 0
    until(lambda: cluster.state("mine") == "recording")
    collector.publish(200)
    assert cluster.control is not None
    cluster.kill(cluster.control.pid)
    cluster.control.wait()
    collector.publish(200)
    cluster.start()
    until(lambda: cluster.state("mine") == "recording")
    cluster.kill(*cluster.recorders())
    until(lambda: cluster.state("mine") == "interrupted")
    collector.publish(200)
    refused = cluster.run("session", "stop", "mine")
    assert refused.returncode == 1
    assert "recover it" in refused.stderr
    assert [one["name"] for one in cluster.session("recover")] == ["mine"]
    recovered = cluster.session("recover", "mine")
    assert (recovered["state"], recovered["missing"], recovered["proof"]["complete"]) == ("stopped", 0, True)
    out = tmp_path / "mine.jsonl"
    assert cluster.run("session", "export", "mine", "-o", str(out)).returncode == 0
    assert numbers(out, collector) == list(range(600))
    assert cluster.run("session", "delete", "mine").returncode == 0
    until(lambda: cluster.session("list") == [])


def test_a_control_that_is_told_to_end_goes_on_with_its_sessions_when_it_starts_again(
    cluster: Cluster, collector: Collector, until: Callable[..., None], tmp_path: Path
) -> None:
    cluster.session("start", "mine", "--nodes", collector.node)
    until(lambda: cluster.state("mine") == "recording")
    collector.publish(100)
    assert cluster.control is not None
    cluster.control.terminate()
    assert cluster.control.wait() == 0
    until(lambda: not cluster.recorders())
    collector.publish(100)
    cluster.start()
    until(lambda: cluster.state("mine") == "recording")
    collector.publish(100)
    assert cluster.session("stop", "mine")["state"] == "stopped"
    out = tmp_path / "mine.jsonl"
    cluster.run("session", "export", "mine", "-o", str(out))
    assert numbers(out, collector) == list(range(300))


def test_without_control_and_with_a_wrong_token_it_is_one_line(cluster: Cluster, free_port: Callable[[], int]) -> None:
    """Cause and mend, and status 1."""
    away = cluster.run("session", "--control", f"http://127.0.0.1:{free_port()}", "list")
    cluster.environ["PACELINE_CONTROL_TOKEN"] = "wrong"
    wrong = cluster.run("session", "start", "mine")
    for done, words in ((away, "paceline control"), (wrong, "PACELINE_CONTROL_TOKEN")):
        assert done.returncode == 1
        (said,) = done.stderr.splitlines()
        assert words in said
