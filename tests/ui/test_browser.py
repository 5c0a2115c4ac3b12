"""The page in a real Chromium, over a real broker and a real `paceline ui` process."""

import contextlib
import os
import signal
import socket
import subprocess
import sys
import time
from pathlib import Path

import pytest

from paceline import wire
from paceline.kafka import embedded
from paceline.kafka.clients import BrokerSettings, ensure_topics, producer

CHROMIUM = Path("/usr/bin/chromium")
FLAGS = ["--no-sandbox", "--disable-gpu", "--disable-quic", "--no-first-run", "--disable-background-networking"]
FLAGS += ["--disable-component-update", "--disable-sync"]
PATIENCE_MS = 90_000

pytestmark = [pytest.mark.browser, pytest.mark.bus]


@pytest.fixture(scope="module")
def chromium():
    if not CHROMIUM.exists():
        pytest.skip("needs chromium: apt-get install chromium")
    from playwright.sync_api import sync_playwright

    with sync_playwright() as play, play.chromium.launch(executable_path=str(CHROMIUM), args=FLAGS) as browser:
        yield browser


@pytest.fixture
def tab(chromium):
    """A browser tab; errors of the page's own scripts fail the test."""
    page = chromium.new_page(viewport={"width": 1280, "height": 1000})
    page.set_default_timeout(PATIENCE_MS)
    errors = []
    page.on("pageerror", lambda error: errors.append(str(error)))
    yield page
    page.close()
    assert errors == []


@pytest.fixture
def own_broker():
    with embedded.start() as running:
        yield running


@pytest.fixture
def serve(tmp_path, until):
    """Starts `paceline ui` on a free port and gives its process and address."""
    started = []

    def serve(brokers):
        with socket.create_server(("127.0.0.1", 0)) as probe:
            port = probe.getsockname()[1]
        command = [sys.executable, "-m", "paceline", "ui", "--port", str(port), "--brokers", brokers]
        log = (tmp_path / "ui.log").open("wb")
        process = subprocess.Popen(command, stdout=log, stderr=log, env={**os.environ, "HOME": str(tmp_path)})
        started.append((process, log))

        def listening():
            assert process.poll() is None, (tmp_path / "ui.log").read_text()
            with contextlib.suppress(OSError), socket.create_connection(("127.0.0.1", port), 1):
                return True
            return False

        until(listening, 90)
        return process, f"http://127.0.0.1:{port}"

    yield serve
    for process, log in started:
        process.kill()
        process.wait()
        log.close()


def publish(address, numbered):
    settings = BrokerSettings(brokers=(address,))
    ensure_topics(settings)
    client = producer(settings, "test")
    for topic, event in numbered:
        key = wire.key_of(topic, event)
        client.send(topic.name, wire.encode(event), key=key.encode() if key else None)
    client.flush(20)
    client.close()


def test_a_finding_appears_live_and_a_lost_broker_is_told(tab, own_broker, serve, rehearsal):
    """From nothing to a job to a finding to no broker, in one tab that is never reloaded."""
    _, url = serve(own_broker.address)
    tab.goto(url)
    tab.get_by_text("paceline demo", exact=True).wait_for()
    tab.evaluate("window.neverReloaded = true")

    now_s = time.time()
    publish(own_broker.address, [*rehearsal.described(now_s), *rehearsal.timings(now_s, 0, 50)])
    publish(own_broker.address, rehearsal.timings(now_s, 50, 50))
    tab.get_by_role("heading", name="demo", exact=True).wait_for()
    tab.get_by_text("Nobody is accused").wait_for()
    tab.locator(".heatmaplayer image").first.wait_for()

    publish(own_broker.address, [rehearsal.window(time.time(), 99), rehearsal.finding(1, 99, "confirmed")])
    tab.get_by_text("Straggler: rank 2, slow computation on the worker").wait_for()
    tab.get_by_text("confirmed: slow computation on the worker").wait_for()
    tab.get_by_text("46.3 ms a step").wait_for()

    own_broker.stop()
    tab.get_by_text("No connection to the broker at").wait_for()
    tab.get_by_text("connection refused").wait_for()
    tab.get_by_text("Straggler: rank 2").first.wait_for()
    assert tab.evaluate("window.neverReloaded") is True


def test_nothing_is_wider_than_the_window(tab, own_broker, serve, rehearsal):
    """The page never scrolls sideways."""
    publish(own_broker.address, [*rehearsal.described(time.time()), *rehearsal.timings(time.time(), 0, 50)])
    publish(
        own_broker.address, [rehearsal.finding(1, 49, "confirmed", first_step=10), *rehearsal.machines(time.time())]
    )
    _, url = serve(own_broker.address)
    tab.goto(url)
    tab.get_by_text("Straggler: rank 2").wait_for()
    tab.locator(".heatmaplayer image").first.wait_for()
    for width in (480, 1280, 1600):
        tab.set_viewport_size({"width": width, "height": 1000})
        tab.wait_for_function(f"document.querySelector('[data-testid=stMain]').scrollWidth <= {width}")


def test_an_opened_card_stays_open_while_the_page_refreshes(tab, own_broker, serve, rehearsal):
    """A reader of the details is not interrupted by the next refresh, nor by the next revision."""
    publish(own_broker.address, [*rehearsal.timings(time.time(), 0, 50), rehearsal.finding(1, 49, "confirmed")])
    _, url = serve(own_broker.address)
    tab.goto(url)
    tab.get_by_text("What it rests on, 1 revision").click()
    tab.get_by_text("4 of 4 ranks heard").last.wait_for()
    publish(own_broker.address, [rehearsal.finding(2, 60, "confirmed")])
    tab.get_by_text("What it rests on, 2 revisions").wait_for()
    assert tab.get_by_text("Coverage: 4 of 4 ranks heard").is_visible()


def test_without_a_broker_the_page_opens(tab, serve):
    """No broker: the page says what is wrong and how to mend it."""
    with socket.socket() as unused:
        unused.bind(("127.0.0.1", 0))
        _, url = serve(f"127.0.0.1:{unused.getsockname()[1]}")
        tab.goto(url)
        tab.get_by_text("No connection to the broker at").wait_for()
        tab.get_by_text("paceline doctor", exact=True).wait_for()


def test_sigterm_ends_the_page_with_status_0(tab, own_broker, serve):
    """A clean stop, also with a tab open."""
    process, url = serve(own_broker.address)
    tab.goto(url)
    tab.get_by_text("paceline demo", exact=True).wait_for()
    process.send_signal(signal.SIGTERM)
    assert process.wait(30) == 0
