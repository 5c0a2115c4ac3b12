"""What the chart's pods may do: restricted by the published standard, rights that are listed, secrets by file alone."""

import json
from collections.abc import Iterator
from typing import Any

import pytest

from experiments.chart.pod_security import baseline, containers, restricted
from experiments.chart.render import ToolsError, case, cases, component, pod_of, programs, template
from paceline.settings import SETTINGS

pytestmark = pytest.mark.slow

#: What a value lets a collector have beyond a restricted pod.
REASONED = {"hostPath pod-resources", "the pod runs as root", "collectors may run as root", "hostPID", "hostNetwork"}
SECRET = {setting.name for setting in SETTINGS if setting.secret and not setting.name.endswith("_FILE")}


@pytest.fixture(scope="module", autouse=True)
def _helm() -> None:
    try:
        programs()
    except ToolsError as error:
        pytest.skip(str(error))


def pods(name: str) -> list[tuple[str, dict[str, Any]]]:
    """Part -> the spec of its pods."""
    return [(component(one), pod["spec"]) for one in case(name) if (pod := pod_of(one))]


@pytest.mark.parametrize("name", cases())
def test_every_pod_but_the_collectors_is_restricted(name: str) -> None:
    for part, spec in pods(name):
        if part != "collectors":
            assert restricted(spec) == [], part


@pytest.mark.parametrize("name", cases())
def test_a_collector_has_no_more_than_its_values_say(name: str) -> None:
    """No capability, no privilege and no writable root even where it is root."""
    for part, spec in pods(name):
        if part == "collectors":
            assert set(restricted(spec)) <= REASONED


def test_without_what_needs_more_a_collector_is_restricted() -> None:
    """Its namespace may then enforce the standard on all of Paceline."""
    (collector,) = (spec for part, spec in pods("bundled") if part == "collectors")
    assert restricted(collector) == []


def test_each_value_opens_what_it_is_for() -> None:
    """And nothing else."""
    closed = ("--set", "collectors.podResources.enabled=false")
    opens = {
        "collectors.hostPID=true": {"hostPID"},
        "collectors.hostNetwork=true": {"hostNetwork"},
        "collectors.podResources.enabled=true": {
            "hostPath pod-resources",
            "the pod runs as root",
            "collectors may run as root",
        },
    }
    for value, broken in opens.items():
        objects = template(4, *closed, "--set", value, "--show-only", "templates/collectors.yaml")
        assert set(restricted(pod_of(objects[0])["spec"])) == broken, value  # type: ignore[index]


def test_the_kubelets_folder_is_only_read() -> None:
    (collector,) = (spec for part, spec in pods("default") if part == "collectors")
    mounts = {mount["name"]: mount for one in containers(collector) for mount in one["volumeMounts"]}
    assert mounts["pod-resources"]["readOnly"] is True
    (volume,) = (volume for volume in collector["volumes"] if "hostPath" in volume)
    assert volume["hostPath"] == {"path": "/var/lib/kubelet/pod-resources", "type": "Directory"}


@pytest.mark.parametrize("name", cases())
def test_only_kafkas_image_may_write_its_root(name: str) -> None:
    for part, spec in pods(name):
        for one in containers(spec):
            assert one["securityContext"]["readOnlyRootFilesystem"] is (part != "kafka"), part


@pytest.mark.parametrize("name", cases())
def test_only_the_annotator_is_given_a_token(name: str) -> None:
    for part, spec in pods(name):
        assert spec["automountServiceAccountToken"] is (part == "annotator"), part
    for one in case(name):
        if one["kind"] == "ServiceAccount":
            assert one["automountServiceAccountToken"] is False


@pytest.mark.parametrize("name", cases())
def test_every_pod_runs_under_its_own_account(name: str) -> None:
    """One that the chart makes, too."""
    accounts = {one["metadata"]["name"]: component(one) for one in case(name) if one["kind"] == "ServiceAccount"}
    for part, spec in pods(name):
        if part != "doctor":  # `helm test` looks as a worker does.
            assert accounts[spec["serviceAccountName"]] == part


@pytest.mark.parametrize("name", cases())
def test_no_secret_is_in_an_environment_an_argument_or_an_object(name: str) -> None:
    """Secrets are files out of Secrets that exist; the one that is made holds names and addresses."""
    for part, spec in pods(name):
        for one in containers(spec):
            for variable in one.get("env", ()):
                assert variable["name"] not in SECRET, part
                assert "secretKeyRef" not in variable.get("valueFrom", {}), part
            assert not one.get("envFrom"), part
            assert not any(word in argument for argument in one.get("args", ()) for word in ("password", "token=")), (
                part
            )
    for one in case(name):
        if one["kind"] == "Secret":
            assert set(one["stringData"]) <= {"sasl", "tls", "username", "oauthTokenEndpointUri", "scopes"}


@pytest.mark.parametrize("name", cases())
def test_secrets_are_read_by_the_pods_user_alone(name: str) -> None:
    """And only those keys are mounted that the part uses."""
    for part, spec in pods(name):
        for volume in spec.get("volumes", ()):
            said = volume.get("secret") or volume.get("projected")
            if said:
                assert said["defaultMode"] == 0o440, part
                for source in said.get("sources", [{"secret": said}]):
                    assert source["secret"]["items"], part


#: Files that a service reads at a fixed place.
FIXED = {("ui", "secrets.toml")}


@pytest.mark.parametrize("name", cases())
def test_a_part_mounts_the_secrets_that_it_reads_and_no_other(name: str) -> None:
    """Each file out of a Secret is named by the environment or the arguments of the container that mounts it."""
    for part, spec in pods(name):
        if part == "kafka":
            continue
        files = {volume["name"]: set(_secret_files(volume)) for volume in spec.get("volumes", ())}
        mounted: set[str] = set()
        for container in containers(spec):
            read = json.dumps([container.get("env"), container.get("args"), container.get("command")])
            for mount in container.get("volumeMounts", ()):
                for path in files.get(mount["name"], ()):
                    mounted.add(mount["name"])
                    assert f"{mount['mountPath']}/{path}" in read or (part, path) in FIXED, (part, path)
        assert {volume for volume, held in files.items() if held} == mounted, part


def _secret_files(volume: dict[str, Any]) -> Iterator[str]:
    held = volume.get("secret") or volume.get("projected") or {}
    for source in held.get("sources", [{"secret": held}]):
        yield from (item["path"] for item in source.get("secret", {}).get("items", ()))


def test_tokens_go_to_those_who_ask_and_those_who_are_asked() -> None:
    """Control's to the page, too; the page's and the forecaster's to nobody else."""
    held = {
        part: {
            item["path"]
            for volume in spec["volumes"]
            if volume["name"] == "tokens"
            for item in volume["secret"]["items"]
        }
        for part, spec in pods("scram")
    }
    assert {part: names for part, names in held.items() if names} == {
        "control": {"control.token"},
        "forecaster": {"forecaster.token"},
        "ui": {"ui.token", "control.token"},
    }


@pytest.mark.parametrize("name", cases())
def test_nothing_is_reachable_from_outside_but_what_was_asked_for(name: str) -> None:
    """Services are of the cluster; an Ingress leads to the page alone."""
    for one in case(name):
        if one["kind"] == "Service":
            assert one["spec"]["type"] == "ClusterIP"
        if one["kind"] == "Ingress":
            backends = [
                path["backend"]["service"]["name"] for rule in one["spec"]["rules"] for path in rule["http"]["paths"]
            ]
            assert [backend.rpartition("-")[2] for backend in backends] == ["ui"]
    kinds = [one["kind"] for one in case(name)]
    assert ("Ingress" in kinds) == (name in ("scram", "everything"))
    for _, spec in pods(name):
        assert not [broken for broken in baseline(spec) if broken.startswith("hostPort")]


def rules(*options: str) -> dict[tuple[str, str], set[str]]:
    """(API group, resource) -> what the annotator may do."""
    objects = template(4, "--set", "annotator.enabled=true", *options, "--show-only", "templates/annotator.yaml")
    (role,) = (one for one in objects if one["kind"] == "ClusterRole")
    held = [
        ((group, resource), set(rule["verbs"]))
        for rule in role["rules"]
        for group in rule["apiGroups"]
        for resource in rule["resources"]
    ]
    assert len(dict(held)) == len(held)
    return dict(held)


def needed(**asked: bool) -> dict[tuple[str, str], set[str]]:
    """The same, as the annotator's own table has it."""
    access, owners = pytest.importorskip("annotator.access"), pytest.importorskip("annotator.owners")
    told = access.rules(frozenset(owners.KINDS), **asked)
    return {(rule.group, resource): set(rule.verbs) for rule in told for resource in rule.resources}


def test_the_annotator_may_do_what_it_needs() -> None:
    """No more and no less; the status of nodes only where that was switched on."""
    assert rules() == needed()
    assert rules("--set", "annotator.nodeCondition=true") == needed(conditions=True)


def test_the_annotator_deletes_nothing_and_reads_no_secret() -> None:
    for (_, resource), verbs in rules("--set", "annotator.nodeCondition=true").items():
        assert verbs <= {"get", "list", "watch", "patch", "create"}
        assert "create" not in verbs or resource == "events"
        assert resource not in ("secrets", "configmaps", "*", "pods/exec")


def test_kinds_of_owners_are_added_by_the_value() -> None:
    added = '[{"group":"example.org","kind":"TrainingRun","resource":"trainingruns"}]'
    held = rules("--set-json", f"annotator.owners={added}")
    assert held == needed() | {("example.org", "trainingruns"): {"get", "patch"}}


def test_kinds_that_are_added_leave_those_that_are_known() -> None:
    """Named alone they would be all of them; the core group is called `core`, and is no group to the API."""
    owners = pytest.importorskip("annotator.owners")
    read = pytest.importorskip("annotator.__main__").parser().parse_args
    added = '[{"group":"core","kind":"ReplicationController","resource":"replicationcontrollers"}]'
    assert rules("--set-json", f"annotator.owners={added}")["", "replicationcontrollers"] == {"get", "patch"}
    objects = template(4, "--set", "annotator.enabled=true", "--set-json", f"annotator.owners={added}")
    (pod,) = (pod_of(one) for one in objects if component(one) == "annotator" and pod_of(one))
    (container,) = containers(pod["spec"])  # type: ignore[index]
    told = read(container["args"][1:]).owner
    assert {kind for kinds in told for kind in kinds} == {*owners.KINDS, ("", "ReplicationController")}


@pytest.mark.parametrize("name", cases())
def test_only_the_annotator_has_rights_in_the_cluster(name: str) -> None:
    kinds = ("Role", "ClusterRole", "RoleBinding", "ClusterRoleBinding")
    held = [one for one in case(name) if one["kind"] in kinds]
    assert {component(one) for one in held} <= {"annotator"}
    assert bool(held) == (name == "everything")
    for one in held:
        for subject in one.get("subjects", ()):
            assert (subject["kind"], subject["name"], subject["namespace"]) == (
                "ServiceAccount",
                "watch-annotator",
                "paceline",
            )


def policies(name: str) -> dict[str, dict[str, Any]]:
    return {component(one): one["spec"] for one in case(name) if one["kind"] == "NetworkPolicy"}


@pytest.mark.parametrize("name", [name for name in cases() if name != "nothing"])
def test_every_part_has_a_policy_for_both_ways(name: str) -> None:
    parts = {part for part, _ in pods(name)} - {"doctor"}
    assert set(policies(name)) == parts
    assert all(spec["policyTypes"] == ["Ingress", "Egress"] for spec in policies(name).values())


@pytest.mark.parametrize("name", [name for name in cases() if name != "nothing"])
def test_who_may_reach_a_part_is_named(name: str) -> None:
    """Nobody reaches it from everywhere, and none but on a port at which it answers."""
    served = {
        part: {port["containerPort"] for one in containers(spec) for port in one.get("ports", ())}
        for part, spec in pods(name)
    }
    for part, spec in policies(name).items():
        for rule in spec["ingress"]:
            assert rule["from"], part
            assert {port["port"] for port in rule["ports"]} <= served[part], part


def test_the_page_reaches_control_and_nobody_else_does() -> None:
    asked = [rule for rule in policies("scram")["control"]["ingress"] if "podSelector" in rule["from"][0]]
    (rule,) = asked
    assert rule["from"] == [
        {
            "podSelector": {
                "matchLabels": {"app.kubernetes.io/name": "paceline-ui", "app.kubernetes.io/instance": "paceline"}
            }
        }
    ]
    out = {
        part: [port["port"] for rule in spec["egress"] for port in rule["ports"]]
        for part, spec in policies("scram").items()
    }
    assert {part for part, ports in out.items() if 8002 in ports} == {"ui"}


@pytest.mark.parametrize(
    ("name", "ports"), [("scram", {9093, 9094}), ("plain", {9092}), ("oauth", {9093, 8443}), ("strimzi", {9093})]
)
def test_what_a_worker_may_reach_are_names_the_brokers_and_their_issuer(name: str, ports: set[int]) -> None:
    out = policies(name)["streams"]["egress"]
    assert {port["port"] for rule in out for port in rule["ports"]} == {53} | ports


def test_further_ports_are_open_to_the_part_that_the_value_names() -> None:
    """A Service's port is not its pod's, by which many plugins judge; to nobody else."""
    out = {
        part: {port["port"] for rule in spec["egress"] for port in rule["ports"]}
        for part, spec in policies("everything").items()
    }
    assert {part for part, ports in out.items() if 8443 in ports} == {"ui"}
    assert {part for part, ports in out.items() if 9444 in ports} == {"collectors"}
    assert 9400 in out["collectors"]


def test_one_broker_in_the_clear_lets_in_who_scales_the_workers() -> None:
    """Only where it does: KEDA asks the brokers from its own namespace."""

    def spaces(*options: str) -> list[str]:
        objects = template(4, *options, "--show-only", "templates/policies.yaml")
        (policy,) = (one["spec"] for one in objects if component(one) == "kafka")
        peers = [peer for rule in policy["ingress"] for peer in rule["from"] if "namespaceSelector" in peer]
        return [peer["namespaceSelector"]["matchLabels"]["kubernetes.io/metadata.name"] for peer in peers]

    assert spaces() == []
    assert spaces("--set", "streams.keda.enabled=true") == ["keda"]
    assert spaces("--set", "streams.keda.enabled=true,streams.keda.namespace=scalers") == ["scalers"]
    assert spaces("--set", "streams.keda.enabled=true,streams.enabled=false") == []


def test_one_broker_in_the_clear_lets_in_whom_the_value_names() -> None:
    (rule,) = policies("bundled")["kafka"]["ingress"]
    assert rule["from"][1:] == [{"namespaceSelector": {"matchLabels": {"kubernetes.io/metadata.name": "training"}}}]
    assert policies("bundled")["kafka"]["egress"] == []
