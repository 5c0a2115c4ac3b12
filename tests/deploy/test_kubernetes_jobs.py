"""Training jobs on Kubernetes: the manifests are what Kubernetes takes, and what they start is timed by the right name.

No cluster is here. What the operators and the kubelet would add is added by ``kubernetes_pods``, what Kyverno would by
``kyverno_policy``, and the commands run as they stand in the manifests, but for how long they train.
"""

import contextlib
import json
import os
import secrets
import subprocess
import sys
from pathlib import Path

import kubernetes_validate
import pytest
import yaml

from paceline import columns, topics
from paceline.events import JobDescribed, StepTimings
from paceline.identity import attempt_of, job_of, labels_of, node_of
from paceline.kafka import clients
from paceline.kafka.settings import BrokerSettings
from paceline.kafka.topic_admin import ensure_topics
from tests.deploy.kubernetes_pods import Pod, command, environ, of_pytorchjob, of_trainjob
from tests.deploy.kyverno_policy import applied
from tests.heard import heard

ROOT = Path(__file__).parents[2]
FOLDER = ROOT / "deploy" / "kubernetes"
BIN = Path(sys.executable).parent
READING = {"from_beginning": True, "client_id": "test"}


def manifest(name: str) -> dict:
    """The file; what YAML says once for two roles is there twice."""
    return json.loads(json.dumps(yaml.safe_load((FOLDER / name).read_text(encoding="utf-8"))))


def pods(name: str, job: str = "llm", attempt: int = 0) -> list[Pod]:
    """The pods of the manifest ``name``, its job called ``job``."""
    read = manifest(name)
    read["metadata"]["name"] = job
    return of_trainjob(read, attempt) if name == "trainjob.yaml" else of_pytorchjob(read)


def by_policy(job: str, attempt: int) -> list[Pod]:
    """The pods of a PyTorchJob that says nothing of us, as the policy lets them in."""
    assert attempt == 0
    policy, read = manifest("kyverno-profile.yaml"), manifest("pytorchjob.yaml")
    read["metadata"]["name"] = job
    for role in read["spec"]["pytorchReplicaSpecs"].values():
        role["template"]["metadata"] = {"labels": {"paceline.dev/profile": "true"}}
        (container,) = role["template"]["spec"].pop("containers")
        container = {key: container[key] for key in ("name", "image", "command", "args")}
        role["template"]["spec"] = {"containers": [container | {"command": container["command"][4:]}]}
    made = of_pytorchjob(read)
    assert command(made[0])[0] == "torchrun"
    return [applied(policy, pod) for pod in made]


@pytest.mark.parametrize("version", ["1.28", "1.37"])
@pytest.mark.parametrize("name", ["pytorchjob.yaml", "trainjob.yaml"])
def test_pods_are_what_kubernetes_takes(name: str, version: str) -> None:
    """By its published schema, oldest and newest, with no field that it does not know."""
    for pod in pods(name):
        kubernetes_validate.validate(pod, version, strict=True)


@pytest.mark.parametrize("name", ["pytorchjob.yaml", "trainjob.yaml"])
def test_a_pod_knows_its_job_and_its_place(name: str) -> None:
    """All pods of a job name one job; each its own pod, and the node that the collector names."""
    told = [environ(pod, f"gpu-{at}") for at, pod in enumerate(pods(name))]
    assert {job_of(one) for one in told} == {"ml.llm"}
    assert [node_of(one, "host") for one in told] == ["gpu-0", "gpu-1"]
    labels = [labels_of(one) for one in told]
    assert [one["kubernetes_pod"] for one in labels] == [pod["metadata"]["name"] for pod in pods(name)]
    assert [(one["kubernetes_namespace"], one["kubernetes_node"]) for one in labels] == [
        ("ml", "gpu-0"),
        ("ml", "gpu-1"),
    ]


def test_attempts_grow_with_the_jobset() -> None:
    """Trainer's restarts are told apart; a PyTorchJob's pods do not know theirs."""
    assert [attempt_of(environ(pods("trainjob.yaml", attempt=n)[0], "n")) for n in (0, 1, 2)] == [0, 1, 2]
    assert attempt_of(environ(pods("pytorchjob.yaml")[0], "n")) == 0


def plain(labels: dict[str, str], *, wrapped: bool = False, **container: object) -> Pod:
    """A pod that nobody has thought of timing; with ``wrapped`` by the policy."""
    main = {"name": "main", "image": "training", "command": ["torchrun", "train.py"]} | container
    beside = {"name": "beside", "image": "proxy", "command": ["proxy"]}
    metadata = {"name": "llm-0", "namespace": "ml", "labels": {"paceline.dev/profile": "true"} | labels}
    pod = {"apiVersion": "v1", "kind": "Pod", "metadata": metadata, "spec": {"containers": [main, beside]}}
    return applied(manifest("kyverno-profile.yaml"), pod) if wrapped else pod


@pytest.mark.parametrize(
    ("labels", "job"),
    [
        ({"batch.kubernetes.io/job-name": "nightly"}, "ml.nightly"),
        ({"jobset.sigs.k8s.io/jobset-name": "llm", "batch.kubernetes.io/job-name": "llm-node-0"}, "ml.llm"),
        ({"training.kubeflow.org/job-name": "bert", "training.kubeflow.org/job-role": "master"}, "ml.bert"),
        ({"ray.io/cluster": "ray-x1"}, "ml.ray-x1"),
        ({}, ""),
    ],
)
def test_the_policy_names_the_job_by_its_operators_label(labels: dict[str, str], job: str) -> None:
    """The widest first; where no label names one, what torchrun or the script say counts."""
    assert job_of(environ(plain(labels, wrapped=True), "n")) == job


def test_the_policy_wraps_the_first_command_alone() -> None:
    """What stood there stays: the command behind ours, arguments, variables, volumes, and the container beside."""
    mine = {
        "args": ["--lr", "1"],
        "env": [{"name": "A", "value": "b"}],
        "volumeMounts": [{"name": "d", "mountPath": "/d"}],
    }
    pod = plain({}, wrapped=True, **mine)
    main, beside = pod["spec"]["containers"]

    assert command(pod) == ["paceline", "run", "--no-panel", "--", "torchrun", "train.py", "--lr", "1"]
    assert beside == plain({})["spec"]["containers"][1]
    assert environ(pod, "n").items() >= {"A": "b", "PACELINE_BROKERS": "paceline-kafka.paceline.svc:9092"}.items()
    assert [one["mountPath"] for one in main["volumeMounts"]] == ["/d", "/var/spool/paceline"]
    for version in ("1.28", "1.37"):
        pod["spec"]["volumes"].append({"name": "d", "emptyDir": {}})
        kubernetes_validate.validate(pod, version, strict=True)


def test_the_policy_changes_no_other_pod() -> None:
    """One without the label, without a command of its own, or one that it has been asked about before."""
    policy = manifest("kyverno-profile.yaml")
    unlabelled = plain({"paceline.dev/profile": "false"})
    bare = plain({})
    del bare["spec"]["containers"][0]["command"]
    once = plain({}, wrapped=True)
    for pod in (unlabelled, bare, once):
        assert applied(policy, pod) == pod


@pytest.mark.slow
def test_the_image_asks_for_its_base() -> None:
    """The Dockerfile holds nothing of a base image's own; hadolint has nothing to say but of the base without a tag."""
    done = subprocess.run(
        [BIN / "hadolint", "--ignore", "DL3006", FOLDER / "Dockerfile"], capture_output=True, text=True, check=False
    )
    assert (done.returncode, done.stdout) == (0, "")


class Run:
    """The pods of one job as processes of this machine, each with its own environment."""

    def __init__(self, made: list[Pod], brokers: str, port: int, folder: Path) -> None:
        self.processes = [
            subprocess.Popen(
                [*command(pod)[: -len(pod["spec"]["containers"][0]["args"])], "--seconds", "1"],
                env=self._environ(pod, f"gpu-{at}") | {"PACELINE_BROKERS": brokers, "PET_MASTER_PORT": str(port)},
                cwd=folder,
                stdout=subprocess.PIPE,
                stderr=subprocess.STDOUT,
                text=True,
            )
            for at, pod in enumerate(made)
        ]

    @staticmethod
    def _environ(pod: Pod, node: str) -> dict[str, str]:
        """What a container has, and what the image would: programs on the path, names of the peers."""
        ours = {name: value for name, value in os.environ.items() if not name.startswith("PACELINE_")}
        local = {"PET_MASTER_ADDR": "127.0.0.1", "PATH": f"{BIN}:{os.environ['PATH']}", "OMP_NUM_THREADS": "1"}
        told = environ(pod, node)
        if "PACELINE_SPOOL_DIR" in told:
            local["PACELINE_SPOOL_DIR"] = os.environ["PACELINE_SPOOL_DIR"]
        return ours | told | local

    def end(self) -> list[tuple[int, str]]:
        """The exit status of each, and what it said."""
        said = [process.communicate()[0] for process in self.processes]
        return [(process.returncode, text) for process, text in zip(self.processes, said, strict=True)]


def described(brokers: BrokerSettings, job: str, nodes: int) -> tuple[dict[str, JobDescribed], set[int]]:
    """What the bus says of ``job``, by node, and the ranks whose steps were timed, once there are as many as nodes."""
    found: dict[str, JobDescribed] = {}
    ranks: set[int] = set()
    with contextlib.ExitStack() as readers:
        consumers = [
            (topic, readers.enter_context(contextlib.closing(clients.consumer(brokers, topic, **READING))))
            for topic in (topics.JOB, topics.OP)
        ]
        while min(len(found), len(ranks)) < nodes:
            for topic, consumer in consumers:
                records = [one for many in consumer.poll(timeout_ms=200).values() for one in many]
                for event in (one for one in heard(topic, records) if one.job == job):
                    if isinstance(event, JobDescribed):
                        found[event.node] = event
                    elif isinstance(event, StepTimings):
                        ranks |= set(columns.numbers(event.rank))
    return found, ranks


@pytest.mark.e2e
@pytest.mark.bus
@pytest.mark.parametrize(
    ("make", "restarts"),
    [
        pytest.param(lambda job, restarts: pods("trainjob.yaml", job, restarts), 2, id="TrainJob by hand"),
        pytest.param(by_policy, 0, id="PyTorchJob by the policy"),
    ],
)
def test_what_the_manifest_starts_is_timed(make, restarts, embedded_broker, free_port, tmp_path) -> None:
    """Two pods train together over gloo; job, attempt, pods, namespace and nodes are right on the bus."""
    brokers = BrokerSettings().with_brokers(embedded_broker.address)
    ensure_topics(brokers)
    job = f"llm-{secrets.token_hex(3)}"
    made = make(job, restarts)
    ended = Run(made, embedded_broker.address, free_port(), tmp_path).end()
    assert [status for status, _ in ended] == [0, 0], ended
    told, ranks = described(brokers, f"ml.{job}", len(made))

    attempt = 1000 * restarts  # torchrun's own restarts are counted below that
    assert ranks == {0, 1}
    assert {node: one.attempt for node, one in told.items()} == dict.fromkeys(("gpu-0", "gpu-1"), attempt)
    for at, pod in enumerate(made):
        one = told[f"gpu-{at}"]
        assert [place.rank for place in one.places] == [at]
        assert (one.world_size, one.labels["kubernetes_pod"]) == (2, pod["metadata"]["name"])
        assert (one.labels["kubernetes_namespace"], one.labels["kubernetes_node"]) == ("ml", f"gpu-{at}")
