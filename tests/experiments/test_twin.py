"""The native twin: what it makes of the compose file's names, ports and paths."""

from pathlib import Path

import pytest

from experiments.images.builder import needed
from experiments.twin.addresses import Addresses, path_on_host
from experiments.twin.compose import DOCKERFILE, PROFILES, Health, Service, dockerfile, gateway, in_order, services

MADE = {
    "kafka": Service(
        "kafka", "apache/kafka:1.2.3", False, [], {"KAFKA_LISTENERS": "A://:29092,C://localhost:9093"},
        published={9092: 9092},
    ),
    "alertmanager": Service("alertmanager", "prom/alertmanager:v1.2.3", False, [], {}, published={9093: 9093}),
    "ui": Service("ui", "paceline/ui:0.1.0", True, [], {}, published={18501: 8501}),
    "alerts": Service(
        "alerts", "paceline/streams:0.1.0", True, [], {}, health=Health(["http://127.0.0.1:9402/healthz"], 30.0)
    ),
    "collectors": Service("collectors", "paceline/collectors:0.1.0", True, [], {}, on_host=True),
    "users": Service("users", "apache/kafka:1.2.3", False, [], {}, beside="kafka"),
}  # fmt: skip


@pytest.fixture
def addresses() -> Addresses:
    """Of services that have all there is to translate."""
    return Addresses(MADE, "172.30.93.1", "64.1")


@pytest.mark.parametrize(
    ("service", "text", "here"),
    [
        ("alerts", "alertmanager+http://alertmanager:9093", "alertmanager+http://127.64.1.3:9093"),
        ("alerts", "kafka:29092", "127.64.1.2:29092"),
        ("alerts", "http://127.0.0.1:9402/healthz", "http://127.64.1.5:9402/healthz"),
        ("alerts", "http://127.0.0.1:18501", "http://127.64.1.4:8501"),
        ("kafka", "SERVICES://:29092,CONTROLLER://localhost:9093", "SERVICES://127.64.1.2:29092,CONTROLLER://127.64.1.2:9093"),
        ("users", "localhost:29093", "127.64.1.2:29093"),
        ("collectors", "127.0.0.1:9092", "127.64.1.2:9092"),
        ("collectors", "172.30.93.1", "127.64.1.6"),
        ("ui", "0.0.0.0", "127.64.1.4"),
        ("ui", "my-kafka:29092 kafka:x paceline-kafka", "my-kafka:29092 kafka:x paceline-kafka"),
    ],
)  # fmt: skip
def test_an_address_is_where_the_service_is(addresses: Addresses, service: str, text: str, here: str) -> None:
    """By a service's name, by the container's own loopback, by what is published on this machine."""
    assert addresses.translated(service, text) == here


def test_a_path_is_where_its_volume_lies() -> None:
    """Whole names alone, each once, the longest first."""
    mounts = {"/tmp": Path("/a"), "/run/paceline": Path("/tmp/b"), "/run": Path("/c")}
    said = "/run/paceline/ca.pem /runs /tmp/spool /opt/tmp"
    assert path_on_host(mounts, said) == "/tmp/b/ca.pem /runs /a/spool /opt/tmp"


@pytest.mark.slow
def test_a_service_has_what_its_image_says() -> None:
    """Entrypoint, command and health come from the Dockerfile where the compose file says nothing."""
    found = services(*PROFILES["demo"])
    assert found["streams"].command[:2] == ["paceline", "streams"]
    assert found["streams"].health is not None
    assert found["demo"].command[:2] == ["sh", "-c"]
    assert "$(date" in found["demo"].command[2]
    assert found["topics"].command == ["paceline", "topics", "create", "--wait", "60"]
    assert found["topics"].health is None


@pytest.mark.slow
@pytest.mark.parametrize("way", PROFILES)
def test_services_come_after_those_they_wait_for(way: str) -> None:
    """In the order in which Compose starts them."""
    found = services(*PROFILES[way])
    order = in_order(found)
    for name, service in found.items():
        assert all(order.index(other) < order.index(name) for other in service.waits_for), name


@pytest.mark.slow
def test_the_gateway_is_the_compose_files() -> None:
    """The address on which the collector listens for Prometheus."""
    assert gateway() in services()["collectors"].command


@pytest.mark.parametrize("target", ["collectors", "streams", "forecaster", "ui", "demo"])
def test_a_target_is_built_of_its_own_stages(target: str) -> None:
    """What is cut out of the Dockerfile for one image says of it what the whole says."""
    text = DOCKERFILE.read_text()
    part = needed(text, target)
    assert dockerfile(part)[target] == dockerfile(text)[target]
    assert set(dockerfile(part)) == {"wheel", "service", target}
