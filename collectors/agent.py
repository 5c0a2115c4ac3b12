"""The node agent: one thread samples the host, one the GPUs, and the caller's thread publishes once a second.

Rule of this file: no part waits for another. A driver that hangs (a GPU that falls off the bus may hold a call for
minutes) delays neither the host's samples nor a message, and a slow bus delays no sample.
"""

import logging
import threading
import time
from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

from paceline.events import DeviceSamples, HostSamples, NodeDescribed
from paceline.topics import DEVICE, HOST, NODE, Topic

from .buffers import DeviceBuffer, HostBuffer
from .pace import Pace
from .publishers import EventPublisher
from .sampler import Sampler
from .schedule import Schedule

log = logging.getLogger("paceline.collect")
#: Seconds between two messages of a topic.
PUBLISH_S = 1.0
#: What changes of a GPU show in.
CHANGING = ("utilization_ratio", "fb_used_bytes", "power_w")
#: Seconds that a sampling thread gets to end.
STOP_S = 1.0


class Identity(NamedTuple):
    """Who speaks: goes into every message. ``producer`` is unique per process start."""

    cluster: str
    node: str
    producer: str


class Agent:
    """Samples this node and publishes through ``publisher``; ``answer_commands`` is called as often as that, and may
    change the ``pace``. Those ``beside`` keep a pace of their own."""

    def __init__(
        self,
        identity: Identity,
        host: HostBuffer,
        gpus: DeviceBuffer,
        publisher: EventPublisher,
        interval_s: float = 1.0,
        answer_commands: Callable[[], None] = lambda: None,
        pace: Pace | None = None,
        beside: Sequence[Sampler] = (),
    ) -> None:
        self._identity = identity
        self._host = host
        self._gpus = gpus
        self._publisher = publisher
        self._interval_s = interval_s
        self._answer_commands = answer_commands
        self._pace = pace or Pace(interval_s)
        self._sequences: dict[str, int] = {}
        self._samplers = [Sampler("host", interval_s, host.sample), Sampler("gpu", interval_s, gpus.sample)]
        self._beside = beside

    def run(self, stop: threading.Event, seconds: float | None = None) -> None:
        """Sample and publish until ``stop`` is set or ``seconds`` are over; then publish what is left."""
        start_s = time.monotonic()
        # Half an interval late, so that a message finds its rows complete and never 0 of them now and 2 the next time.
        schedule = Schedule(PUBLISH_S, start_s + min(PUBLISH_S, self._interval_s) / 2)
        for sampler in (*self._samplers, *self._beside):
            sampler.start()
        while not stop.is_set():
            wait_s = schedule.wait_s(time.monotonic())
            left_s = float("inf") if seconds is None else start_s + seconds - time.monotonic()
            if stop.wait(min(wait_s, max(0.0, left_s))) or left_s <= wait_s:
                break
            self.publish()
            self._answer_commands()
            interval_s = self._pace.interval_s(time.monotonic())
            for sampler in self._samplers:
                sampler.change(interval_s)
            for sampler in (*self._samplers, *self._beside):
                sampler.watch()
        ended = [sampler.stop(STOP_S) for sampler in self._samplers]
        self.publish()
        for sampler in self._beside:
            sampler.stop(STOP_S)
        if all(ended):
            self._gpus.close()
        else:
            log.warning("a sampling thread hangs in a call that does not return; leaving it behind")

    def once(self, stop: threading.Event) -> None:
        """Publish one row of everything; rates are over one interval."""
        for sampler in self._samplers:
            sampler.once()
        self._host.cut(**self._producer(0))
        self._gpus.cut(**self._producer(0))
        stop.wait(self._interval_s)
        for sampler in (*self._samplers, *self._beside):
            sampler.once()
        self.publish()
        self._gpus.close()

    def publish(self) -> None:
        """Publish what there is: at most one message a topic."""
        inventory = self._gpus.inventory()
        if inventory is not None:
            self._send(NODE, lambda producer: NodeDescribed(**inventory, **producer))
        self._send(DEVICE, lambda producer: self._gpus.cut(**producer))
        self._send(HOST, lambda producer: self._host.cut(**producer))

    def _send(self, topic: Topic, make: Any) -> None:
        sequence = self._sequences.get(topic.name, 0)
        event = make(self._producer(sequence))
        if event is not None:
            self._sequences[topic.name] = sequence + 1
            self._observe(event)
            self._publisher.publish(topic, event, key=self._identity.node)

    def _observe(self, event: Any) -> None:
        """Tell the pace what changes may show in."""
        now_s = time.monotonic()
        if isinstance(event, DeviceSamples):
            for name in CHANGING:
                for at, device in enumerate(event.device):
                    self._pace.observe(f"{name}/{device}", getattr(event, name)[at], now_s)
        elif isinstance(event, HostSamples):
            for value in event.cpu_ratio:
                self._pace.observe("cpu", value, now_s)

    def _producer(self, sequence: int) -> dict[str, Any]:
        return {**self._identity._asdict(), "sequence": sequence}
