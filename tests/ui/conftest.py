import contextlib
import dataclasses
import functools
import os
import socket
import subprocess
import sys

import pytest
from playwright.sync_api import expect
from streamlit.components.v2 import manifest_scanner

from experiments.chromium import CHROMIUM, launched
from experiments.tour.visitor import Watched
from paceline import wire
from paceline.kafka import embedded
from tests.ui import kept
from tests.ui.simulated_job import SimulatedJob
from ui.feed import Feed
from ui.snapshot import Connection, Snapshot

PATIENCE_MS = 120_000


@pytest.fixture(scope="session", autouse=True)
def _distributions_are_looked_through_once():
    """AppTest looks for components in every installed distribution at each run: nine tenths of its time."""
    with pytest.MonkeyPatch.context() as patched:
        patched.setattr(
            manifest_scanner, "scan_component_manifests", functools.cache(manifest_scanner.scan_component_manifests)
        )
        yield


@pytest.fixture(scope="session")
def kept_archive(tmp_path_factory):
    """The folder of an archive of three weeks, up to ``kept.NOW_S``."""
    folder = tmp_path_factory.mktemp("kept") / "archive"
    kept.keep(folder, kept.three_weeks())
    return folder


@pytest.fixture
def simulated_job():
    """A small simulated job: 4 ranks on 2 nodes, rank 2 slow from step 60 on."""
    return SimulatedJob(ranks=4, nodes=2, slow_rank=2, fault_step=60, job="demo")


@pytest.fixture
def tell():
    """Feed events as the reader does: through the wire, written at a given time."""

    def tell(feed, numbered, at_s=1000.0):
        for topic, event in numbered:
            feed.update(topic.short, wire.decode(topic, wire.encode(event)), at_s)

    return tell


@pytest.fixture
def played(simulated_job, tell):
    """A feed that has heard 100 steps of the simulated job and its finding."""
    feed = Feed()
    tell(feed, simulated_job.described(900.0), 900.0)
    for first in range(0, 100, 20):
        tell(feed, simulated_job.timings(900.0 + first, first, 20), 900.0 + first)
    tell(
        feed,
        [
            simulated_job.window(1000.0, 99),
            simulated_job.finding(1, 80, "suspected"),
            simulated_job.finding(2, 99, "confirmed"),
        ],
    )
    tell(feed, simulated_job.machines(1000.0))
    return feed


@pytest.fixture
def snapshot_of():
    """A snapshot of a feed, as the reader makes it."""

    def snapshot_of(feed, now_s=1001.0, state="connected", cause="", rank=None, **changed):
        lines = feed.lines(now_s)
        made = Snapshot(
            now_s=now_s,
            connection=Connection(state, "127.0.0.1:9092", now_s - 5, cause),
            jobs=lines,
            job=feed.view(lines[0].cluster, lines[0].job) if lines else None,
            topics=feed.topics(),
            fleet=feed.machines.view(),
            dead_letters=list(feed.dead_letters),
            missing=feed.missing,
            node_findings=feed.node_findings.episodes(),
            rank=feed.rank(lines[0].cluster, lines[0].job, rank) if lines and rank is not None else None,
            senders=list(feed.senders.values()),
            forecasts=feed.forecasts.all(),
            profiles=feed.profiles.all(),
            suggestions=feed.suggestions.all(),
            answers=feed.answers.all(),
        )
        return dataclasses.replace(made, **changed)

    return snapshot_of


@pytest.fixture(scope="module")
def chromium():
    if not CHROMIUM.exists():
        pytest.skip("needs chromium: apt-get install chromium")
    expect.set_options(timeout=PATIENCE_MS)
    with launched() as browser:
        yield browser


@pytest.fixture
def tab(chromium):
    """A browser tab; errors of the page's own scripts fail the test, and so does a request to any other host."""
    page = chromium.new_page(viewport={"width": 1280, "height": 1000})
    page.set_default_timeout(PATIENCE_MS)
    watched = Watched(page)
    yield page
    page.close()
    assert watched.errors == []
    assert watched.foreign == []


@pytest.fixture
def own_broker(free_port):
    """A broker to stop: on a port that the kernel gives to no client meanwhile."""
    with embedded.start(free_port()) as running:
        yield running


@pytest.fixture
def serve(tmp_path, until, free_port):
    """Starts `paceline ui` for one test: see ``pages``."""
    with pages(tmp_path, until, free_port) as serve:
        yield serve


@pytest.fixture(scope="module")
def module_broker(free_port):
    """A broker that a file's tests share: each has jobs of its own, and nobody stops it."""
    with embedded.start(free_port()) as running:
        yield running


@pytest.fixture(scope="module")
def module_page(module_broker, tmp_path_factory, until, free_port):
    """The address of a page over it that a file's tests share."""
    with pages(tmp_path_factory.mktemp("page"), until, free_port) as serve:
        yield serve(module_broker.address)[1]


@contextlib.contextmanager
def pages(folder, until, free_port):
    """Starts `paceline ui`, on a free port where none is given, with further settings; its process and address.

    All of them end with the block.
    """
    started = []

    def serve(brokers, port=None, **environ):
        port = port or free_port()
        command = [sys.executable, "-m", "paceline", "ui", "--port", str(port), "--brokers", brokers]
        log = (folder / "ui.log").open("wb")
        process = subprocess.Popen(command, stdout=log, stderr=log, env={**os.environ, **environ})
        started.append((process, log))

        def listening():
            assert process.poll() is None, (folder / "ui.log").read_text()
            with contextlib.suppress(OSError), socket.create_connection(("127.0.0.1", port), 1):
                return True
            return False

        until(listening)
        return process, f"http://127.0.0.1:{port}"

    try:
        yield serve
    finally:
        for process, log in started:
            process.kill()
            process.wait()
            log.close()
