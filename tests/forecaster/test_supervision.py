"""A thread of the service that fails is seen in /readyz and goes on by itself; one broken series stops no other."""

import contextlib
import time
from collections.abc import Callable, Iterator
from typing import Any

import httpx
import pytest

from forecaster.api.app import application
from forecaster.api.executor import ForecastExecutor
from forecaster.consumer import EventConsumer
from forecaster.history import SeriesSubject
from forecaster.memory import Memory, ServiceCounts
from forecaster.models.registry import Registry
from forecaster.publisher import ForecastPublisher
from forecaster.server import Part, waits
from paceline import topics, wire
from paceline.events import DeviceWindow
from paceline.kafka import clients
from paceline.kafka.settings import BrokerSettings
from tests.heard import heard

pytestmark = pytest.mark.bus
Until = Callable[..., Any]
Ready = Callable[[Part], contextlib.AbstractContextManager[Callable[[], httpx.Response]]]


@pytest.fixture
def ready(serving: Callable[..., contextlib.AbstractContextManager[str]], models: Registry) -> Ready:
    """Starts a part of the service behind an application, and asks whether that is ready."""

    @contextlib.contextmanager
    def started(part: Part) -> Iterator[Callable[[], httpx.Response]]:
        app = application(ForecastExecutor(models, 1), Memory(), ready=lambda: waits([part]))
        with serving(app) as address:
            part.start()
            try:
                yield lambda: httpx.get(f"{address}/readyz")
            finally:
                part.stop()

    return started


@pytest.mark.slow
def test_a_publisher_that_fails_is_seen_and_goes_on(
    broker: BrokerSettings, models: Registry, ready: Ready, until: Until
) -> None:
    """A memory that cannot be gone through stops publishing: 503 with the cause, and ready again when it is mended."""
    memory = Memory()

    def fails() -> list[tuple[str, float]]:
        raise AttributeError("no text")

    with ready(ForecastPublisher(broker, memory, models)) as asked:
        until(lambda: asked().status_code == 200)
        broken = pytest.MonkeyPatch()
        broken.setattr(memory, "keys", fails)
        failed = until(lambda: (said := asked()).status_code == 503 and said)
        assert "the forecast publisher failed (AttributeError" in failed.text
        broken.undo()
        until(lambda: asked().status_code == 200)


def test_a_consumer_that_fails_is_seen_and_goes_on(broker: BrokerSettings, ready: Ready, until: Until) -> None:
    """What breaks the consumer itself: 503 with the cause, and everything is read when it is mended."""
    memory = Memory()
    cluster = f"consumer-{broker.address}"
    poison: Any = None
    memory.counts = poison
    send(broker, cluster, 20)
    consumer = EventConsumer(broker, memory)
    with ready(consumer) as asked:
        failed = until(lambda: "failed" in (said := asked()).text and said)
        assert failed.status_code == 503
        assert "the event consumer failed (AttributeError" in failed.text
        memory.counts = ServiceCounts()
        until(lambda: asked().status_code == 200)
        assert consumer.restarts >= ("consumer", 1)
        assert memory.find(f"{cluster}/device/n/g/utilization_ratio") is not None


def test_a_series_that_breaks_the_forecast_stops_no_other(
    broker: BrokerSettings, models: Registry, ready: Ready, until: Until
) -> None:
    """A series at a time that no grid can hold is not published; its neighbours are, and the service is ready."""
    memory = Memory()
    cluster = f"broken-{broker.address}"
    for name, first_s in (("broken", 60.0 * 2.0**70), ("sound", 0.0)):
        subject = SeriesSubject(f"{cluster}/cluster/{name}", "W", 60.0, cluster)
        memory.put(subject, [first_s + 60.0 * step for step in range(20)], [float(step % 3) for step in range(20)])
    reading = clients.consumer(broker, topics.FORECAST.name, from_beginning=True)
    series: set[str] = set()
    with contextlib.closing(reading) as client, ready(ForecastPublisher(broker, memory, models)) as asked:

        def arrived() -> bool:
            for records in client.poll(timeout_ms=200).values():
                series.update(event.series for event in heard(topics.FORECAST, records))
            return f"{cluster}/cluster/sound" in series

        until(arrived)
        assert memory.counts.failed == 1
        assert asked().status_code == 200
    assert f"{cluster}/cluster/broken" not in series


def test_nothing_is_published_before_the_bus_is_read(
    broker: BrokerSettings, models: Registry, ready: Ready, until: Until
) -> None:
    """Half of a history is a cluster of half its nodes: forecasts of it are none."""
    memory, caught_up, asked_after = Memory(), False, 0
    memory.put(SeriesSubject("c/cluster/load", "W", 60.0, "c"), [60.0 * at for at in range(20)], [1.0] * 20)

    def asks() -> bool:
        nonlocal asked_after
        asked_after += 1
        return caught_up

    with ready(ForecastPublisher(broker, memory, models, asks)):
        until(lambda: asked_after > 1)
        assert memory.counts.published == 0
        caught_up = True
        until(lambda: memory.counts.published == 1)


def send(settings: BrokerSettings, cluster: str, minutes: int) -> None:
    """A GPU's last minutes."""
    now_s = time.time() // 60 * 60
    with contextlib.closing(clients.producer(settings, "test")) as client:
        for number in range(minutes):
            window = DeviceWindow(
                cluster=cluster, start_s=now_s - 60.0 * (minutes - number), length_s=60.0, node="n", device="g",
                samples=60, mean={"utilization_ratio": 0.5}, max={},
            )  # fmt: skip
            client.send(topics.WINDOW.name, wire.encode(window), key=b"n")
        client.flush()
