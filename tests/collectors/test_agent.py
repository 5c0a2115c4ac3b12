import threading
import time

import pytest

from collectors.agent import Agent, Identity
from collectors.buffers import GpuBuffer, HostBuffer
from collectors.gpu import Gpus
from collectors.host import Host
from collectors.processes import ProcessOwners
from collectors.simulated import SimulatedNvml
from paceline import wire
from paceline.gpu.nvml import Nvml
from paceline.topics import DEVICE, HOST, NODE


class Published:
    """Keeps what is published, as it would travel."""

    def __init__(self):
        self.events = {}
        self.keys = set()

    def publish(self, topic, event, *, key=None):
        self.keys.add(key)
        self.events.setdefault(topic.name, []).append(wire.decode(topic, wire.encode(event)))

    def close(self, timeout_s):
        pass


@pytest.fixture
def run(until):
    """Runs an agent in a thread until ``enough(published)``; returns what was published."""

    def start(nvml, enough, interval_s=0.05):
        published, stop = Published(), threading.Event()
        buffers = HostBuffer(Host()), GpuBuffer(Gpus(lambda: Nvml(nvml)), ProcessOwners())
        agent = Agent(Identity("c", "n", "p-1"), *buffers, published, interval_s)
        thread = threading.Thread(target=agent.run, args=(stop,))
        thread.start()
        try:
            until(lambda: enough(published))
        finally:
            stop.set()
            thread.join()
        return published

    return start


def count(published, topic):
    return len(published.events.get(topic.name, []))


@pytest.mark.slow
def test_many_samples_are_one_message_a_second(run):
    """At 20 Hz a message holds many rows, and messages do not come more often."""
    began = time.monotonic()
    published = run(SimulatedNvml(2, now=time.monotonic), lambda published: count(published, HOST) >= 3)
    lasted = time.monotonic() - began

    assert count(published, HOST) <= lasted + 2
    assert max(len(event.time_s) for event in published.events[HOST.name]) > 1


@pytest.mark.slow
def test_sequences_count_each_topic_from_zero(run):
    """Every topic's messages are numbered without a gap, by one producer, under the node's key."""
    published = run(SimulatedNvml(1, now=time.monotonic), lambda published: count(published, DEVICE) >= 2)

    for events in published.events.values():
        assert [event.sequence for event in events] == list(range(len(events)))
        assert {event.producer for event in events} == {"p-1"}
    assert published.keys == {"n"}


@pytest.mark.slow
def test_no_row_is_told_twice_or_lost(run):
    """Rows of successive messages follow one another in time."""
    published = run(SimulatedNvml(1, now=time.monotonic), lambda published: count(published, DEVICE) >= 3)
    times = [event.t0_s + offset for event in published.events[DEVICE.name] for offset in event.time_s]

    assert times == sorted(set(times))


@pytest.mark.slow
def test_a_driver_that_hangs_does_not_hold_up_the_host(run):
    """While a call into the driver does not return, host messages go on, and the agent still ends."""

    class Hanging(SimulatedNvml):
        release = threading.Event()

        def nvmlDeviceGetUtilizationRates(self, gpu):  # noqa: N802
            self.release.wait()
            return super().nvmlDeviceGetUtilizationRates(gpu)

    nvml = Hanging(1, now=time.monotonic)
    try:
        published = run(nvml, lambda published: count(published, HOST) >= 3)
    finally:
        nvml.release.set()

    assert count(published, DEVICE) == 0


@pytest.mark.slow
def test_a_bug_in_a_sample_is_logged_once_and_survived(run, caplog):
    """What no reader foresaw is logged with its trace, once, and the host goes on."""

    class Broken(SimulatedNvml):
        def nvmlDeviceGetUtilizationRates(self, gpu):  # noqa: N802
            raise RuntimeError("out of the blue")

    published = run(Broken(1, now=time.monotonic), lambda published: count(published, HOST) >= 2)

    assert count(published, HOST) >= 2
    assert [record.getMessage() for record in caplog.records] == ["gpu sample failed; going on"]


def test_the_inventory_is_said_at_the_start(run):
    """The first thing that is said of a node is what it has."""
    published = run(SimulatedNvml(3, now=time.monotonic), lambda published: count(published, NODE) >= 1)

    assert len(published.events[NODE.name][0].devices) == 3


@pytest.mark.long
def test_once_gives_rates(until):
    """A single sample still has rates and activity: it is taken over an interval."""
    published = Published()
    nvml = SimulatedNvml(1, now=time.monotonic)
    agent = Agent(
        Identity("c", "n", "p"),
        HostBuffer(Host()),
        GpuBuffer(Gpus(lambda: Nvml(nvml)), ProcessOwners()),
        published,
        interval_s=0.05,
    )
    agent.once(threading.Event())
    (event,) = published.events[DEVICE.name]

    assert len(event.time_s) == 1
    assert event.pcie_rx_bytes_per_s[0] is not None
    assert event.sm_active_ratio[0] is not None
    assert [event.sequence for events in published.events.values() for event in events] == [0, 0, 0]
