"""How the chart's services reach Kafka, and the one node that it brings."""

import re
from pathlib import Path
from typing import Any

import pytest

from experiments.chart.pod_security import containers
from experiments.chart.render import ToolsError, case, cases, component, environment, pod_of, programs, started
from experiments.twin import compose
from paceline.kafka.settings import BrokerSettings

pytestmark = pytest.mark.slow

DOWNWARD = {"spec.nodeName": "node-1", "status.podIP": "10.1.2.3"}


@pytest.fixture(scope="module", autouse=True)
def _helm() -> None:
    try:
        programs()
    except ToolsError as error:
        pytest.skip(str(error))


@pytest.mark.parametrize("name", cases())
def test_every_service_reaches_kafka_by_what_it_is_given(name: str, tmp_path: Path) -> None:
    """The settings of its pod, with the files that its volumes hold, are ones that a service starts with."""
    for one in case(name):
        pod = pod_of(one)
        if pod is None or component(one) == "kafka":
            continue
        (container,) = containers(pod["spec"])
        files = {f"/run/paceline/kafka/{item['path']}" for item in projected(pod["spec"], "kafka")}
        environ = environment(container, DOWNWARD)
        for variable, value in environ.items():
            if value in files:
                place = tmp_path / value.rpartition("/")[2]
                place.write_text("held\n")
                environ[variable] = value = str(place)
            assert not value.startswith("/run/paceline/kafka/"), f"{component(one)}: {value} is in no volume"
        BrokerSettings.from_environ(environ)
        assert bool(files) == any(mount["name"] == "kafka" for mount in container["volumeMounts"])


def projected(spec: dict[str, Any], name: str) -> list[dict[str, Any]]:
    volumes = [volume["projected"] for volume in spec.get("volumes", ()) if volume["name"] == name]
    return [item for volume in volumes for source in volume["sources"] for item in source["secret"]["items"]]


def test_a_service_logs_in_as_its_own_user() -> None:
    """Where the values name one; the others as the common one."""
    users = {
        part: next((v["value"] for v in container["env"] if v["name"] == "PACELINE_SASL_USERNAME"), None)
        for part, container in started("scram")
    }
    assert (users["streams"], users["ui"], users["topics"]) == ("paceline-streams", "paceline-page", "admin")
    assert users["control"] == users["alerts"] == "paceline"


def test_kafka_is_the_one_of_the_compose_file() -> None:
    """Image and properties; listeners, addresses, heap and folder are this one's own."""
    (pod,) = (pod_of(one) for one in case("default") if component(one) == "kafka" and pod_of(one))
    (container,) = containers(pod["spec"])  # type: ignore[index]
    theirs = compose.services()["kafka"]
    assert container["image"] == theirs.image
    own = {"KAFKA_LISTENERS", "KAFKA_ADVERTISED_LISTENERS", "KAFKA_LISTENER_SECURITY_PROTOCOL_MAP", "CLUSTER_ID"}
    own |= {"KAFKA_LOG_DIRS", "KAFKA_HEAP_OPTS"}
    secured = ("SSL", "SASL", "SCRAM")
    expected = {key: value for key, value in theirs.environ.items() if not any(word in key for word in secured)}
    held = {variable["name"]: variable["value"] for variable in container["env"]}
    assert {key: value for key, value in held.items() if key not in own} == {
        key: value for key, value in expected.items() if key not in own
    }


def test_kafkas_listeners_fit_together() -> None:
    """What others reach is one, advertised by the Service's name; the others stay in the container."""
    objects = case("default")
    (pod,) = (pod_of(one) for one in objects if component(one) == "kafka" and pod_of(one))
    held = {variable["name"]: variable["value"] for variable in pod["spec"]["containers"][0]["env"]}  # type: ignore[index]
    listeners = dict(one.split("://") for one in held["KAFKA_LISTENERS"].split(","))
    advertised = dict(one.split("://") for one in held["KAFKA_ADVERTISED_LISTENERS"].split(","))
    assert {name for name, place in listeners.items() if not place.startswith("localhost:")} == {"SERVICES"}
    assert advertised["SERVICES"] == "paceline-kafka.paceline.svc:9092"
    assert set(dict(one.split(":") for one in held["KAFKA_LISTENER_SECURITY_PROTOCOL_MAP"].split(","))) == set(
        listeners
    )
    (service,) = (one for one in objects if one["kind"] == "Service" and component(one) == "kafka")
    assert service["spec"]["ports"][0]["port"] == 9092
    for part, container in started("default"):
        brokers = [v["value"] for v in container["env"] if v["name"] == "PACELINE_BROKERS"]
        assert brokers == [advertised["SERVICES"]], part


def test_jobs_that_the_repository_shows_tell_the_charts_kafka() -> None:
    """By the address that it has in the release and namespace that the page installs."""
    (address,) = {
        variable["value"]
        for _, container in started("default")
        for variable in container["env"]
        if variable["name"] == "PACELINE_BROKERS"
    }
    folder = Path(__file__).parents[2] / "deploy" / "kubernetes"
    texts = {path.name: path.read_text() for path in folder.glob("*.yaml")}
    shown = {name: text for name, text in texts.items() if "paceline run" in text}
    assert len(shown) >= 3
    for name, text in shown.items():
        assert re.findall(r"PACELINE_BROKERS\s+value: (\S+)", text) == [address], name


def test_a_lost_and_found_of_the_disk_is_no_partition() -> None:
    """Kafka refuses folders that it does not know, and a new disk holds one: its own lies below the mount."""
    (pod,) = (pod_of(one) for one in case("default") if component(one) == "kafka" and pod_of(one))
    (container,) = containers(pod["spec"])  # type: ignore[index]
    held = {variable["name"]: variable["value"] for variable in container["env"]}
    (mount,) = container["volumeMounts"]
    assert Path(held["KAFKA_LOG_DIRS"]).parent == Path(mount["mountPath"])
