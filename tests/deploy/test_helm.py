"""The Helm chart, rendered by Helm 3 and 4 with each values file of tests/deploy/helm: whole, valid, and one of many.

What is published is asked: Helm's own linter, and the schemas of Kubernetes 1.28 to 1.37.
"""

import json
import re
from functools import cache
from pathlib import Path
from typing import Any

import jsonschema
import kubernetes_validate
import pytest
import referencing
import yaml

from experiments.chart.render import CHART, VALUES, ToolsError, case, cases, component, helm, pod_of, programs, template

pytestmark = pytest.mark.slow

SCHEMAS = Path(kubernetes_validate.__file__).parent / "kubernetes-json-schema"
KUBERNETES = [f"1.{minor}" for minor in range(28, 38)]
HELMS = (3, 4)
#: Kinds of operators, for which Kubernetes has no schema (tests/deploy/test_helm_operators.py, `make helm-check`).
OPERATORS = ("monitoring.coreos.com/", "kafka.strimzi.io/", "keda.sh/")


@pytest.fixture(scope="module", autouse=True)
def _helm() -> None:
    try:
        programs()
    except ToolsError as error:
        pytest.skip(str(error))


@cache
def validator(version: str, kind: str, api_version: str) -> jsonschema.Draft202012Validator:
    """What a cluster of that version takes of that kind; unknown fields are refused."""
    folder = SCHEMAS / f"v{version}.0-local-strict"
    group, _, number = api_version.rpartition("/")
    name = "-".join([kind.lower(), *filter(None, [group.split(".")[0]]), number])
    schema = json.loads((folder / f"{name}.json").read_text())
    return jsonschema.Draft202012Validator(schema, registry=definitions(version))


@cache
def definitions(version: str) -> Any:
    contents = json.loads((SCHEMAS / f"v{version}.0-local-strict" / "_definitions.json").read_text())
    resource = referencing.Resource.from_contents(contents, referencing.jsonschema.DRAFT202012)
    return referencing.Registry().with_resource("_definitions.json", resource).crawl()


def distinct() -> list[dict[str, Any]]:
    """Every object of every case that differs from all others, but those of operators."""
    made = {json.dumps(one, sort_keys=True): one for name in cases() for one in case(name)}
    return [one for one in made.values() if not one["apiVersion"].startswith(OPERATORS)]


@pytest.mark.parametrize("version", HELMS)
@pytest.mark.parametrize("name", cases())
def test_the_linter_has_nothing_to_say(name: str, version: int) -> None:
    done = helm(version, "lint", "--strict", "--values", VALUES / f"{name}.yaml", CHART)
    assert done.returncode == 0, done.stdout + done.stderr
    assert "[WARNING]" not in done.stdout


@pytest.mark.parametrize("name", cases())
def test_both_helms_make_the_same_of_it(name: str) -> None:
    assert case(name, 3) == case(name, 4)


@pytest.mark.parametrize("version", KUBERNETES)
def test_kubernetes_takes_every_object(version: str) -> None:
    """By its published schema; a field that it does not know is refused."""
    wrong = [
        f"{one['kind']}/{one['metadata']['name']}: {'.'.join(map(str, error.path))}: {error.message}"
        for one in distinct()
        for error in validator(version, one["kind"], one["apiVersion"]).iter_errors(one)
    ]
    assert wrong == []


def test_a_wrong_object_is_found() -> None:
    """The check above can fail: a field that is not there, and a number where text must be."""
    (deployment,) = (one for one in case("default") if one["kind"] == "Deployment" and component(one) == "ui")
    broken = json.loads(json.dumps(deployment))
    broken["spec"]["template"]["spec"]["containers"][0]["livenessprobe"] = {}
    broken["spec"]["template"]["spec"]["containers"][0]["env"][0]["value"] = 9092
    errors = list(validator("1.37", "Deployment", "apps/v1").iter_errors(broken))
    assert len(errors) == 2


def test_the_chart_is_packed_whole(tmp_path: Path) -> None:
    """What is installed from the package is what is installed from the folder."""
    for version in HELMS:
        done = helm(version, "package", CHART, "--destination", tmp_path / str(version))
        assert done.returncode == 0, done.stderr
        (package,) = (tmp_path / str(version)).iterdir()
        assert package.name == "paceline-0.1.0.tgz"
        values = ("--namespace", "paceline", "--values", str(VALUES / "everything.yaml"))
        told = helm(version, "template", "paceline", package, *values)
        assert [one for one in yaml.safe_load_all(told.stdout) if one] == list(case("everything", version))


@pytest.mark.parametrize("name", cases())
def test_notes_say_what_is_there(name: str) -> None:
    """Every Service and Deployment that the notes name exists; brokers are those of the services."""
    values = ("--namespace", "paceline", "--values", VALUES / f"{name}.yaml")
    done = helm(4, "install", "paceline", CHART, *values, "--dry-run=client")
    assert done.returncode == 0, done.stderr
    notes = done.stdout.partition("\nNOTES:\n")[2]
    there = {(one["kind"].lower(), one["metadata"]["name"]) for one in case(name)}
    assert set(re.findall(r"\b(service|deployment)/([\w-]+)", notes)) <= there
    (brokers,) = re.findall(r"PACELINE_BROKERS=(\S+)", notes)
    told = {
        variable["value"]
        for one in case(name)
        if (pod := pod_of(one))
        for variable in pod["spec"]["containers"][0]["env"]
        if variable["name"] == "PACELINE_BROKERS"
    }
    assert told <= {brokers}


def test_notes_say_that_rules_alone_ask_nobody() -> None:
    """They would tell of services that are down where nothing asks them."""

    def notes(*options: str) -> str:
        done = helm(
            4, "install", "paceline", CHART, "--dry-run=client", "--set", "monitoring.rules.enabled=true", *options
        )
        assert done.returncode == 0, done.stderr
        return done.stdout.partition("\nNOTES:\n")[2]

    assert "without monitors" in notes()
    assert "without monitors" not in notes("--set", "monitoring.monitors.enabled=true")


def test_nothing_switched_on_is_nothing() -> None:
    assert case("nothing") == ()


@pytest.mark.landing
def test_every_part_has_its_switch() -> None:
    """Switched off, nothing of it is left: no account, no policy, no way in."""
    for name in ("collectors", "streams", "forecaster", "control", "archive", "ui", "alerts", "annotator"):
        left = template(4, "--values", str(VALUES / "everything.yaml"), "--set", f"{name}.enabled=false")
        assert name in {component(one) for one in case("everything")}
        assert name not in {component(one) for one in left}


def identity(one: dict[str, Any]) -> tuple[str, str, str]:
    return one["kind"], one["metadata"].get("namespace", ""), one["metadata"]["name"]


@pytest.mark.parametrize("name", cases())
def test_names_are_given_once(name: str) -> None:
    assert len({identity(one) for one in case(name)}) == len(case(name))


LONG = ["x" * 53, f"{'x' * 40}.{'y' * 12}"]
ODD = [*LONG, "a", "1st", "a.b", "paceline", "9.9.9", "my-paceline-2", "123", "on", "1e3", "null"]


@pytest.mark.parametrize("release", ODD)
def test_whatever_a_release_is_called_its_names_are_allowed(release: str) -> None:
    """Services begin with a letter; with what controllers add, names and labels fit into 63 characters."""
    values = ("--values", str(VALUES / "everything.yaml"), "--set", "fullnameOverride=")
    for one in template(4, *values, release=release):
        kind, _, name = identity(one)
        if kind == "Service":
            assert jsonschema.Draft202012Validator({"pattern": "^[a-z]([-a-z0-9]{0,61}[a-z0-9])?$"}).is_valid(name)
        if pod_of(one):  # Controllers add a hash, or a number; that of a StatefulSet becomes a label with its name.
            assert len(name) <= (52 if kind == "StatefulSet" else 57), name
        for value in one["metadata"]["labels"].values():
            assert len(value) <= 63, value


@pytest.mark.parametrize("name", ["scram", "strimzi", "everything"])
def test_what_looks_like_a_number_or_a_switch_stays_text(name: str) -> None:
    """In selectors, references and policies, too: YAML would read 123 and on otherwise."""
    options = ("--values", str(VALUES / f"{name}.yaml"), "--set-string", "kafka.strimzi.cluster=on")
    names = r'"(app\.kubernetes\.io/instance|namespace|strimzi\.io/cluster|name|secretName)": (?!")'
    for release in ("123", "on"):
        for one in template(4, *options, release=release, namespace="456"):
            assert re.search(names, json.dumps(one)) is None, identity(one)
            if not one["apiVersion"].startswith(OPERATORS):
                assert list(validator("1.37", one["kind"], one["apiVersion"]).iter_errors(one)) == [], identity(one)


@pytest.mark.parametrize(
    ("one", "other", "spaces"),
    [
        ("blue", "green", ("ml", "ml")),
        ("a.b", "a-b", ("ml", "ml")),
        ("x" * 53, "x" * 52 + "y", ("ml", "ml")),
        ("same", "same", ("one", "two")),
        ("b-c", "c", ("a", "a-b")),
    ],
)
def test_two_releases_share_nothing(one: str, other: str, spaces: tuple[str, str]) -> None:
    """No name, and no pod: in one namespace or in two, objects of the whole cluster with them."""
    values = ("--values", str(VALUES / "everything.yaml"), "--set", "fullnameOverride=")
    first = template(4, *values, release=one, namespace=spaces[0])
    second = template(4, *values, release=other, namespace=spaces[1])
    assert {identity(each) for each in first}.isdisjoint(identity(each) for each in second)
    if spaces[0] == spaces[1]:
        for left in selectors(first):
            assert not any(left.items() <= pod.items() for pod in labels_of_pods(second)), left


def selectors(objects: list[dict[str, Any]]) -> list[dict[str, str]]:
    """Every selector of labels that says which pods are meant."""
    found = []
    for one in objects:
        said = one.get("spec", {}).get("selector") or {}
        if said:
            found.append(said.get("matchLabels", said))
        if one["kind"] == "NetworkPolicy":
            found.append(one["spec"]["podSelector"]["matchLabels"])
    return found


def labels_of_pods(objects: list[dict[str, Any]]) -> list[dict[str, str]]:
    return [pod["metadata"]["labels"] for one in objects if (pod := pod_of(one))]


@pytest.mark.parametrize("name", cases())
def test_a_selector_means_the_pods_of_one_part(name: str) -> None:
    """By name and release alone, which no value and no version changes."""
    pods = labels_of_pods(list(case(name)))
    for selector in selectors(list(case(name))):
        assert set(selector) == {"app.kubernetes.io/name", "app.kubernetes.io/instance"}
        meant = [pod["app.kubernetes.io/component"] for pod in pods if selector.items() <= pod.items()]
        assert len(meant) == 1, (selector, meant)


def test_no_value_and_no_version_changes_a_selector_or_a_claim(tmp_path: Path) -> None:
    """An upgrade that changed one would be refused by the cluster."""

    def fixed(objects: Any) -> dict[Any, Any]:
        held = {}
        for one in objects:
            spec = one.get("spec", {})
            if one["kind"] in ("Deployment", "DaemonSet", "StatefulSet"):
                claims = [claim["metadata"] for claim in spec.get("volumeClaimTemplates", ())]
                held[one["kind"], component(one)] = (spec["selector"], spec.get("serviceName"), claims)
        return held

    newer = tmp_path / "paceline"
    subset = {
        ("StatefulSet", "archive"),
        ("StatefulSet", "control"),
        ("StatefulSet", "kafka"),
        ("Deployment", "streams"),
        ("DaemonSet", "collectors"),
    }
    done = helm(4, "package", CHART, "--version", "9.9.9", "--app-version", "9.9.9", "--destination", newer)
    assert done.returncode == 0, done.stderr
    (package,) = newer.iterdir()
    options = ("--set", "commonLabels.team=x,nameOverride=,clusterName=y,image.tag=z", "--namespace", "paceline")
    told = helm(4, "template", "paceline", package, *options)
    after = fixed(one for one in yaml.safe_load_all(told.stdout) if one)
    assert subset <= set(after)
    assert after == fixed(case("default"))


@pytest.mark.parametrize("name", cases())
def test_every_object_says_whose_it_is(name: str) -> None:
    for one in case(name):
        labels = one["metadata"]["labels"]
        assert labels["app.kubernetes.io/part-of"] == "paceline"
        assert labels["app.kubernetes.io/instance"] == "paceline"
        assert labels["app.kubernetes.io/managed-by"] == "Helm"
        assert labels["helm.sh/chart"] == "paceline-0.1.0"


def test_labels_and_annotations_of_ones_own_are_on_every_object_and_pod() -> None:
    for one in case("everything"):
        assert one["metadata"]["labels"]["team"] == "ml-platform", identity(one)
        pod = pod_of(one)
        if pod and component(one) != "kafka" and one["kind"] != "Pod":
            assert pod["metadata"]["annotations"] == {"example.org/owner": "ml-platform"}, identity(one)
