"""From pods to what its users started, and the maxima that stay there."""

import json
from typing import Any

import pytest

from annotator.kube_objects import Known, OwnerRef, Ref
from annotator.owners import KINDS, MOST_STEPS, Owners, kind_of
from tests.annotator.world import World, device_samples, held_by, job, node_described
from tests.derived_events import finding


@pytest.fixture
def training(world: World) -> World:
    """A TrainJob that has made a JobSet that has made a Job with one pod, as Kubeflow's trainer does."""
    world.node()
    world.api.install("trainer.kubeflow.org", "v1alpha1", "TrainJob", "trainjobs")
    world.api.install("jobset.x-k8s.io", "v1alpha2", "JobSet", "jobsets")
    world.owner("TrainJob", "llm")
    world.owner("JobSet", "llm", ("TrainJob", "llm"))
    world.owner("Job", "llm-node-0", ("JobSet", "llm"))
    world.pod("llm-node-0-0-x", owner=("Job", "llm-node-0"))
    return world


def told(world: World, pod: str = "llm-node-0-0-x") -> tuple[Any, ...]:
    return node_described(pods=held_by("node-1", pod)), device_samples(), job(pod=pod)


def test_the_topmost_of_the_known_kinds_is_told(training: World) -> None:
    training.annotator().list().hear(*told(training)).turns()
    assert training.api.annotations("TrainJob", "llm", "ml")["inventory"]["gpus"][0]["count"] == 8
    assert training.api.annotations("JobSet", "llm", "ml") == {}
    assert training.api.annotations("Job", "llm-node-0", "ml") == {}


@pytest.mark.parametrize(
    ("group", "kind", "plural"),
    [
        ("kubeflow.org", "MPIJob", "mpijobs"),
        ("kubeflow.org", "PyTorchJob", "pytorchjobs"),
        ("ray.io", "RayCluster", "rayclusters"),
        ("example.org", "TrainingRun", "trainingruns"),
    ],
)
def test_any_kind_can_own(world: World, group: str, kind: str, plural: str) -> None:
    """Those of others are named by an option; the API says where they lie."""
    world.node()
    world.api.install(group, "v1", kind, plural)
    world.owner(kind, "run")
    world.pod("p", owner=(kind, "run"))
    options = ["--owner", "known", "--owner", f"{group}/{kind}"] if group == "example.org" else []
    world.annotator(*options).list().hear(*told(world, "p")).turns()
    assert world.api.annotations(kind, "run", "ml")["job"]["job"] == "train"


def test_a_kind_that_nobody_named_is_left_alone(world: World) -> None:
    """It is not even read."""
    world.node()
    world.api.install("example.org", "v1", "TrainingRun", "trainingruns")
    world.owner("TrainingRun", "run")
    world.pod("p", owner=("TrainingRun", "run"))
    world.annotator().list().hear(*told(world, "p")).turns()
    assert world.api.count("GET", "trainingruns") == 0


def test_what_lies_between_is_passed_through(world: World) -> None:
    world.node()
    world.owner("Deployment", "serve")
    world.owner("ReplicaSet", "serve-abc", ("Deployment", "serve"))
    world.pod("p", owner=("ReplicaSet", "serve-abc"))
    world.annotator().list().hear(*told(world, "p")).turns()
    assert "gpu-use" in world.api.annotations("Deployment", "serve", "ml")
    assert world.api.annotations("ReplicaSet", "serve-abc", "ml") == {}


def test_an_owner_that_is_gone_or_has_a_namesake_ends_the_walk(world: World) -> None:
    world.node()
    world.owner("Job", "train")
    world.pod("p", owner=("Job", "train"))
    world.api.delete("Job", "train", "ml")
    world.owner("Job", "train")  # Another one: its uid is not the pod's owner's.
    made = world.annotator().list().hear(*told(world, "p")).turns()
    assert world.api.annotations("Job", "train", "ml") == {}
    assert "job" in world.api.annotations("Pod", "p", "ml")
    reads = world.api.count("GET", "/jobs/")
    made.turns(20)
    assert world.api.count("GET", "/jobs/") == reads  # Not asked for again and again.


def test_a_kind_whose_crd_is_not_there_ends_the_walk(world: World) -> None:
    world.node()
    world.api.install("kubeflow.org", "v1", "MPIJob", "mpijobs")
    world.owner("MPIJob", "m")
    world.pod("p", owner=("MPIJob", "m"))
    world.api.served.kinds.pop()
    world.annotator().list().hear(*told(world, "p")).turns()
    assert "job" in world.api.annotations("Pod", "p", "ml")


def test_another_version_of_a_kind_is_found(world: World) -> None:
    """The pod's reference names a version that the API does not serve any more."""
    world.node()
    world.api.install("kubeflow.org", "v1", "MPIJob", "mpijobs")
    world.owner("MPIJob", "m")
    reference = {**world.reference("MPIJob", "m"), "apiVersion": "kubeflow.org/v1alpha2"}
    world.pod("p", ownerReferences=[reference])
    world.annotator().list().hear(*told(world, "p")).turns()
    assert "job" in world.api.annotations("MPIJob", "m", "ml")


@pytest.mark.long
def test_maxima_stay_when_the_pods_are_gone(training: World) -> None:
    """And what holds of running pods alone goes: use and finding."""
    made = training.annotator().list().hear(*told(training), finding(cluster="default")).turns()
    made.hear(device_samples(at_s=training.now_s, power_w=690.0)).turns(15)
    training.api.delete("Pod", "llm-node-0-0-x", "ml")
    made.list().turns(15)
    held = training.api.annotations("TrainJob", "llm", "ml")
    assert held["maxima"]["power_w"]["value"] == 690
    assert {"inventory", "job"} <= held.keys()
    assert not {"gpu-use", "finding"} & held.keys()


@pytest.mark.long
def test_maxima_survive_a_restart(training: World) -> None:
    """The annotation is the memory: what it holds is merged with what is seen from now on."""
    training.annotator().list().hear(*told(training)).turns()
    later = device_samples(at_s=training.now_s + 500, power_w=300.0, utilization_ratio=1.0)
    training.now_s += 500
    training.annotator().list().hear(told(training)[0], later, told(training)[2]).turns()
    held = training.api.annotations("TrainJob", "llm", "ml")["maxima"]
    assert held["power_w"] == {"value": 600, "seen": "2023-11-14T22:13:23Z"} or held["power_w"]["value"] == 600
    assert held["utilization_ratio"]["value"] == 1.0


def test_maxima_that_somebody_else_wrote_in_between_are_merged(training: World) -> None:
    """Two annotators during a rollout: neither takes the other's higher number away, and conflicts are tried again."""
    made = training.annotator("--no-events").list().hear(*told(training)).turns()
    other = json.dumps({"schema_version": 1, "power_w": {"value": 699, "seen": "2023-11-14T22:13:20Z"}})
    training.api.annotate("TrainJob", "llm", "ml", **{"paceline.dev/maxima": other})
    made.hear(device_samples(at_s=training.now_s, power_w=650.0, utilization_ratio=1.0)).turns(15)
    held = training.api.annotations("TrainJob", "llm", "ml")["maxima"]
    assert (held["power_w"]["value"], held["utilization_ratio"]["value"]) == (699, 1.0)


def test_a_conflict_with_the_jobs_controller_is_tried_again(training: World) -> None:
    """It writes between our reading and our writing, again and again."""
    kept, beats = training.api.answer, iter(range(7))

    def busy_controller(asked: Any, token: str) -> Any:
        if asked.method == "PATCH" and "trainjobs" in asked.path and (beat := next(beats, None)) is not None:
            training.api.annotate("TrainJob", "llm", "ml", **{"example.org/beat": str(beat)})
        return kept(asked, token)

    training.api.answer = busy_controller  # type: ignore[method-assign]
    made = training.annotator("--no-events").list().hear(*told(training)).turns(20)
    assert training.api.annotations("TrainJob", "llm", "ml")["maxima"]["power_w"]["value"] == 600
    assert made.parts.annotating.budget.outcomes["conflict"] == 2


IMPOSSIBLE = [
    "no json",
    "[]",
    "{}",
    '{"schema_version":1,"power_w":{"value":1e300,"seen":"x"}}',
    '{"schema_version":1,"power_w":7}',
    '{"schema_version":1,"power_w":{"value":true,"seen":"x"},"memory_ratio":{"value":-1,"seen":"x"}}',
    "[" * 5000,
]


@pytest.mark.parametrize("held", IMPOSSIBLE)
def test_maxima_that_cannot_be_are_written_over(training: World, held: str) -> None:
    training.api.annotate("TrainJob", "llm", "ml", **{"paceline.dev/maxima": held})
    training.annotator().list().hear(*told(training)).turns()
    assert training.api.annotations("TrainJob", "llm", "ml")["maxima"]["power_w"]["value"] == 600


def pod_of(uid: str) -> Known:
    return Known(Ref("v1", "Pod", "ml", "p", "u"), {}, OwnerRef("batch/v1", "Job", "j", uid, True))


def test_a_circle_of_owners_and_a_long_chain_end() -> None:
    """The API allows both, for it does not check references."""
    owners = Owners(frozenset(KINDS))
    for at in range(50):
        ref = Ref("batch/v1", "Job", "ml", f"j{at}", f"o{at}")
        owners.put(Known(ref, {}, OwnerRef("batch/v1", "Job", "j", f"o{at + 1}", True)))
    owners.put(Known(Ref("batch/v1", "Job", "ml", "c", "c"), {}, OwnerRef("batch/v1", "Job", "c", "c", True)))
    top = owners.top(pod_of("o0"), 0.0).owner
    assert top is not None
    assert top.ref.uid == f"o{MOST_STEPS - 1}"
    circle = owners.top(pod_of("c"), 0.0).owner
    assert circle is not None
    assert circle.ref.uid == "c"


@pytest.mark.parametrize("raw", ["job", "batch/", "batch/job", "a b/Job", "batch/v1/Jöb", "../Job", ""])
def test_what_names_no_kind_is_refused(raw: str) -> None:
    with pytest.raises(ValueError, match="GROUP/KIND"):
        kind_of(raw)


def test_the_kinds_that_are_named_take_the_place_of_the_usual_ones(training: World) -> None:
    training.annotator("--owner", "batch/Job").list().hear(*told(training)).turns()
    assert "job" in training.api.annotations("Job", "llm-node-0", "ml")
    assert training.api.annotations("TrainJob", "llm", "ml") == {}
    assert training.api.count("GET", "trainjobs") == 0


def test_kinds_in_between_that_may_not_be_read_are_not_complained_of(training: World) -> None:
    """Whoever names the kinds and gives rights on them alone gets no lines about others."""
    rules = [{"apiGroups": ["", "batch"], "resources": ["pods", "nodes", "jobs"], "verbs": ["list", "get", "patch"]}]
    training.api.rules = {"few": rules}
    training.annotator("--owner", "batch/Job", "--no-events", token="few").list().hear(*told(training)).turns()
    assert "job" in training.api.annotations("Job", "llm-node-0", "ml")
    assert training.said == []


@pytest.mark.long
def test_owners_that_are_deleted_with_their_pods_are_forgotten(world: World) -> None:
    """Jobs come and go by the thousand: one request finds out, and nothing of them is kept."""
    world.node()
    made = world.annotator("--no-events").list()
    for at in range(5):
        world.owner("Job", f"j{at}")
        world.pod(f"p{at}", owner=("Job", f"j{at}"))
        described = node_described(pods=held_by("node-1", f"p{at}"), sequence=at)
        made.list().hear(described, device_samples(at_s=world.now_s)).turns(12)
        world.api.delete("Pod", f"p{at}", "ml")
        world.api.delete("Job", f"j{at}", "ml")
        made.list().turns(15)
    planner = made.parts.annotating._planner
    assert planner._had == {}
    assert planner._highest == {}


def test_a_uid_is_known_as_cgroups_write_it(world: World) -> None:
    world.node()
    uid = world.pod("p")
    held = held_by("node-1", "p", uid=uid.replace("-", "_"))
    world.annotator("--no-events").list().hear(node_described(pods=held), device_samples()).turns()
    assert "gpu-use" in world.api.annotations("Pod", "p", "ml")


def test_an_owner_that_cannot_be_read_is_asked_for_again_though_the_clock_is_set_back() -> None:
    owners = Owners()
    owners.unreadable("o0", 1e9)
    assert owners.top(pod_of("o0"), 1e9 + 1.0).wanted is None
    assert owners.top(pod_of("o0"), 1e9 - 28_800.0).wanted is not None
