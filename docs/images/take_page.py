"""Take the README's picture of the page: of a running one, or of a simulated job on a broker of its own.

From the root of the checkout, which the simulated job of the page's tests is imported from:

python -m docs.images.take_page http://127.0.0.1:8501 docs/images/page.png
python -m docs.images.take_page simulated docs/images/page.png --width 1600
"""

import argparse
import contextlib
import socket
import subprocess
import sys
import time
from collections.abc import Iterator

from playwright.sync_api import sync_playwright

from paceline import wire
from paceline.kafka import embedded
from paceline.kafka.clients import producer
from paceline.kafka.settings import BrokerSettings
from paceline.kafka.topic_admin import ensure_topics
from tests.ui.simulated_job import SimulatedJob

FLAGS = ["--no-sandbox", "--disable-gpu", "--disable-quic", "--no-first-run", "--disable-background-networking"]
FLAGS += ["--disable-component-update", "--disable-sync"]


@contextlib.contextmanager
def simulated(port: int) -> Iterator[str]:
    """A broker with a simulated job and the page over it."""
    with embedded.start() as broker:
        settings = BrokerSettings(brokers=(broker.address,))
        ensure_topics(settings)
        command = [sys.executable, "-m", "paceline", "ui", "--port", str(port), "--brokers", broker.address]
        page = subprocess.Popen(command)  # noqa: S603
        try:
            wait_for(port)
            publish(settings)
            yield f"http://127.0.0.1:{port}"
        finally:
            page.terminate()
            page.wait(10)


def wait_for(port: int, deadline_s: float = 60.0) -> None:
    """Return once somebody listens on ``port``."""
    end = time.monotonic() + deadline_s
    while time.monotonic() < end:
        with contextlib.suppress(OSError), socket.create_connection(("127.0.0.1", port), 1):
            return
        time.sleep(0.1)
    raise TimeoutError(f"nobody listens on {port}")


def publish(settings: BrokerSettings) -> None:
    """Send 600 steps of a job whose rank 5 turns slow at step 300."""
    job, now_s = SimulatedJob(), time.time()
    sent = [*job.described(now_s - 60), *job.machines(now_s)]
    for first in range(0, 600, 20):
        sent += job.timings(now_s - 60 + first / 10, first, 20)
    sent += [job.window(now_s, 599)]
    sent += [job.finding(1, 330, "suspected"), job.finding(2, 345, "confirmed"), job.finding(3, 599, "confirmed")]
    client = producer(settings, "take-page")
    for topic, event in sent:
        key = wire.key_of(topic, event)
        client.send(topic.name, wire.encode(event), key=key.encode() if key else None)
    client.flush(20)
    client.close()


def shoot(url: str, path: str, width: int, height: int) -> None:
    """Open the page, wait until it is drawn, and save all of it."""
    with sync_playwright() as play, play.chromium.launch(executable_path="/usr/bin/chromium", args=FLAGS) as browser:
        page = browser.new_page(viewport={"width": width, "height": height}, device_scale_factor=1)
        page.goto(url, timeout=60_000)
        page.get_by_text("Pipeline health").wait_for(timeout=60_000)
        page.locator(".js-plotly-plot .heatmaplayer image").first.wait_for(timeout=60_000)
        page.locator(".js-plotly-plot .barlayer path").first.wait_for(timeout=60_000)
        page.screenshot(path=path)


def main() -> None:
    """Parse, shoot."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("url", help="the page's address, or `simulated`")
    parser.add_argument("path", help="the PNG to write")
    parser.add_argument("--width", type=int, default=1600)
    parser.add_argument("--height", type=int, default=1180)
    chosen = parser.parse_args()
    source = simulated(8599) if chosen.url == "simulated" else contextlib.nullcontext(chosen.url)
    with source as url:
        shoot(url, chosen.path, chosen.width, chosen.height)


if __name__ == "__main__":
    main()
