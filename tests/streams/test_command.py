"""``paceline streams`` as people run it, where there is no broker or a setting is wrong."""

import os
import subprocess
import sys

from paceline.kafka.settings import BrokerSettings
from streams import __main__ as command
from streams import worker


def streams(*arguments, **environ):
    command = [sys.executable, "-m", "paceline", "streams", *arguments]
    return subprocess.run(command, capture_output=True, env={**os.environ, **environ}, text=True)


def test_help_has_examples():
    """The help page shows how it is used."""
    assert "paceline streams --brokers" in streams("--help").stdout


def test_no_broker_is_said_and_waited_for():
    """It tells what it waits for, then gives up with one line and status 1."""
    done = streams("--brokers", "127.0.0.1:1", "--wait", "2")
    assert done.returncode == 1
    assert "waiting for a broker" in done.stderr
    assert "127.0.0.1:1" in done.stderr.splitlines()[-1]
    assert "Traceback" not in done.stderr


def test_a_wrong_setting_is_named():
    """One line with the variable and what is allowed, status 2."""
    done = streams("--brokers", "127.0.0.1:9", PACELINE_SECURITY_PROTOCOL="TSL")
    assert done.returncode == 2
    assert done.stderr.count("\n") == 1
    assert "PACELINE_SECURITY_PROTOCOL" in done.stderr


def test_wrong_brokers_are_named():
    """The option's value is checked before anything is tried."""
    done = streams("--brokers", "nowhere")
    assert done.returncode == 2
    assert "--brokers" in done.stderr


def test_starts_again_are_counted(monkeypatch, tmp_path):
    """The worker that follows one that failed knows how often that was: its metrics tell."""
    known = []

    class Failing:
        def __init__(self, *given):
            known.append(given[-1])

        async def run(self):
            if len(known) < 3:
                raise worker.WorkerError("the broker went away")

    monkeypatch.setattr(worker, "Worker", Failing)
    monkeypatch.setattr(command, "wait_for_broker", lambda *given: None)
    monkeypatch.setattr(command, "ensure_topics", lambda *given: None)
    monkeypatch.setattr(command, "SOON_S", 0.0)
    assert command._work(BrokerSettings(), tmp_path, ("127.0.0.1", 0), 0.0, 1) == 0
    assert known == [0, 1, 2]
