"""What stands at nodes, pods and owners, seen from the API: who is told what, when it changes and when it goes."""

import msgspec
import pytest

from paceline.events import DevicePod
from tests.annotator.world import NOW_S, World, device_samples, held_by, job, node_described, profile
from tests.derived_events import finding

DEVICES = ["GPU-node-1-3"]


@pytest.fixture
def running(world: World) -> World:
    """One node, one pod with all its GPUs, of one Job."""
    world.node()
    world.owner("Job", "train")
    world.pod("train-0", owner=("Job", "train"))
    return world


def all_events():
    return (
        node_described(pods=held_by("node-1", "train-0")),
        device_samples(),
        job(pod="train-0"),
        profile(),
        finding(cluster="default", devices=DEVICES),
    )


def test_a_node_says_what_it_has_and_how_busy_it_is(running: World) -> None:
    running.annotator().list().hear(*all_events()).turns()
    held = running.api.annotations("Node", "node-1")
    assert held["inventory"]["gpus"] == [{"kind": "NVIDIA H100 80GB HBM3", "count": 8, "memory_bytes": 85_899_345_920}]
    assert held["inventory"]["driver"] == "550.90"
    first = held["gpu-use"]["gpus"][0]
    assert first == {
        "gpu": 0, "uuid": "GPU-node-1-0", "utilization_mean_ratio": 0.9, "utilization_max_ratio": 0.9,
        "memory_mean_ratio": 0.5, "memory_max_ratio": 0.5, "power_mean_w": 600, "power_max_w": 600,
    }  # fmt: skip
    assert held["finding"]["id"] == "f1"
    assert held["finding"]["devices"] == DEVICES
    assert all(value["schema_version"] == 1 for value in held.values())


def test_a_pod_says_which_job_it_runs(running: World) -> None:
    running.annotator().list().hear(*all_events()).turns()
    held = running.api.annotations("Pod", "train-0", "ml")
    assert held["job"] | {"at": 0} == {
        "schema_version": 1, "cluster": "default", "job": "train", "attempt": 0, "ranks": "0-7", "at": 0,
    }  # fmt: skip
    assert held["kind"]["kind"] == "language_model"
    assert held["kind"]["confidence"] == 0.87
    assert held["cycle"]["period_s"] == 12.3
    assert held["finding"]["ranks"] == "3"
    assert len(held["gpu-use"]["gpus"]) == 8


def test_an_owner_says_what_its_pods_use_together(running: World) -> None:
    running.annotator().list().hear(*all_events()).turns()
    held = running.api.annotations("Job", "train", "ml")
    assert held["inventory"]["gpus"][0]["count"] == 8
    assert held["inventory"]["pods"] == 1
    assert held["gpu-use"]["gpu_count"] == 8
    assert held["gpu-use"]["power_mean_sum_w"] == 4800
    assert held["maxima"]["power_w"]["value"] == 600
    assert held["job"]["job"] == "train"
    assert held["finding"]["id"] == "f1"


def test_gpus_of_one_name_on_two_nodes_are_two(world: World) -> None:
    """Without UUIDs each node has a ``gpu 0``: a fault of one is not the other's, and an owner has both."""
    world.owner("Job", "train")
    made = world.annotator()
    for node, ratio in (("node-1", 0.9), ("node-2", 0.1)):
        world.node(node)
        world.pod(f"on-{node}", node=node, owner=("Job", "train"))
        described = node_described(node, pods=held_by(node, f"on-{node}", gpus=[0], device="gpu 0"), gpus=1)
        devices = [msgspec.structs.replace(one, uuid="gpu 0") for one in described.devices]
        sampled = device_samples(node, gpus=1, utilization_ratio=ratio)
        made.hear(msgspec.structs.replace(described, devices=devices))
        made.hear(msgspec.structs.replace(sampled, uuids=["gpu 0"]))
    fault = {"kind": "device_fault", "ranks": [], "first_step": -1, "job": ""}
    made.hear(finding(cluster="default", nodes=["node-2"], devices=["gpu 0"], **fault)).list().turns()
    for kind, name, namespace in (("Node", "node-{}", ""), ("Pod", "on-node-{}", "ml")):
        first, second = (world.api.annotations(kind, name.format(at), namespace) for at in (1, 2))
        assert [one["gpu-use"]["gpus"][0]["utilization_mean_ratio"] for one in (first, second)] == [0.9, 0.1]
        assert [one["gpu-use"]["gpus"][0]["gpu"] for one in (first, second)] == [0, 0]
        assert ["finding" in one for one in (first, second)] == [False, True]
    held = world.api.annotations("Job", "train", "ml")
    assert (held["gpu-use"]["gpu_count"], held["inventory"]["gpus"][0]["count"]) == (2, 2)


def test_nothing_is_written_twice_when_nothing_changes(running: World) -> None:
    """Neither by the same annotator nor by one that starts after it."""
    running.annotator().list().hear(*all_events()).turns()
    written = len(running.api.writes())
    running.annotator("--no-events").list().hear(*all_events()).turns(30)
    assert len(running.api.writes()) == written


def test_numbers_that_hardly_move_are_not_written(running: World) -> None:
    """A new document comes with the change that is worth it, and then with all its numbers."""
    made = running.annotator("--no-events").list().hear(node_described(), device_samples()).turns()
    before = len(running.api.writes())
    running.now_s += 100
    made.hear(device_samples(at_s=running.now_s, utilization_ratio=0.91, power_w=603.0)).turns()
    assert len(running.api.writes()) == before
    running.now_s += 100
    made.hear(device_samples(at_s=running.now_s, utilization_ratio=0.5, power_w=603.0)).turns()
    held = running.api.annotations("Node", "node-1")["gpu-use"]["gpus"][0]
    assert (held["utilization_mean_ratio"], held["power_mean_w"]) == (0.5, 603)


def test_an_object_is_written_every_thirty_seconds_at_most(running: World) -> None:
    made = running.annotator("--no-events").list().hear(node_described())
    began_s = running.now_s
    for at in range(120):
        made.hear(device_samples(at_s=running.now_s, utilization_ratio=(at % 10) / 10)).turns(1, 1.0)
    span_s = running.now_s - began_s
    assert 2 <= running.api.count("PATCH", "/nodes/") <= span_s / 30 + 1


def test_a_finding_goes_when_it_has_recovered(running: World) -> None:
    made = running.annotator().list().hear(*all_events()).turns()
    made.hear(finding(cluster="default", devices=DEVICES, revision=2, state="recovered"))
    made.turns(15)
    for kind, name, namespace in (("Node", "node-1", ""), ("Pod", "train-0", "ml"), ("Job", "train", "ml")):
        held = running.api.annotations(kind, name, namespace)
        assert "finding" not in held
        assert "gpu-use" in held


def test_a_finding_that_accuses_nobody_stands_at_the_owner_alone(running: World) -> None:
    told = finding(cluster="default", kind="stage_imbalance", ranks=[], stage=2, nodes=["node-1"])
    made = running.annotator().list().hear(*all_events()[:4], told).turns()
    assert running.api.annotations("Job", "train", "ml")["finding"]["kind"] == "stage_imbalance"
    assert "finding" not in running.api.annotations("Pod", "train-0", "ml")
    assert "finding" not in running.api.annotations("Node", "node-1")
    assert made.parts.annotating.events == 0


def test_a_suspicion_is_written_nowhere(running: World) -> None:
    running.annotator().list().hear(*all_events()[:4], finding(cluster="default", state="suspected")).turns()
    assert "finding" not in running.api.annotations("Node", "node-1")


def test_the_worst_finding_is_told_and_how_many_others_stand(running: World) -> None:
    others = [
        finding(cluster="default", id=f"f{at}", severity=word)
        for at, word in enumerate(("info", "critical", "warning"))
    ]
    running.annotator().list().hear(*all_events()[:4], *others).turns()
    held = running.api.annotations("Node", "node-1")["finding"]
    assert (held["id"], held["severity"], held["others"]) == ("f1", "critical", 2)


def test_use_goes_when_nothing_is_heard_any_more(running: World) -> None:
    """A collector that died leaves no numbers behind that look like now's."""
    made = running.annotator("--no-events").list().hear(*all_events()).turns()
    running.now_s += 200
    made.turns(15)
    assert "gpu-use" not in running.api.annotations("Node", "node-1")
    assert "inventory" in running.api.annotations("Node", "node-1")


def test_what_others_wrote_stays(running: World) -> None:
    running.api.annotate("Node", "node-1", **{"example.org/mine": "1", "paceline.dev/inventory": "by hand"})
    running.annotator().list().hear(*all_events()).turns()
    meta = running.api.get("Node", "node-1")["metadata"]
    assert meta["annotations"]["example.org/mine"] == "1"
    managers = {one["manager"] for one in meta["managedFields"]}
    assert managers == {"paceline-annotator"}
    for asked in running.api.writes():
        assert asked.query["fieldManager"] == "paceline-annotator"
        if asked.method == "PATCH":
            assert asked.body["metadata"].keys() <= {"uid", "annotations", "resourceVersion"}
            assert all(key.startswith("paceline.dev/") for key in asked.body["metadata"]["annotations"])


def test_events_of_another_cluster_are_passed_over(running: World) -> None:
    """Two clusters on one bus may have nodes of the same name."""
    running.annotator().list().hear(node_described(cluster="other"), device_samples()).turns()
    assert running.api.annotations("Node", "node-1") == {}


def test_a_node_that_kubernetes_does_not_know_is_told_once(running: World) -> None:
    made = running.annotator().list().hear(node_described("gpu-box.example"), *all_events()).turns(20)
    lines = [line for line in running.said if "gpu-box.example" in line]
    assert lines == [
        "no node of Kubernetes is called gpu-box.example; fix: set PACELINE_NODE of its collector to the node's name"
    ]
    assert made.parts.annotating.plan.objects["node"] == 1


def test_two_pods_of_one_job_on_one_node_have_their_own_gpus(world: World) -> None:
    """Each pod has a sidecar; what both say is kept."""
    world.node()
    world.owner("Job", "train")
    for at in (0, 1):
        world.pod(f"train-{at}", owner=("Job", "train"))
    pods = held_by("node-1", "train-0", range(4)) + held_by("node-1", "train-1", range(4, 8))
    parts = [job(pod="train-0", gpus=range(4)), job(pod="train-1", gpus=range(4, 8))]
    world.annotator().list().hear(
        node_described(pods=pods), device_samples(), *parts, finding(cluster="default")
    ).turns()
    first, second = (world.api.annotations("Pod", f"train-{at}", "ml") for at in (0, 1))
    assert (first["job"]["ranks"], second["job"]["ranks"]) == ("0-3", "4-7")
    assert [row["gpu"] for row in second["gpu-use"]["gpus"]] == [4, 5, 6, 7]
    assert "finding" in first
    assert "finding" not in second  # It accuses rank 3.


def test_a_pod_without_a_sidecar_of_its_own_is_known_by_its_gpus(world: World) -> None:
    """The sidecar knows its node, and the kubelet which pod has the GPU."""
    world.node()
    uid = world.pod("train-0")
    pods = [DevicePod(device=f"GPU-node-1-{at}", uid=uid) for at in range(8)]
    world.annotator().list().hear(node_described(pods=pods), device_samples(), job()).turns()
    assert world.api.annotations("Pod", "train-0", "ml")["job"]["job"] == "train"


def test_a_shared_gpu_is_told_at_each_pod(world: World) -> None:
    world.node()
    pods = []
    for name in ("a", "b"):
        world.pod(name)
        pods += held_by("node-1", name, [0])
    world.annotator().list().hear(node_described(pods=pods), device_samples()).turns()
    assert [len(world.api.annotations("Pod", name, "ml")["gpu-use"]["gpus"]) for name in ("a", "b")] == [1, 1]


def test_what_a_gpu_did_before_the_pod_is_not_the_pods(world: World) -> None:
    """The node saw the GPU busy a moment ago, with somebody else on it."""
    world.node()
    world.pod("new", creationTimestamp="2023-11-14T22:13:10Z")  # ten seconds before NOW_S
    busy = [device_samples(at_s=NOW_S - 40, power_w=700.0), device_samples(at_s=NOW_S, power_w=100.0)]
    world.annotator().list().hear(node_described(pods=held_by("node-1", "new")), *busy).turns()
    assert world.api.annotations("Node", "node-1")["gpu-use"]["gpus"][0]["power_max_w"] == 700
    assert world.api.annotations("Pod", "new", "ml")["gpu-use"]["gpus"][0]["power_max_w"] == 100


def test_a_pod_of_the_same_name_is_another_one(world: World) -> None:
    """What was said of its predecessor, by name, is not said of it."""
    world.node()
    world.pod("worker-0")
    made = (
        world.annotator("--no-events")
        .list()
        .hear(node_described(pods=held_by("node-1", "worker-0")), job(pod="worker-0"))
    )
    made.turns()
    assert "job" in world.api.annotations("Pod", "worker-0", "ml")
    world.api.delete("Pod", "worker-0", "ml")
    world.pod("worker-0", creationTimestamp="2023-11-14T23:13:20Z")
    world.now_s += 4000
    made.list().hear(node_described(sequence=1)).turns(12)
    assert world.api.annotations("Pod", "worker-0", "ml") == {}


def test_nodes_that_were_taken_away_are_no_wrong_names(world: World) -> None:
    """An autoscaler removes them, before this annotator began or while it runs; a hundred names are told at most."""
    world.node()
    world.node("node-2")
    old = node_described("long-gone", time_s=NOW_S - 700)
    made = world.annotator().list().hear(node_described(), node_described("node-2"), old).turns()
    world.api.delete("Node", "node-2")
    made.list().turns()
    assert world.said == []
    made.hear(*(node_described(f"misnamed-{at}", gpus=0) for at in range(150))).turns()
    assert len(world.said) == 100
    made.parts.annotating.once("another line")
    assert world.said[-1] == "another line"


def test_what_a_node_said_by_name_before_the_pod_was_made_is_of_another(world: World) -> None:
    world.node()
    world.pod("worker-0")
    made = world.annotator().list()
    made.hear(node_described(pods=held_by("node-1", "worker-0"), time_s=NOW_S - 500), device_samples()).turns()
    assert world.api.annotations("Pod", "worker-0", "ml") == {}
    made.hear(node_described(pods=held_by("node-1", "worker-0"), sequence=1)).turns()
    assert "gpu-use" in world.api.annotations("Pod", "worker-0", "ml")


def test_of_two_jobs_on_a_gpu_the_one_that_began_last_runs_there(world: World) -> None:
    """Whichever was heard of last."""
    world.node()
    uid = world.pod("train-0")
    pods = [DevicePod(device=f"GPU-node-1-{at}", uid=uid) for at in range(8)]
    jobs = [job("new", started_s=NOW_S - 100), job("old", started_s=NOW_S - 300)]
    world.annotator().list().hear(node_described(pods=pods), *jobs).turns()
    assert world.api.annotations("Pod", "train-0", "ml")["job"]["job"] == "new"
