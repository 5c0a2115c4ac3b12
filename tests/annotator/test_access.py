"""What the annotator is allowed is what it does: no right is missing, and none is too many."""

from typing import Any

import pytest
import yaml

from annotator.__main__ import main
from tests.annotator.world import World, device_samples, held_by, job, node_described, profile
from tests.derived_events import finding

OPTIONS = ("--owner", "known", "--owner", "example.org/TrainingRun", "--node-condition", "--propose-taints")
NEEDED = {("", "nodes"), ("", "pods"), ("", "nodes/status"), ("events.k8s.io", "events"), ("batch", "jobs")}
NEEDED |= {("example.org", "trainingruns"), ("apps", "replicasets"), ("apps", "deployments")}


def role(capsys: pytest.CaptureFixture[str], *options: str) -> list[dict[str, Any]]:
    assert main(["--print-role", *options]) == 0
    told = yaml.safe_load(capsys.readouterr().out)
    assert (told["kind"], told["metadata"]["name"]) == ("ClusterRole", "paceline-annotator")
    return list(told["rules"])


def rounds(world: World) -> None:
    """All that an annotator does: a Deployment's pod, a Job's and a TrainingRun's, findings that go on and recover."""
    world.node()
    world.api.install("example.org", "v1", "TrainingRun", "trainingruns")
    world.owner("Job", "a")
    world.owner("TrainingRun", "b")
    world.owner("Deployment", "c")
    world.owner("ReplicaSet", "c-1", ("Deployment", "c"))
    for name, owner in (("a", ("Job", "a")), ("b", ("TrainingRun", "b")), ("c", ("ReplicaSet", "c-1"))):
        world.pod(name, owner=owner)
    pods = held_by("node-1", "a", [0]) + held_by("node-1", "b", [1]) + held_by("node-1", "c", [2])
    made = world.annotator(*OPTIONS, token="role").list()
    told = finding(cluster="default", ranks=[], first_step=-1, devices=["GPU-node-1-0"], severity="critical")
    made.hear(node_described(pods=pods), device_samples(), job(pod="a", gpus=[0]), profile(), told).turns(10)
    world.now_s += 1900
    made.hear(device_samples(at_s=world.now_s)).turns(10)
    for watcher in made.parts.watchers:
        made.parts.api.watch(*_watched(watcher)).close()  # type: ignore[attr-defined]


def _watched(watcher: Any) -> tuple[Any, ...]:
    return watcher._resource, "", {"resourceVersion": "", "timeoutSeconds": 1}


@pytest.mark.long
def test_the_printed_role_is_enough(world: World, capsys: pytest.CaptureFixture[str]) -> None:
    world.api.rules = {"role": role(capsys, *OPTIONS)}
    rounds(world)
    assert [line for line in world.said if "proposed, and not done: kubectl taint" not in line] == []
    for kind, name, namespace in (
        ("Node", "node-1", ""),
        ("Pod", "a", "ml"),
        ("Job", "a", "ml"),
        ("TrainingRun", "b", "ml"),
    ):
        assert "gpu-use" in world.api.annotations(kind, name, namespace)
    assert "gpu-use" in world.api.annotations("Deployment", "c", "ml")
    assert len(world.api.all("Event")) == 1


def test_no_right_is_too_many(world: World, capsys: pytest.CaptureFixture[str]) -> None:
    """Each verb on each resource that is in this cluster is used; the others are for kinds that are not."""
    rules = role(capsys, *OPTIONS)
    world.api.rules = {"role": rules}
    used: set[tuple[str, str, str]] = set()
    kept = world.api._allow

    def noting(verb: str, kind: Any, namespace: str, name: str, sub: str, token: str) -> None:
        used.add((kind.group, f"{kind.plural}/{sub}" if sub else kind.plural, verb))
        kept(verb, kind, namespace, name, sub, token)

    world.api._allow = noting  # type: ignore[method-assign]
    rounds(world)
    given = {
        (group, resource, verb)
        for rule in rules
        for group in rule["apiGroups"]
        for resource in rule["resources"]
        for verb in rule["verbs"]
        if (group, resource) in NEEDED
    }
    assert {(group, resource) for group, resource, _ in given} == NEEDED
    # A pod is read only where a patch was refused: another test has that.
    assert given - used == {("", "pods", "get")}


def test_rights_that_nobody_asked_for_are_not_printed(capsys: pytest.CaptureFixture[str]) -> None:
    held = {(rule["apiGroups"][0], one) for rule in role(capsys, "--no-events") for one in rule["resources"]}
    assert ("", "nodes/status") not in held
    assert ("events.k8s.io", "events") not in held
    verbs = {verb for rule in role(capsys, *OPTIONS) for verb in rule["verbs"]}
    assert verbs == {"get", "list", "watch", "patch", "create"}
