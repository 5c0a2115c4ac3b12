"""docker-compose.yml's services on Apache Kafka, natively: with the file's environment, order and health checks."""

import os
import shutil
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from experiments.twin.addresses import Addresses, own_network
from experiments.twin.checks import status
from experiments.twin.compose import PROFILES, Service, gateway, services
from experiments.twin.natively import Natively
from experiments.twin.stack import Stack

pytestmark = [
    pytest.mark.bus,
    pytest.mark.e2e,
    pytest.mark.skipif(sys.platform != "linux", reason="only Linux has all of 127.0.0.0/8"),
    pytest.mark.skipif(not shutil.which("java") or not shutil.which("mvn"), reason="java and mvn are missing"),
]
#: The training run has its own place: `make twin`. Prometheus and Alertmanager are tried where they are installed.
LEFT = {"demo", "grafana", "dcgm-exporter"} | {
    name for name in ("prometheus", "alertmanager") if not shutil.which(f"prometheus-{name}") and not shutil.which(name)
}
ONCE = ("secrets", "users", "topics")


@pytest.fixture(params=["demo", "secure"])
def stack(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[tuple[Stack, dict[str, Service], Addresses]]:
    """All that runs with a profile, started in order."""
    whole = services(*PROFILES[request.param])
    addresses = Addresses(whole, gateway(), own_network(os.getpid()))
    found = {name: service for name, service in whole.items() if name not in LEFT}
    for service in found.values():
        for name in LEFT & set(service.waits_for):
            del service.waits_for[name]
    if "secrets" in found:
        found["secrets"].environ["KAFKA_NAMES"] = f"IP:{addresses['kafka']}"
    with Stack(Natively(addresses, tmp_path), tmp_path) as running:
        running.up(found)
        yield running, found, addresses


def test_every_service_becomes_healthy(stack: tuple[Stack, dict[str, Service], Addresses]) -> None:
    """As its container's check would say; nobody else's page may ask, and compose's own name is known."""
    running, found, addresses = stack
    for name, service in found.items():
        if name not in ONCE:
            running.until_healthy(service)
    running.check(ONCE)
    for name, port in {"streams": 6066, "forecaster": 8000, "control": 8002}.items():
        url = f"http://{addresses[name]}:{port}/healthz"
        assert status(url, f"{name}:{port}") == 200
        assert status(url, "evil.example") == 403
