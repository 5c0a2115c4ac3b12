"""``paceline streams`` as people run it, where there is no broker or a setting is wrong."""

import os
import subprocess
import sys

import pytest

from paceline.command_rules import Reader
from paceline.kafka.errors import BusError
from paceline.kafka.settings import BrokerSettings
from paceline.kafka.topic_admin import TopicDescription
from paceline.topics import OP
from streams import faust_app, joining, worker, worker_loop


def streams(*arguments, **environ):
    command = [sys.executable, "-m", "paceline", "streams", *arguments]
    return subprocess.run(command, capture_output=True, env={**os.environ, **environ}, text=True)


@pytest.mark.slow
def test_help_has_examples():
    """The help page shows how it is used."""
    assert "paceline streams --brokers" in streams("--help").stdout


@pytest.mark.slow
def test_no_broker_is_said_and_waited_for():
    """It tells what it waits for, then gives up with one line and status 1."""
    done = streams("--brokers", "127.0.0.1:1", "--wait", "3")  # it is to run out
    assert done.returncode == 1
    assert done.stderr.count("waiting for a broker") == 1, "the same is said again and again"
    assert "127.0.0.1:1" in done.stderr.splitlines()[-1]
    assert "Traceback" not in done.stderr


@pytest.mark.slow
def test_a_wrong_setting_is_named():
    """One line with the variable and what is allowed, status 2."""
    done = streams("--brokers", "127.0.0.1:9", PACELINE_SECURITY_PROTOCOL="TSL")
    assert done.returncode == 2
    assert done.stderr.count("\n") == 1
    assert "PACELINE_SECURITY_PROTOCOL" in done.stderr


@pytest.mark.slow
def test_wrong_brokers_are_named():
    """The option's value is checked before anything is tried."""
    done = streams("--brokers", "nowhere")
    assert done.returncode == 2
    assert "--brokers" in done.stderr


def test_starts_again_are_counted(monkeypatch):
    """The worker that follows one that failed knows how often that was: its metrics tell. Commands go on meanwhile."""
    known = []

    class Failing:
        def __init__(self, *given, **watched):
            known.append(given[3])

        async def run(self):
            if len(known) < 3:
                raise worker.WorkerError("the broker went away")

    doors = []

    class Closable:
        def __init__(self, settings, reader, *, obeys):
            doors.append((reader.service, obeys))

        def close(self):
            doors.append("closed")

    monkeypatch.setattr(worker_loop, "Worker", Failing)
    monkeypatch.setattr(worker_loop, "CommandDoor", Closable)
    there = {topic.name: TopicDescription("", topic.partitions) for topic in faust_app.NEEDED}
    monkeypatch.setattr(worker_loop, "joined", lambda *given: there)
    monkeypatch.setattr(worker_loop, "SOON_S", 0.0)
    setup = worker.WorkerSetup(BrokerSettings())
    loop = worker_loop.WorkerLoop(setup, Reader("streams", "n", "c"), obeys=True, say=lambda line: None)
    assert loop.run(0.0) == 0
    assert known == [0, 1, 2]
    assert doors == [("streams", True), "closed"]


@pytest.mark.bus
def test_a_cluster_that_lets_us_in_and_can_do_no_more_is_waited_for(broker, monkeypatch):
    """Two of three nodes are away: the third answers, but topics can be neither listed nor made."""
    away = [BusError(broker.address, "no controller", "wait"), BusError(broker.address, "no leader", "wait")]
    monkeypatch.setattr(joining, "AGAIN_S", 0.0)
    monkeypatch.setattr(joining, "ensure_topics", lambda *wanted, **how: away and _raise(away.pop(0)))
    lines = []
    assert set(joining.joined(broker, 60.0, [OP], lines.append)) == {OP.name}
    said = "\n".join(lines)
    assert ["no controller" in said, "no leader" in said, away] == [True, True, []]
    away.append(BusError(broker.address, "not allowed", "ask for an ACL", permanent=True))
    with pytest.raises(BusError, match="not allowed"):
        joining.joined(broker, 60.0, [OP], lines.append)


def _raise(error):
    raise error
