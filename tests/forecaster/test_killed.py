"""The forecaster killed with SIGKILL: the next one knows what the topics hold, and forecasts on."""

import contextlib
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from typing import Any

import httpx
import pytest

from paceline import topics, wire
from paceline.events import DeviceWindow
from paceline.kafka import clients
from paceline.kafka.settings import BrokerSettings
from tests.heard import heard
from tests.patience import PATIENCE_S

pytestmark = pytest.mark.e2e
Until = Callable[..., Any]


class Service:
    """`paceline forecaster` on one port, as often as it is started."""

    def __init__(self, brokers: str, port: int) -> None:
        self.command = [sys.executable, "-m", "paceline", "forecaster", "--port", str(port), "--brokers", brokers]
        self.client = httpx.Client(base_url=f"http://127.0.0.1:{port}", timeout=PATIENCE_S)
        self.processes: list[subprocess.Popen[bytes]] = []

    def start(self) -> None:
        self.processes.append(subprocess.Popen(self.command, stderr=subprocess.DEVNULL))

    def kill(self) -> None:
        self.processes[-1].kill()
        self.processes[-1].wait()

    def get(self, path: str) -> Any:
        """The answer; nothing while nobody is ready to answer."""
        with contextlib.suppress(httpx.TransportError):
            if self.client.get("/readyz").status_code == 200:
                return self.client.get(path).raise_for_status().json()
        return None

    def samples(self) -> dict[str, int]:
        """How many samples of each series it holds."""
        return {line["key"]: line["samples"] for line in (self.get("/v1/series") or {"series": []})["series"]}


@pytest.fixture
def service(broker: BrokerSettings, free_port: Callable[[], int]) -> Iterator[Service]:
    made = Service(broker.address, free_port())
    yield made
    made.client.close()
    for process in made.processes:
        process.kill()
        process.wait()


def test_killed_it_comes_back_with_what_the_topics_hold(broker: BrokerSettings, service: Service, until: Until) -> None:
    """What came before the kill and while it was dead is there; a series that stood still is forecast as before."""
    cluster = f"killed-{broker.address}"
    first_s = time.time() // 60 * 60 - 35 * 60.0
    moving, still = (f"{cluster}/device/n/{device}/utilization_ratio" for device in ("moving", "still"))

    def send(device: str, minutes: range) -> None:
        with contextlib.closing(clients.producer(broker, "test")) as client:
            for minute in minutes:
                window = DeviceWindow(
                    cluster=cluster, start_s=first_s + 60.0 * minute, length_s=60.0, node="n", device=device,
                    samples=60, mean={"utilization_ratio": 0.1 * (minute % 7)}, max={},
                )  # fmt: skip
                client.send(topics.WINDOW.name, wire.encode(window), key=b"n")
            client.flush()

    send("moving", range(30))
    send("still", range(30))
    service.start()
    until(lambda: (held := service.samples()).get(moving) == held.get(still) == 30)
    before = service.get(f"/v1/series/{still}/forecast")
    service.kill()
    send("moving", range(30, 35))
    service.start()
    until(lambda: service.get("/v1/series"))
    assert {key: count for key, count in service.samples().items() if key in (moving, still)} == {moving: 35, still: 30}
    assert service.get(f"/v1/series/{still}/forecast") == before
    with contextlib.closing(clients.consumer(broker, topics.FORECAST, from_beginning=True)) as reading:
        told: set[float] = set()

        def published() -> bool:
            for records in reading.poll(timeout_ms=200).values():
                told.update(event.time_s for event in heard(topics.FORECAST, records) if event.series == moving)
            return first_s + 35 * 60.0 in told

        until(published)
