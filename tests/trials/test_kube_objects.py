"""What a trial hands to Kubernetes: what each version takes, what `restricted` allows, and no word of it misread."""

import re
from dataclasses import replace
from pathlib import Path
from typing import Any

import kubernetes_validate
import pytest
import yaml

from experiments.chart.pod_security import restricted
from trials import kube_objects
from trials.executor import ExecutorError, Job
from trials.kube_options import KubernetesOptions, read
from trials.kubernetes import KubernetesExecutor

MARK = "0123456789abcdef"
BASE = {"name": "big batch", "folder": "/f", "image": "registry.example/training:1"}
EVERYTHING = {
    "namespace": "ml", "cpus_per_node": 8, "gpus_per_node": "ranks", "memory": "64Gi", "shm": "16Gi",
    "node_selector": {"nvidia.com/gpu.present": "true"}, "pull_secrets": ["registry"], "pull_policy": "Always",
    "tolerations": [{"key": "nvidia.com/gpu", "operator": "Exists", "effect": "NoSchedule"}, {"operator": "Exists"}],
    "volumes": [{"mount": "/data", "claim": "dataset"}, {"mount": "/etc/train", "config_map": "train"},
                {"mount": "/keys", "secret": "keys"}, {"mount": "/cache", "claim": "cache", "read_only": False}],
    "secrets": ["wandb"], "service_account": "trainer", "priority_class": "low", "run_as_user": 1000,
    "fs_group": 1000, "labels": {"kueue.x-k8s.io/queue-name": "lab"},
    "annotations": {"sidecar.istio.io/inject": "false"},
}  # fmt: skip
CASES = {
    "least": ({}, {}),
    "two nodes": ({}, {"nodes": 2}),
    "everything": (EVERYTHING, {"nodes": 2, "ranks_per_node": 4, "on": ("gpu-1", "gpu-2.example")}),
    "not alone": ({"exclusive": False}, {"on": ("gpu-1",)}),
}


def options(**told: Any) -> KubernetesOptions:
    return read({**BASE, **told})


def job(**changes: Any) -> Job:
    made = Job("r0-n0-p1-t0", ("train", "--rank={node_rank}"), Path("/f/r0-n0-p1-t0"), 30.0, 90.0)
    return replace(made, **{"environ": {"PACELINE_TRIAL_RANKS": "2"}, **changes})


def pod_of(made: dict[str, Any]) -> dict[str, Any]:
    return made["spec"]["template"]["spec"]


@pytest.mark.slow
@pytest.mark.parametrize("version", ["1.28", "1.37"])
@pytest.mark.parametrize("name", CASES)
def test_manifests_are_what_kubernetes_takes(name: str, version: str) -> None:
    """By its published schemas, oldest and newest, with no field that it does not know; as a person reads them, too."""
    told, changes = CASES[name]
    made = job(**changes)
    objects = list(yaml.safe_load_all(KubernetesExecutor({**BASE, **told}).manifest(made)))
    assert [one["kind"] for one in objects] == ["Job", "Secret", "Service"][: 2 + (made.nodes > 1)]
    for one in [*objects, *kube_objects.owned_objects(options(**told), MARK, made, "uid-1")]:
        kubernetes_validate.validate(one, version, strict=True)


@pytest.mark.parametrize("name", CASES)
def test_pods_keep_to_the_restricted_level(name: str) -> None:
    """By the Pod Security Standards."""
    told, changes = CASES[name]
    assert restricted(pod_of(kube_objects.job_object(options(**told), MARK, job(**changes)))) == []


def expanded(word: str, environ: dict[str, str]) -> str:
    """As the kubelet expands a word of a command."""
    return re.sub(r"\$(\$|\(([^)]*)\))", lambda found: _expanded(found, environ), word)


def _expanded(found: re.Match[str], environ: dict[str, str]) -> str:
    return "$" if found[1] == "$" else environ.get(found[2], found[0])


@pytest.mark.parametrize(
    "word", ["$HOME", "$(HOME)", "$$(HOME)", "$", "a$", "$$", "$(PACELINE_TRIAL_NODE_RANK)", "`id`", "{x} $( {y})"]
)
def test_a_word_arrives_as_it_was(word: str) -> None:
    """Kubernetes fills in nothing that a person wrote, and no shell reads it."""
    (told,) = kube_objects.command(job(command=(word,)), "name")
    assert expanded(told, {"HOME": "/root", "PACELINE_TRIAL_NODE_RANK": "1"}) == word


def test_a_node_finds_its_place_in_the_command() -> None:
    """Its rank by the index of its pod; the first pod's name is where they meet."""
    made = job(nodes=2, command=("run", "{node_rank}/{nodes}", "{master}:{port}", '{"nodes": 1}'))
    name = kube_objects.name_of(options(), MARK, made)
    told = [expanded(word, {"PACELINE_TRIAL_NODE_RANK": "1"}) for word in kube_objects.command(made, name)]
    assert told == ["run", "1/2", f"{name}-0.{name}:29500", '{"nodes": 1}']
    variables = pod_of(kube_objects.job_object(options(), MARK, made))["containers"][0]["env"]
    (rank,) = [one for one in variables if one["name"] == "PACELINE_TRIAL_NODE_RANK"]
    assert rank["valueFrom"]["fieldRef"]["fieldPath"].endswith("['batch.kubernetes.io/job-completion-index']")


def test_variables_stand_in_the_secret_alone() -> None:
    """Who may read Jobs does not read them."""
    made = job(environ={"TOKEN": "do-not-tell"})
    assert "do-not-tell" not in str(kube_objects.job_object(options(), MARK, made))
    (secret,) = kube_objects.owned_objects(options(), MARK, made, "u")
    assert secret["stringData"] == {"TOKEN": "do-not-tell"}


def test_other_variables_make_another_job() -> None:
    """What it was made of is told by its digest, values and all."""
    digests = {
        kube_objects.job_object(options(**told), MARK, job(**changes))["metadata"]["annotations"][kube_objects.DIGEST]
        for told, changes in [*CASES.values(), ({}, {"command": ("other",)}), ({"image": "other"}, {})]
    }
    assert len(digests) == len(CASES) + 2


def test_gpus_are_counted() -> None:
    """As many as ranks, a number, or none: and then NVIDIA's runtime shows none."""
    for told, wanted in (("ranks", "4"), (8, "8"), (0, None)):
        (container,) = pod_of(kube_objects.job_object(options(gpus_per_node=told), MARK, job(ranks_per_node=4)))[
            "containers"
        ]
        assert container.get("resources", {}).get("limits", {}).get("nvidia.com/gpu") == wanted
        assert any(one.get("value") == "void" for one in container["env"]) == (wanted is None)


@pytest.mark.parametrize("wanted", [{"gpus": (0, 1)}, {"gpus": ()}, {"cpus": (3,)}, {"numa": 0}])
def test_sets_of_devices_are_refused_with_the_reason(wanted: dict[str, Any]) -> None:
    """Kubernetes gives a number of devices, and chooses which."""
    with pytest.raises(ExecutorError, match=r"chooses which.*_per_node"):
        kube_objects.job_object(options(), MARK, job(**wanted))


@pytest.mark.parametrize(
    "wrong",
    [
        {"id": "a_b"}, {"id": ""}, {"id": "a" * 64}, {"id": "-a"}, {"on": ("a b",)}, {"on": ("a", "b")},
        {"on": ("a", "a"), "nodes": 2}, {"nodes": 0}, {"nodes": 513}, {"limit_s": 0.0}, {"limit_s": float("nan")},
        {"limit_s": 1e9}, {"command": ()}, {"command": ("a\0b",)}, {"command": ("x" * 300_000,)},
    ],
)  # fmt: skip
def test_a_job_that_cannot_be_written_down_is_refused(wrong: dict[str, Any]) -> None:
    """Before anything is asked."""
    with pytest.raises(ExecutorError):
        kube_objects.job_object(options(), MARK, job(**wrong))


@pytest.mark.parametrize("environ", [{"A B": "x"}, {"": "x"}, {"A": "x" * 600_000}])
def test_variables_that_cannot_be_are_refused(environ: dict[str, str]) -> None:
    """A Secret has its grammar, and its size."""
    with pytest.raises(ExecutorError):
        kube_objects.job_object(options(), MARK, job(environ=environ))


@pytest.mark.parametrize("trial", ["x" * 63, "ALL.CAPS", "..", "9", "ünï"])
@pytest.mark.parametrize("job_id", ["r0-n0-p1-t0", "R0-A", "r9-n99-p1023-t1", "a" * 63])
def test_names_fit_a_host_name(trial: str, job_id: str) -> None:
    """Of a pod with its index, too, and two jobs never share one."""
    name = kube_objects.name_of(options(name=trial), MARK, job(id=job_id))
    assert re.fullmatch(r"[a-z]([-a-z0-9]*[a-z0-9])?", name)
    assert len(f"{name}-{kube_objects.MOST_NODES}") <= 63
    assert name != kube_objects.name_of(options(name=trial), MARK, job(id="r0-n0-p2-t0"))
    for label in kube_objects.labels(options(name=trial), MARK, job(id=job_id)).values():
        assert re.fullmatch(r"[A-Za-z0-9]([-A-Za-z0-9_.]{0,61}[A-Za-z0-9])?", label)


def test_trials_keep_apart() -> None:
    """No pod beside another trial's, in whatever namespace; without that, nodes that are named still differ."""
    alone = pod_of(kube_objects.job_object(options(), MARK, job()))["affinity"]["podAntiAffinity"]
    (rule,) = alone["requiredDuringSchedulingIgnoredDuringExecution"]
    assert rule["namespaceSelector"] == {}
    assert rule["labelSelector"]["matchLabels"] == {kube_objects.NAME: kube_objects.OURS}
    assert "affinity" not in pod_of(kube_objects.job_object(options(exclusive=False), MARK, job()))
    named = pod_of(kube_objects.job_object(options(exclusive=False), MARK, job(on=("b", "a"), nodes=2)))["affinity"]
    terms = named["nodeAffinity"]["requiredDuringSchedulingIgnoredDuringExecution"]["nodeSelectorTerms"]
    assert [term["matchFields"][0]["values"] for term in terms] == [["b"], ["a"]]
    assert "podAntiAffinity" in named
