"""``/healthz``, ``/readyz`` and ``/metrics`` of the worker, on the loopback address unless told otherwise.

Rule of this file: it only reads. Metric names of the worker begin with ``paceline_streams_``; those of collectors
and sidecars, which have no port, with the name of theirs; those of the jobs it watches do not name a service.
"""

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field

from aiohttp import web
from aiohttp.typedefs import Handler
from prometheus_client import CollectorRegistry, generate_latest
from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily
from prometheus_client.metrics_core import Metric

from paceline import hosts
from paceline.topics import BY_NAME

from .door_counts import DoorCounts
from .producers import Producers


@dataclass(frozen=True)
class WorkerState:
    """What ``/metrics`` tells of the worker beside its counts; ``lag`` is by topic."""

    in_hand: int = 0
    units: int = 0
    ready: bool = False
    restarts: int = 0
    lag: dict[str, int] = field(default_factory=dict)


class _Meters:
    """The door's counts as Prometheus metrics, read when asked for."""

    def __init__(self, counts: DoorCounts, worker: WorkerState) -> None:
        self._counts, self._worker = counts, worker

    def collect(self) -> Iterator[Metric]:
        """Every metric, as ``prometheus_client`` wants a collector to tell them."""
        counts = self._counts
        yield _by_topic("events", "Events read.", counts.events)
        yield _counter("event_bytes", "Bytes of the events read.", counts.bytes)
        yield _by_topic("published", "Events published.", counts.published)
        yield _counter("dead_letters", "Messages that could not be used.", counts.dead_letters)
        dropped = "States of a job or node that could not be stored and started again."
        yield _counter("states_dropped", dropped, counts.states_dropped)
        unreadable = "Batches passed over: damaged, too large unpacked, or no known codec."
        yield _by_topic("unreadable_batches", unreadable, counts.unreadable)
        remade = "Partitions read from their beginning, their topic being another one."
        yield _by_topic("remade_partitions", remade, counts.remade)
        yield _counter("checkpoints", "Snapshots stored.", counts.checkpoints)
        yield _counter("checkpoint_bytes", "Bytes of the snapshots stored.", counts.checkpoint_bytes)
        yield _counter("commits", "Offset commits.", counts.commits)
        waiting = "Events read whose offset is not safe to commit yet."
        yield GaugeMetricFamily("paceline_streams_uncommitted_events", waiting, self._worker.in_hand)
        yield GaugeMetricFamily("paceline_streams_units", "Jobs and nodes in memory.", self._worker.units)
        yield from self._state()
        yield from _producers(counts.producers)
        for name, help_, at in _JOBS:
            family = GaugeMetricFamily(name, help_, labels=["training_job"])
            for job, row in sorted(counts.jobs.items()):
                family.add_metric([job], row[at])
            yield family

    def _state(self) -> Iterator[Metric]:
        """How the worker itself stands."""
        worker, counts = self._worker, self._counts
        yield GaugeMetricFamily("paceline_streams_ready", "1 while /readyz is 200.", int(worker.ready))
        yield _counter("restarts", "Starts from what is stored, after an outage or a failure.", worker.restarts)
        lag = GaugeMetricFamily("paceline_streams_lag_messages", "Messages not taken yet.", labels=["topic"])
        for topic, behind in sorted(worker.lag.items()):
            lag.add_metric([topic], behind)
        refused = CounterMetricFamily(
            "paceline_streams_refused_messages", "Dead letters by topic and reason.", labels=["topic", "reason"]
        )
        for (topic, reason), count in sorted(counts.refused.items()):
            refused.add_metric([topic, reason], count)
        yield from (lag, refused)


def _producers(producers: Producers) -> Iterator[Metric]:
    """What is missing of producers, and what those say of themselves who have no port of their own."""
    missing = "Numbered messages that never came, or could not be read."
    yield _by_topic("missing_messages", missing, producers.missing)
    yield _counter("lost_rows", "Rows that training processes measured and dropped.", producers.lost_rows)
    for service in ("collectors", "sidecar"):
        labels = ["node", "training_job"] if service == "sidecar" else ["node"]
        senders = {who[1:]: sender for who, sender in sorted(producers.senders.items()) if who[0] == service}
        for name, help_, kept in _ACCOUNT:
            kind = CounterMetricFamily if kept in ("sent", "outages") else GaugeMetricFamily
            family = kind(f"paceline_{service}_{name}", help_, labels=labels)
            for who, sender in senders.items():
                family.add_metric(list(who[: len(labels)]), getattr(sender.account, kept))
            yield family
        shed = CounterMetricFamily(f"paceline_{service}_shed_messages", "Messages lost.", labels=[*labels, "topic"])
        restarts = CounterMetricFamily(f"paceline_{service}_restarts", "Another process took over.", labels=labels)
        for who, sender in senders.items():
            restarts.add_metric(list(who[: len(labels)]), sender.restarts)
            for topic, count in sorted(sender.account.shed.items()):
                if topic in BY_NAME:
                    shed.add_metric([*who[: len(labels)], BY_NAME[topic].short], count)
        yield from (shed, restarts)


#: Of a producer's account: metric, what it is, field.
_ACCOUNT = (
    ("sent_messages", "Messages that a broker has.", "sent"),
    ("waiting_messages", "Messages in memory.", "waiting"),
    ("spooled_messages", "Messages on disk.", "spooled"),
    ("spooled_bytes", "Bytes of the spool on disk.", "spooled_bytes"),
    ("outages", "How often the brokers went away.", "outages"),
)
#: Metric of a job, what it is, and its place in the door's row.
_JOBS = (
    ("paceline_step_seconds", "Median step of the median rank in the last window.", 0),
    ("paceline_steps_per_second", "Steps a second in the last window.", 1),
)


def _counter(name: str, help_: str, value: int) -> Metric:
    return CounterMetricFamily(f"paceline_streams_{name}", help_, value)


def _by_topic(name: str, help_: str, counts: dict[str, int]) -> Metric:
    family = CounterMetricFamily(f"paceline_streams_{name}", help_, labels=["topic"])
    for topic, count in sorted(counts.items()):
        family.add_metric([topic], count)
    return family


def metrics(counts: DoorCounts, worker: WorkerState) -> str:
    """The numbers in Prometheus' text form."""
    registry = CollectorRegistry()
    registry.register(_Meters(counts, worker))
    return generate_latest(registry).decode()


async def serve(
    address: str, port: int, waits: Callable[[], str | None], text: Callable[[], str], names: Sequence[str]
) -> web.AppRunner:
    """Serve until the runner that is returned is cleaned up; only requests for one of ``names`` are answered.

    Raises:
        OSError: the port is taken.
    """

    async def healthz(request: web.Request) -> web.Response:
        return web.Response(text="ok\n")

    async def readyz(request: web.Request) -> web.Response:
        waiting = waits()
        return web.Response(text=f"{waiting or 'ready'}\n", status=503 if waiting else 200)

    async def show(request: web.Request) -> web.Response:
        return web.Response(text=text(), headers={"Content-Type": "text/plain; version=0.0.4; charset=utf-8"})

    @web.middleware
    async def known(request: web.Request, handler: Handler) -> web.StreamResponse:
        problem = hosts.refusal(request.headers.get("Host"), request.headers.get("Origin"), names)
        if problem is not None:
            return web.Response(text=": ".join(problem) + "\n", status=403)
        return await handler(request)

    site = web.Application(middlewares=[known])
    site.add_routes([web.get("/healthz", healthz), web.get("/readyz", readyz), web.get("/metrics", show)])
    runner = web.AppRunner(site, access_log=None)
    await runner.setup()
    await web.TCPSite(runner, address, port).start()
    return runner
