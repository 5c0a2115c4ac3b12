"""The loop of ``paceline otlp`` on a broker: each revision once, whatever else comes down the topic."""

import contextlib
import threading
import time
from collections.abc import Callable
from typing import Any

import pytest
from opentelemetry.exporter.otlp.proto.http._log_exporter import OTLPLogExporter
from opentelemetry.proto.collector.logs.v1.logs_service_pb2 import ExportLogsServiceRequest

from paceline import topics, wire
from paceline.kafka import clients
from paceline.kafka.settings import BrokerSettings
from paceline.otlp.run import Loop
from paceline.otlp.sender import Sender
from tests.derived_events import finding
from tests.http_receiver import Receiver
from tests.patience import PATIENCE_S

pytestmark = pytest.mark.bus


def told(server: Receiver, job: str) -> list[tuple[str, int]]:
    """The revisions of findings of ``job`` that arrived."""
    arrived = []
    for request in list(server.received):
        for resource in ExportLogsServiceRequest.FromString(request.body).resource_logs:
            for record in resource.scope_logs[0].log_records:
                held = {one.key: one.value for one in record.attributes}
                key = held["paceline.finding.id"].string_value, held["paceline.finding.revision"].int_value
                arrived += [key] if key[0].startswith(job) else []
    return arrived


@pytest.mark.exactly_once
def test_each_revision_is_sent_once_whatever_comes(broker: BrokerSettings, until: Callable[..., Any]) -> None:
    """Told twice by a worker that died, out of order, between messages that are none."""
    job, stop = f"otlp-{time.time_ns()}", threading.Event()
    first, second, last = (finding(id=f"{job}-{name}", job=job) for name in ("a", "b", "end"))
    later = finding(id=first.id, job=job, revision=2)
    with Receiver() as server, contextlib.closing(clients.producer(broker, "test")) as client:
        logs = Sender("findings", OTLPLogExporter(endpoint=f"http://{server.at}/v1/logs", timeout=PATIENCE_S), print)
        loop = Loop(broker, logs, None, print, stop)
        running = threading.Thread(target=loop.run)
        running.start()
        try:

            def put(*values: Any) -> None:
                for value in values:
                    data = value if isinstance(value, bytes) else wire.encode(value)
                    client.send(topics.FINDING.name, data, key=job.encode())
                client.flush()

            def is_heard() -> bool:  # What is published before the loop follows is not its to tell.
                put(finding(id=f"{job}-start", job=job, revision=time.monotonic_ns()))
                return bool(told(server, job))

            until(is_heard)
            put(first, b"{torn", first, later, b"", b"null", second, first, later, b"[1]", last)
            until(lambda: (last.id, 1) in told(server, job))
        finally:
            stop.set()
            running.join()
            logs.close(PATIENCE_S)
        arrived = [key for key in told(server, job) if not key[0].endswith("-start")]
    assert sorted(arrived) == sorted([(first.id, 1), (later.id, 2), (second.id, 1), (last.id, 1)])
    assert loop.unreadable >= 2
