"""What the chart starts is what the services are: their commands, ports, health, settings, bounds and broker."""

import json
import re
from argparse import ArgumentParser
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import yaml
from fastapi import FastAPI

import archive.__main__
import collectors.options
import control.__main__
import forecaster.__main__
import streams.__main__
import ui.__main__
from control.api import app as control_app
from experiments.chart.pod_security import containers
from experiments.chart.render import (
    CHART,
    VALUES,
    ToolsError,
    case,
    cases,
    component,
    environment,
    pod_of,
    programs,
    started,
    template,
)
from experiments.twin import compose
from experiments.twin.__main__ import WEB
from forecaster.api import app as forecaster_app
from forecaster.api.executor import ForecastExecutor
from forecaster.memory import Memory
from paceline.alerts.target import of_url
from paceline.commands import alerts, doctor, topics
from paceline.delivery.publisher import SPOOL_BYTES
from paceline.health import Health
from paceline.settings import SETTINGS

pytestmark = pytest.mark.slow

ROOT = Path(__file__).parents[2]
#: What the downward API tells, and variables that are not ours.
DOWNWARD = {"spec.nodeName": "node-1", "status.podIP": "10.1.2.3"}
OTHERS = {"POD_IP", "NVIDIA_VISIBLE_DEVICES", "NVIDIA_DRIVER_CAPABILITIES", "OMP_NUM_THREADS"}
OTHERS |= {"AWS_ENDPOINT_URL", "AWS_SHARED_CREDENTIALS_FILE"}
DECLARED = {setting.name: setting for setting in SETTINGS}


@pytest.fixture(scope="module", autouse=True)
def _helm() -> None:
    try:
        programs()
    except ToolsError as error:
        pytest.skip(str(error))


def with_parser(parser: ArgumentParser) -> Callable[[list[str]], Any]:
    return parser.parse_args


#: A command -> what reads its options.
PARSERS: dict[str, Callable[[list[str]], Any]] = {
    "collect": lambda args: collectors.options.parse(args, {}),
    "streams": streams.__main__._parse,
    "forecaster": forecaster.__main__._parse,
    "control": control.__main__._parse,
    "archive": with_parser(archive.__main__.parser()),
    "ui": with_parser(ui.__main__.parser()),
    "alerts": with_parser(alerts.parser()),
    "topics": with_parser(topics.parser()),
    "doctor": with_parser(doctor.parser()),
    "annotate": lambda args: pytest.importorskip("annotator.__main__").parser().parse_args(args),
}


@pytest.mark.parametrize("name", cases())
def test_every_command_takes_its_options(name: str) -> None:
    """The parser of the command itself reads them; what it does not know would end the container."""
    for _, container in started(name):
        command, *options = container["args"]
        read = PARSERS[command](options)
        if command == "alerts":
            assert [of_url(address).shown for address in read.to]


@pytest.mark.parametrize("name", cases())
def test_ports_are_those_on_which_the_service_listens(name: str) -> None:
    for part, container in started(name):
        command, *options = container["args"]
        read = PARSERS[command](options)
        (port,) = (port["containerPort"] for port in container.get("ports", [{"containerPort": None}]))
        assert port == (getattr(read, "web_port", None) or getattr(read, "port", None)), part
        if port:
            assert (getattr(read, "web_address", None) or read.address) == "0.0.0.0", part
            assert port == WEB.get(part, port)


def served() -> dict[str, set[str]]:
    """Part -> the paths at which it tells its health."""
    health = Health(lambda: None, str, ["localhost"])
    own = {
        path for path in ("/healthz", "/readyz", "/metrics") if health.answer(path, {"host": "localhost"}).status == 200
    }
    asked = {
        "forecaster": paths(forecaster_app.application(ForecastExecutor(None, 1), Memory())),  # type: ignore[arg-type]
        "control": paths(control_app.application(control_app.Parts([], lambda: None, None))),  # type: ignore[arg-type]
        # Streamlit's own; that it answers is seen by `make helm-check`, and by the image's health check.
        "ui": {"/_stcore/health", "/_stcore/metrics"},
    }
    return {part: asked.get(part, own) for part in ("archive", "collectors", "streams", "alerts", "annotator", *asked)}


def paths(application: FastAPI) -> set[str]:
    return {getattr(route, "path", "") for route in application.routes}


@pytest.mark.parametrize("name", cases())
def test_probes_ask_for_what_is_served(name: str) -> None:
    """At the port of the container, alive by one path and ready by another; patient enough for a worker's start."""
    health = served()
    for part, container in started(name):
        if "ports" not in container:
            assert "livenessProbe" not in container, part
            continue
        probes = {kind: container[f"{kind}Probe"] for kind in ("startup", "readiness", "liveness")}
        for probe in probes.values():
            assert probe["httpGet"]["path"] in health[part], part
            assert probe["httpGet"]["port"] == container["ports"][0]["name"]
        assert probes["startup"]["httpGet"] == probes["liveness"]["httpGet"]
        if part != "ui":
            assert probes["readiness"]["httpGet"]["path"] == "/readyz"


def test_a_worker_that_waits_for_a_broker_is_not_killed() -> None:
    """It serves no health for as long as it waits, and ends by itself when it has waited long enough."""
    (container,) = (container for part, container in started("default") if part == "streams")
    wait_s = PARSERS["streams"](container["args"][1:]).wait
    for kind in ("startup", "liveness"):
        probe = container[f"{kind}Probe"]
        assert probe["periodSeconds"] * probe["failureThreshold"] > wait_s + 30


@pytest.mark.parametrize("name", cases())
def test_every_setting_is_declared_and_may_have_its_value(name: str) -> None:
    for part, container in started(name):
        environ = environment(container, DOWNWARD)
        for variable in environ:
            if not variable.startswith("PACELINE_"):
                assert variable in OTHERS
            elif not variable.endswith("_FILE"):
                DECLARED[variable].read(environ)
            else:
                assert variable in DECLARED
        names = [variable["name"] for variable in container["env"]]
        assert len(names) == len(set(names)), part


@pytest.mark.parametrize("name", cases())
def test_every_file_that_a_setting_names_is_mounted(name: str) -> None:
    """By a volume of the pod."""
    for one in case(name):
        pod = pod_of(one)
        if pod is None:
            continue
        (container,) = containers(pod["spec"])
        places = {mount["mountPath"]: mount["name"] for mount in container.get("volumeMounts", ())}
        volumes = [volume["name"] for volume in pod["spec"].get("volumes", ())]
        claims = [claim["metadata"]["name"] for claim in one["spec"].get("volumeClaimTemplates", ())]
        assert sorted(places.values()) == sorted([*volumes, *claims]), component(one)
        texts = [variable.get("value", "") for variable in container.get("env", ())] + container.get("args", [])
        for text in texts:
            if text.startswith(("/run/", "/var/")):
                assert any(text.startswith(place) for place in places), (component(one), text)


def test_bounds_are_those_of_the_compose_file() -> None:
    """Memory alone: a service that is short of CPU is slow, and says so by its lag."""
    found = compose.services("--profile", "*")
    told = json.loads(json.dumps(yaml.safe_load((CHART / "values.yaml").read_text())))
    said = {
        name: told[name]["resources"]
        for name in ("archive", "collectors", "streams", "forecaster", "control", "ui", "alerts")
    }
    said["kafka"] = told["kafka"]["bundled"]["resources"]
    bounds = compose._file("--profile", "*")["services"]
    assert set(said) <= set(found)
    for name, resources in said.items():
        number, unit = resources["limits"]["memory"][:-2], resources["limits"]["memory"][-2:]
        assert int(number) * {"Mi": 2**20, "Gi": 2**30}[unit] == int(bounds[name]["mem_limit"]), name
        assert "cpu" not in resources["limits"], name


@pytest.mark.parametrize("name", ["default", "scram", "everything"])
def test_a_service_answers_to_the_names_by_which_it_is_asked(name: str) -> None:
    """Those of its Service and of its ingress; others are refused, as everywhere."""
    objects = case(name)
    allowed = {part: env(container).get("PACELINE_ALLOWED_HOSTS", "").split(",") for part, container in started(name)}
    for one in objects:
        if one["kind"] == "Service" and component(one) != "kafka":
            assert one["metadata"]["name"] in allowed[component(one)]
            assert f"{one['metadata']['name']}.paceline.svc.cluster.local" in allowed[component(one)]
        if one["kind"] == "Ingress":
            assert {rule["host"] for rule in one["spec"]["rules"]} <= set(allowed["ui"])
    (page,) = (container for part, container in started(name) if part == "ui")
    host, port = env(page)["PACELINE_CONTROL_URL"].removeprefix("http://").split(":")
    assert host in allowed["control"]
    (service,) = (one for one in objects if one["kind"] == "Service" and component(one) == "control")
    assert (service["metadata"]["name"], service["spec"]["ports"][0]["port"]) == (host, int(port))


def env(container: dict[str, Any]) -> dict[str, str]:
    return environment(container, DOWNWARD)


def test_a_node_bears_the_name_that_kubernetes_gives_it() -> None:
    (collector,) = (container for part, container in started("default") if part == "collectors")
    (node,) = (variable for variable in collector["env"] if variable["name"] == "PACELINE_NODE")
    assert node["valueFrom"] == {"fieldRef": {"fieldPath": "spec.nodeName"}}


def test_a_collector_answers_the_kubelet_by_the_address_that_it_asks() -> None:
    """On the host's network, too, where a node has more than one."""
    for name in ("default", "everything"):
        (collector,) = (container for part, container in started(name) if part == "collectors")
        assert env(collector)["PACELINE_ALLOWED_HOSTS"] == DOWNWARD["status.podIP"]


@pytest.mark.parametrize("name", cases())
def test_pods_go_to_nodes_that_can_run_them(name: str) -> None:
    """Images are of Linux; what the values ask of a node holds as well."""
    for one in case(name):
        if pod := pod_of(one):
            assert pod["spec"]["nodeSelector"]["kubernetes.io/os"] == "linux", component(one)
    if name == "everything":
        (collector,) = (pod_of(one) for one in case(name) if one["kind"] == "DaemonSet")
        assert collector["spec"]["nodeSelector"]["nvidia.com/gpu.present"] == "true"  # type: ignore[index]


def test_what_there_is_one_of_is_never_there_twice() -> None:
    """The old one ends before the new one begins: both would publish, tell or write."""
    for one in case("everything"):
        if component(one) in ("forecaster", "alerts", "annotator") and one["kind"] == "Deployment":
            assert (one["spec"]["replicas"], one["spec"]["strategy"]) == (1, {"type": "Recreate"})
        if one["kind"] == "StatefulSet":
            assert one["spec"]["replicas"] == 1


def test_a_mail_server_s_login_comes_from_a_secret() -> None:
    """The password, as a file."""
    (pod,) = (pod_of(one) for one in case("everything") if component(one) == "alerts" and one["kind"] == "Deployment")
    assert pod is not None
    (container,) = pod["spec"]["containers"]
    told = {variable["name"]: variable for variable in container["env"]}
    assert told["PACELINE_SMTP_USERNAME"]["value"] == "paceline"
    path = Path(told["PACELINE_SMTP_PASSWORD_FILE"]["value"])
    (mount,) = (mount for mount in container["volumeMounts"] if Path(mount["mountPath"]) == path.parent)
    (volume,) = (volume for volume in pod["spec"]["volumes"] if volume["name"] == mount["name"])
    assert volume["secret"]["secretName"] == "mail-login"
    assert volume["secret"]["items"] == [{"key": "password", "path": path.name}]


def test_an_archive_in_a_bucket_has_no_disk() -> None:
    (pod,) = (one for one in case("everything") if one["kind"] == "StatefulSet" and component(one) == "archive")
    assert not pod["spec"].get("volumeClaimTemplates")
    (container,) = pod["spec"]["template"]["spec"]["containers"]
    assert container["args"][:3] == ["archive", "--to", "s3://training/paceline"]


@pytest.mark.parametrize("part", ["archive", "ui", "forecaster"])
def test_who_writes_and_reads_a_bucket_has_its_login_as_a_file(part: str) -> None:
    (pod,) = (pod_of(one) for one in case("everything") if pod_of(one) and component(one) == part)
    (container,) = pod["spec"]["containers"]
    told = {one["name"]: one.get("value") for one in container["env"]}
    assert (told["PACELINE_ARCHIVE"], told["AWS_ENDPOINT_URL"]) == (
        "s3://training/paceline",
        "https://s3.example.org:9000",
    )
    (mount,) = (one for one in container["volumeMounts"] if one["name"] == "bucket")
    assert told["AWS_SHARED_CREDENTIALS_FILE"] == f"{mount['mountPath']}/credentials"
    (volume,) = (one for one in pod["spec"]["volumes"] if one["name"] == "bucket")
    assert volume["secret"]["items"] == [{"key": "credentials", "path": "credentials"}]


def test_a_rollback_replaces_a_pod_that_never_got_ready() -> None:
    """In order it would be waited for, and has to be removed by hand."""
    sets = [one for one in case("everything") if one["kind"] == "StatefulSet"]
    assert {component(one) for one in sets} == {"archive", "control", "kafka"}
    assert {one["spec"]["podManagementPolicy"] for one in sets} == {"Parallel"}


def test_a_spool_has_room_for_what_a_collector_keeps() -> None:
    """The least that the schema allows, too: a full volume evicts the pod, and what waited is gone."""
    schema = json.loads((CHART / "values.schema.json").read_text())
    pattern = schema["properties"]["collectors"]["properties"]["spoolSize"]["pattern"]
    allowed = [mebibytes for mebibytes in range(1, 1200) if re.search(pattern, f"{mebibytes}Mi")]
    assert allowed == list(range(300, 1200))
    assert min(allowed) * 2**20 > SPOOL_BYTES


@pytest.mark.parametrize("name", ["bundled", "mtls"])
def test_a_scaler_alone_says_how_many_workers_there_are(name: str) -> None:
    """The Deployment says no number: an upgrade would set it back."""
    objects = case(name)
    (workers,) = (one for one in objects if one["kind"] == "Deployment" and component(one) == "streams")
    (scaler,) = (one for one in objects if one["kind"] in ("HorizontalPodAutoscaler", "ScaledObject"))
    assert "replicas" not in workers["spec"]
    assert scaler["spec"]["scaleTargetRef"]["name"] == workers["metadata"]["name"]
    assert (scaler["spec"].get("maxReplicas") or scaler["spec"]["maxReplicaCount"]) == 12


def test_the_job_of_the_topics_is_another_when_it_would_change() -> None:
    """A Job cannot be changed: its name follows what it runs, so that an upgrade makes a new one, and the same none."""

    def job(*options: str) -> dict[str, Any]:
        objects = template(4, *options, "--show-only", "templates/topics.yaml")
        return dict(objects[0])

    first, same = job(), job("--set", "streams.replicas=3")
    assert first == same
    for change in ("image.tag=2.0.0", "kafka.topics.wait=10", "clusterName=west", "podAnnotations.a=b"):
        other = job("--set", change)
        assert other["metadata"]["name"] != first["metadata"]["name"], change
    assert first["metadata"]["labels"]["app.kubernetes.io/name"] == "paceline-topics"
    # Its pods stay when it has given up: what they said is asked for then.
    assert first["spec"]["template"]["spec"]["restartPolicy"] == "Never"
    for one in case("everything"):
        hooks = one["metadata"].get("annotations", {}).get("helm.sh/hook")
        assert hooks in (None, "test")


def test_services_that_kubernetes_tells_of_are_no_settings() -> None:
    """KAFKA_PORT=tcp://... would be taken for a property of the broker."""
    for one in case("everything"):
        if pod := pod_of(one):
            assert pod["spec"]["enableServiceLinks"] is False, component(one)


def test_the_values_files_are_all_of_the_matrix() -> None:
    ways = {"default", "scram", "mtls", "oauth", "plain", "bundled", "strimzi", "everything", "nothing"}
    assert ways <= {path.stem for path in VALUES.glob("*.yaml")}
