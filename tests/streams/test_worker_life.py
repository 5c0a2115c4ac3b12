"""What ends a worker's life, and what it says of it: no broker is needed, its app is one that only waits."""

import asyncio
import contextlib
import os
import signal
import subprocess
import sys
import time
from types import SimpleNamespace

import pytest

from paceline.kafka import embedded
from paceline.kafka.settings import BrokerSettings
from paceline.kafka.topic_admin import TopicDescription, ensure_topics
from paceline.topics import PARTITIONS
from streams import worker as module
from streams.beat import STILL_S, StoodStillError
from streams.faust_app import CHANGELOG
from streams.worker import Worker, WorkerError, WorkerSetup
from tests.streams.real_workers import metric, readiness, ready


class App:
    """An app that starts and then works for ever."""

    should_stop = False
    crash_reason = None

    async def start(self):
        await asyncio.Event().wait()

    async def stop(self):
        self.should_stop = True


@pytest.fixture
def worker(monkeypatch):
    """A worker whose brokers describe what they are told to."""

    def made(describe):
        monkeypatch.setattr(module, "build", lambda *ignored: (App(), SimpleNamespace(beat=lambda: None)))
        inspector = SimpleNamespace(describe=describe, close=lambda: None)
        monkeypatch.setattr(module, "TopicInspector", lambda settings: inspector)
        monkeypatch.setattr(module, "WATCH_S", 0.01)
        return Worker(WorkerSetup(BrokerSettings()), {CHANGELOG.name: TopicDescription("", PARTITIONS)})

    return made


def test_a_watch_that_breaks_ends_it(worker):
    """A worker that no longer looks whether its topics are the same would read on past the end of them."""

    def broken(names):
        raise KeyError("a field that this broker does not send")

    with pytest.raises(WorkerError, match=r"KeyError: .*a field that this broker does not send"):
        asyncio.run(worker(broken).run())


def test_one_that_stood_still_and_is_told_to_stop_ends_in_good_order(worker, caplog):
    """It was stopped when SIGTERM came: what it holds is not stored, and that is no failure."""

    async def checkpoint(everything):
        raise StoodStillError("stood still for 9 s")

    asyncio.run(worker(None)._finish(SimpleNamespace(checkpoint=checkpoint)))
    assert "stood still for 9 s; the events since the last snapshot will be read again" in caplog.text


@pytest.mark.long
def test_whoever_is_slow_to_join_has_not_stood_still(worker):
    """A busy machine may take long to start it: nothing can be stored before."""
    beats = []

    async def joining():
        started = worker(None)
        beating = asyncio.create_task(started._attend(SimpleNamespace(beat=lambda: beats.append(1))))
        await asyncio.sleep(0.0)
        assert not beats
        started.ready = True
        while not beats:
            await asyncio.sleep(0.01)
        beating.cancel()

    asyncio.run(joining())


def test_one_that_is_ready_must_not_stand_still_from_then_on(worker):
    """Not from its next look on: a stop in between would go unnoticed, and old states be stored."""
    seen = []

    async def ready():
        started = worker(None)
        app = SimpleNamespace(start=lambda: asyncio.sleep(0.0), should_stop=True, crash_reason=None)
        app.conf = SimpleNamespace(id="streams")
        await started._start(app, SimpleNamespace(beat=lambda: seen.append(started.ready)))

    asyncio.run(ready())
    assert seen == [False]


#: A worker that never gets ready the first time, as one whose group deals it nothing, and then as it is.
HANGS_ONCE = """
import asyncio, os, sys
import faust
from streams import worker
from streams.__main__ import main
from streams.worker_loop import TAKEN_OVER

if TAKEN_OVER not in os.environ:
    worker.READY_S, worker.ENDED_S = float(os.environ["READY_S"]), 2.0
    async def never(self):
        while True:
            try:
                await asyncio.sleep(3600)
            except asyncio.CancelledError:  # What hangs in a library does not always end when it is told to.
                pass
    faust.App.start = never
sys.exit(main(sys.argv[1:]))
"""


@pytest.mark.e2e
@pytest.mark.parametrize("stops", [False, True], ids=["goes on", "is told to stop"])
def test_a_worker_that_does_not_get_ready_says_where_it_stands_and_starts_again(
    embedded_broker, free_port, stops, until, tmp_path
):
    """In the same process for whoever started it; one that is told to stop ends instead, though it hangs."""
    port = free_port()
    command = [sys.executable, "-c", HANGS_ONCE, "--brokers", embedded_broker.address, "--web-port", str(port)]
    environ = {**os.environ, "TMPDIR": str(tmp_path), "PACELINE_PATIENCE": "1", "READY_S": "3600" if stops else "2"}
    with subprocess.Popen(command, stderr=subprocess.PIPE, text=True, env=environ) as process:
        if stops:
            until(lambda: "joining the group" in readiness(port))
            process.send_signal(signal.SIGTERM)
        else:
            first = next(line for line in process.stderr if "starting again" in line)
            assert "not ready after 2 s (no consumer yet" in first
            until(lambda: ready(port))
            assert metric(port, "paceline_streams_restarts") == 1.0
            process.send_signal(signal.SIGTERM)
        last = process.stderr.read()
        assert ("ended immediately, still ending after 2 s" in last) == stops
        assert process.wait() == int(stops)
    assert list(tmp_path.iterdir()) == []


@pytest.mark.e2e
def test_a_worker_that_stood_still_starts_again_from_what_is_stored(embedded_broker, free_port, until, tmp_path):
    """Its group may have given its partitions away, and what it holds is older than what another has stored since."""
    port = free_port()
    command = [sys.executable, "-m", "streams", "--brokers", embedded_broker.address, "--web-port", str(port)]
    with subprocess.Popen(
        command, stderr=subprocess.PIPE, text=True, env={**os.environ, "TMPDIR": str(tmp_path)}
    ) as process:
        until(lambda: ready(port))
        process.send_signal(signal.SIGSTOP)
        time.sleep(STILL_S + 1.0)
        process.send_signal(signal.SIGCONT)
        assert next(line for line in process.stderr if "stood still for " in line)
        until(lambda: ready(port))
        assert metric(port, "paceline_streams_restarts") == 1.0
        assert list(tmp_path.iterdir()) == []  # A kill would leave behind what is there now.
        process.send_signal(signal.SIGTERM)
        process.stderr.read()
        assert process.wait() == 0


@pytest.mark.e2e
def test_a_worker_whose_broker_is_another_cluster_now_is_not_silent(free_port, until, tmp_path):
    """It works on that, or it ends and names the topic that this broker made otherwise than it must be: the embedded
    one makes what a client asks for, and the worker's client may ask for the worker's own before the worker does."""
    port, web = free_port(), free_port()
    log, environ = tmp_path / "log", {**os.environ, "TMPDIR": str(tmp_path), "PACELINE_PATIENCE": "1"}
    with contextlib.ExitStack() as stack:
        first = stack.enter_context(embedded.start(port))
        command = [sys.executable, "-m", "streams", "--brokers", first.address, "--web-port", str(web)]
        output = stack.enter_context(log.open("wb"))
        process = stack.enter_context(subprocess.Popen(command, stdout=output, stderr=output, env=environ))
        stack.callback(process.kill)
        until(lambda: ready(web))
        first.process.kill()
        first.process.wait()
        second = stack.enter_context(embedded.start(port))
        ensure_topics(BrokerSettings().with_brokers(second.address))
        until(lambda: process.poll() is not None or (ready(web) and metric(web, "paceline_streams_restarts") >= 1.0))
        assert "starting again from what is stored" in log.read_text()
        assert process.poll() is None or (process.poll() == 1 and "partitions, and must have" in log.read_text())
