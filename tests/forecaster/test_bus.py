"""The service with a broker: it learns from ``window``, publishes ``forecast`` and ``profile``, and recovers."""

import contextlib
import time
from collections.abc import Callable

import pytest

from forecaster.consumer import EventConsumer
from forecaster.memory import Memory
from forecaster.models import network
from forecaster.models.registry import registry
from forecaster.publisher import ForecastPublisher
from paceline import topics, wire
from paceline.events import DeviceWindow, Forecast, JobProfile, JobWindow
from paceline.kafka import clients
from paceline.kafka.settings import BrokerSettings

pytestmark = pytest.mark.bus
Until = Callable[..., None]


def send(settings: BrokerSettings, cluster: str, minutes: int) -> None:
    """A GPU's minutes and a training job's seconds, up to now."""
    now_s = time.time() // 60 * 60
    with contextlib.closing(clients.producer(settings, "test")) as client:
        for number in range(minutes):
            mean = {"utilization_ratio": 0.5, "fb_used_bytes": 1e9 * number, "fb_total_bytes": 80e9}
            window = DeviceWindow(
                cluster=cluster, start_s=now_s - 60.0 * (minutes - number), length_s=60.0, node="n", device="g",
                samples=60, mean=mean, max={"fb_total_bytes": 80e9},
            )  # fmt: skip
            client.send(topics.WINDOW.name, wire.encode(window), key=b"n")
        step = JobWindow(
            cluster=cluster, start_s=now_s, length_s=1.0, job="learned-job", attempt=0, ranks=2, steps=2, first_step=0,
            last_step=1, step_median_s=0.5, step_p95_s=0.6, own_median_s=0.4, own_worst_s=0.5, worst_rank=1,
            wait_ratio=None, phase_median_s={},
        )  # fmt: skip
        client.send(topics.WINDOW.name, wire.encode(step), key=b"learned-job")
        client.send(topics.WINDOW.name, b"{torn", key=b"learned-job")
        client.flush()


@pytest.fixture
def follow(broker: BrokerSettings, until: Until) -> Callable[[], contextlib.AbstractContextManager[Memory]]:
    """Starts a memory that follows the broker and has caught up."""

    @contextlib.contextmanager
    def following():  # type: ignore[no-untyped-def]
        memory = Memory()
        consumer = EventConsumer(broker, memory)
        consumer.start()
        try:
            until(lambda: consumer.waits() is None)
            yield memory
        finally:
            consumer.stop()

    return following


@pytest.mark.landing
def test_it_learns_publishes_and_recovers(
    broker: BrokerSettings,
    follow: Callable[[], contextlib.AbstractContextManager[Memory]],
    until: Until,
) -> None:
    """What was sent is held; forecasts and profiles come back; a second start knows the same from the bus alone."""
    send(broker, "learned", 30)
    key = "learned/device/n/g/fb_used_bytes"
    with follow() as memory:
        until(lambda: memory.find(key) is not None and len(memory.find(key).values) == 30)  # type: ignore[union-attr]
        assert memory.counts.undecodable >= 1
        publisher = ForecastPublisher(broker, memory, registry(network.shipped()))
        publisher.start()
        try:
            events: dict[str, Forecast | JobProfile] = {}
            reading = clients.consumer(broker, topics.FORECAST, topics.PROFILE, from_beginning=True)
            with contextlib.closing(reading) as client:

                def arrived() -> bool:
                    for partition, records in client.poll(timeout_ms=200).items():
                        for record in records:
                            event = wire.decode(topics.BY_NAME[partition.topic], record.value)
                            events[record.key.decode()] = event
                    return {key, "learned/cluster/gpu_busy_ratio", "learned-job"} <= set(events)

                until(arrived)
        finally:
            publisher.stop()
        published = events[key]
        told = memory.published.values(time.monotonic())
        assert isinstance(published, Forecast)
        middle = published.values[-1][published.levels.index(0.5)]
        assert told["device/n/g", "fb_used_bytes", "60", "0.5"] == pytest.approx(middle)
        assert published.values[0] == sorted(published.values[0])
        assert published.node == "n"
        assert isinstance(events["learned-job"], JobProfile)
        assert events["learned-job"].kind == "training"
        before = memory.find(key)
    with follow() as again:
        after = again.find(key)
        assert before is not None
        assert after is not None
        assert after.values.tolist() == before.values.tolist()
