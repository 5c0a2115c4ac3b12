"""What the chart says to operators: topics and users by our tables to Strimzi, rules, dashboards, and to KEDA."""

import json
from pathlib import Path
from typing import Any

import pytest
import yaml

from experiments.chart.pod_security import containers
from experiments.chart.render import ToolsError, case, component, pod_of, programs, template
from paceline import rights
from paceline.kafka.topic_admin import topic_configs
from paceline.topics import STREAMS_GROUP, TOPICS

pytestmark = pytest.mark.slow

ROOT = Path(__file__).parents[2]


@pytest.fixture(scope="module", autouse=True)
def _helm() -> None:
    try:
        programs()
    except ToolsError as error:
        pytest.skip(str(error))


def of_kind(name: str, *kinds: str) -> list[dict[str, Any]]:
    return [one for one in case(name) if one["kind"] in kinds]


@pytest.mark.parametrize(("name", "replicas"), [("strimzi", 3), ("strimzi-existing", 1)])
def test_topics_are_those_of_the_table(name: str, replicas: int) -> None:
    """Partitions, retention and compaction as `paceline topics create` makes them."""
    held = {one["spec"]["topicName"]: one["spec"] for one in of_kind(name, "KafkaTopic")}
    assert set(held) == {topic.name for topic in TOPICS}
    for topic in TOPICS:
        assert held[topic.name]["partitions"] == topic.partitions
        assert held[topic.name]["config"] == topic_configs(topic)
        assert held[topic.name]["replicas"] == replicas


@pytest.mark.parametrize("name", ["strimzi", "strimzi-existing"])
def test_users_have_the_rights_of_the_table(name: str) -> None:
    """Each service the least that it needs, as `paceline rights` says."""
    held = {one["metadata"]["name"]: one["spec"]["authorization"]["acls"] for one in of_kind(name, "KafkaUser")}
    assert set(held) == {f"paceline-{service}" for service in rights.SERVICES}
    for service in rights.SERVICES:
        told = {
            (acl["resource"]["type"], acl["resource"]["name"], acl["resource"]["patternType"], tuple(acl["operations"]))
            for acl in held[f"paceline-{service}"]
        }
        assert told == {
            (rule.resource, rule.name, "prefix" if rule.prefixed else "literal", rule.operations)
            for rule in rights.rules(service, "")
        }


def test_users_are_called_as_rights_call_them() -> None:
    """In a release named paceline; so the same ACLs hold with and without the operator."""
    names = {f"User:{one['metadata']['name']}" for one in of_kind("strimzi", "KafkaUser")}
    assert names == set(rights.default_principals().values())


@pytest.mark.parametrize("name", ["strimzi", "strimzi-existing"])
def test_every_service_logs_in_as_a_user_that_is_made(name: str) -> None:
    """With the password of that user's Secret, and the authority of that cluster."""
    cluster = {"strimzi": "paceline", "strimzi-existing": "events"}[name]
    users = {one["metadata"]["name"] for one in of_kind(name, "KafkaUser")}
    for one in case(name):
        if (pod := pod_of(one)) is None:
            continue
        (container,) = containers(pod["spec"])
        env = {variable["name"]: variable.get("value") for variable in container["env"]}
        assert env["PACELINE_SASL_USERNAME"] in users, component(one)
        assert env["PACELINE_BROKERS"] == f"{cluster}-kafka-bootstrap.paceline.svc:9093"
        (volume,) = (volume["projected"] for volume in pod["spec"]["volumes"] if volume["name"] == "kafka")
        secrets = {source["secret"]["name"] for source in volume["sources"]}
        assert secrets == {f"{cluster}-cluster-ca-cert", env["PACELINE_SASL_USERNAME"]}
    for one in of_kind(name, "KafkaUser", "KafkaTopic"):
        assert one["metadata"]["labels"]["strimzi.io/cluster"] == cluster


def test_kafka_of_the_operator_has_its_nodes_and_lets_in_by_rights_alone() -> None:
    (kafka,), (pool,) = of_kind("strimzi", "Kafka"), of_kind("strimzi", "KafkaNodePool")
    assert pool["metadata"]["labels"]["strimzi.io/cluster"] == kafka["metadata"]["name"]
    (listener,) = kafka["spec"]["kafka"]["listeners"]
    assert (listener["port"], listener["tls"], listener["authentication"]["type"]) == (9093, True, "scram-sha-512")
    assert kafka["spec"]["kafka"]["authorization"] == {"type": "simple"}
    assert kafka["spec"]["kafka"]["config"]["auto.create.topics.enable"] == "false"
    assert of_kind("strimzi-existing", "Kafka", "KafkaNodePool") == []


@pytest.mark.parametrize("name", ["strimzi", "strimzi-existing"])
def test_what_was_recorded_outlives_the_release(name: str) -> None:
    """And what it lies in: topics whose operator is gone can no longer be removed."""
    kept = of_kind(name, "Kafka", "KafkaNodePool", "KafkaTopic")
    assert kept
    for one in kept:
        assert one["metadata"]["annotations"]["helm.sh/resource-policy"] == "keep", one["kind"]
    for one in of_kind(name, "KafkaUser"):
        assert "annotations" not in one["metadata"]


@pytest.mark.parametrize("name", ["strimzi", "everything"])
def test_prometheus_gets_the_rules_that_were_tested(name: str) -> None:
    """Those that `promtool` has read, in the order of their groups."""
    told = {one["metadata"]["name"].rpartition("-")[2]: one["spec"] for one in of_kind(name, "PrometheusRule")}
    files = {path.stem: yaml.safe_load(path.read_text()) for path in (ROOT / "deploy/prometheus/rules").glob("*.yml")}
    assert told == files


@pytest.mark.parametrize(
    ("part", "gone"),
    [
        ("streams", {"PacelineStreamsDown", "PacelineCollectorUnread"}),
        ("forecaster", {"PacelineForecasterDown"}),
        ("control", {"PacelineControlDown"}),
    ],
)
def test_a_part_that_is_switched_off_is_not_missed(part: str, gone: set[str]) -> None:
    """Its alert would fire for ever, and one that asks whether it runs never; every other rule stays."""

    def rules(*options: str) -> set[str]:
        shown = ("--set", "monitoring.rules.enabled=true", "--show-only", "templates/monitoring.yaml")
        groups = [group for one in template(4, *shown, *options) for group in one["spec"]["groups"]]
        return {rule.get("alert") or rule["record"] for group in groups for rule in group["rules"]}

    assert rules() - rules("--set", f"{part}.enabled=false") == gone


@pytest.mark.parametrize("name", ["strimzi", "everything"])
def test_grafana_gets_the_dashboards_that_were_tested(name: str) -> None:
    """Where its sidecar looks for them."""
    told = {}
    for one in of_kind(name, "ConfigMap"):
        assert one["metadata"]["labels"]["grafana_dashboard"] == "1"
        told |= one["data"]
    files = {path.name: json.loads(path.read_text()) for path in (ROOT / "deploy/grafana/dashboards").glob("*.json")}
    assert {file: json.loads(text) for file, text in told.items()} == files
    assert all(len(text.encode()) < 2**20 for text in told.values())  # What a ConfigMap may hold.


@pytest.mark.parametrize("name", ["strimzi", "everything"])
def test_every_service_is_asked_for_its_metrics_under_the_name_that_rules_know(name: str) -> None:
    """At the port and path that the compose file's Prometheus asks, too."""
    jobs = yaml.safe_load((ROOT / "deploy/prometheus/prometheus.yml").read_text())["scrape_configs"]
    paths = {job["job_name"]: job.get("metrics_path", "/metrics") for job in jobs}
    paths["paceline-annotator"] = "/metrics"
    monitored = set()
    for one in of_kind(name, "ServiceMonitor", "PodMonitor"):
        (endpoint,) = one["spec"].get("endpoints") or one["spec"]["podMetricsEndpoints"]
        (relabeling,) = endpoint["relabelings"]
        job = relabeling["replacement"]
        assert (relabeling["targetLabel"], job) == ("job", f"paceline-{component(one)}")
        assert endpoint["path"] == paths[job]
        selector = one["spec"]["selector"]["matchLabels"]
        kind = "Service" if one["kind"] == "ServiceMonitor" else None
        meant = [
            each
            for each in case(name)
            if (each["kind"] == kind if kind else bool(pod_of(each)))
            and selector.items() <= (each if kind else pod_of(each))["metadata"]["labels"].items()  # type: ignore[index]
        ]
        assert [component(each) for each in meant] == [component(one)]
        monitored.add(component(one))
    running = {component(one) for one in case(name) if pod_of(one)} - {"kafka", "topics", "doctor"}
    assert monitored == running


def test_labels_by_which_an_operator_selects_are_on_what_it_reads() -> None:
    for one in of_kind("strimzi", "ServiceMonitor", "PodMonitor", "PrometheusRule"):
        assert one["metadata"]["labels"]["release"] == "kube-prometheus-stack"


@pytest.mark.parametrize("name", ["mtls", "oauth", "strimzi"])
def test_keda_scales_by_the_workers_group_and_logs_in_as_they_do(name: str) -> None:
    (scaler,), (login,) = of_kind(name, "ScaledObject"), of_kind(name, "TriggerAuthentication")
    (trigger,) = scaler["spec"]["triggers"]
    assert trigger["metadata"]["consumerGroup"] == STREAMS_GROUP
    assert trigger["authenticationRef"]["name"] == login["metadata"]["name"]
    (workers,) = (one for one in of_kind(name, "Deployment") if component(one) == "streams")
    (container,) = containers(workers["spec"]["template"]["spec"])
    env = {variable["name"]: variable.get("value") for variable in container["env"]}
    assert trigger["metadata"]["bootstrapServers"] == env["PACELINE_BROKERS"]
    asked = {(ref["name"], ref["key"]) for ref in login["spec"]["secretTargetRef"]}
    (made,) = of_kind(name, "Secret")
    own = {(made["metadata"]["name"], key) for key in made["stringData"]}
    assert own <= asked
    volumes = [v["projected"] for v in workers["spec"]["template"]["spec"]["volumes"] if v["name"] == "kafka"]
    held = {(s["secret"]["name"], i["key"]) for v in volumes for s in v["sources"] for i in s["secret"]["items"]}
    assert asked - own <= held
    expected = {"mtls": ("none", "enable"), "oauth": ("oauthbearer", "enable"), "strimzi": ("scram_sha512", "enable")}
    assert (made["stringData"]["sasl"], made["stringData"]["tls"]) == expected[name]
