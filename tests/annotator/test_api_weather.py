"""What the API does to those who write to it: conflicts, objects that are gone, rights that lack, a busy server."""

import pytest

from tests.annotator.api_server import Asked
from tests.annotator.world import World, device_samples, held_by, job, node_described
from tests.derived_events import finding


def patches(asked: Asked) -> bool:
    return asked.method == "PATCH"


@pytest.fixture
def told(world: World) -> World:
    world.node()
    world.owner("Job", "train")
    world.pod("train-0", owner=("Job", "train"))
    return world


def events():
    return node_described(pods=held_by("node-1", "train-0")), device_samples(), job(pod="train-0")


def test_an_object_that_is_gone_is_forgotten(told: World) -> None:
    """The watch has not told yet: one request finds out, and none follows."""
    made = told.annotator().list().hear(*events())
    told.api.delete("Pod", "train-0", "ml")
    told.api.delete("Job", "train", "ml")
    made.turns(40)
    assert told.api.count("PATCH", "/pods/") == 1
    assert told.api.count("PATCH", "/jobs/") == 0
    assert made.parts.annotating.failed == 0


@pytest.mark.parametrize("code", [422, 409])
def test_a_namesake_is_not_written_to(told: World, code: int) -> None:
    """A pod was deleted and made again since we heard of it: the uid in the patch is a condition."""
    told.api.uid_code = code
    made = told.annotator("--no-events").list().hear(*events())
    told.api.delete("Pod", "train-0", "ml")
    told.pod("train-0")
    made.turns(40)
    assert told.api.annotations("Pod", "train-0", "ml") == {}
    assert told.api.count("PATCH", "/pods/") == 1


def test_a_busy_server_is_left_alone_for_as_long_as_it_asks(told: World) -> None:
    made = told.annotator("--no-events").list().hear(*events())
    told.api.fail(patches, 429, times=1, retry_after="60")
    made.turns(1)
    asked = len(told.api.asked)
    made.turns(12, 4.0)  # 48 s
    assert len(told.api.asked) == asked
    made.turns(12, 4.0)
    assert "inventory" in told.api.annotations("Node", "node-1")


@pytest.mark.long
@pytest.mark.parametrize("code", [500, 503, None])
def test_a_failing_server_is_tried_again(told: World, code: int | None) -> None:
    """With longer and longer waits: a dozen requests in ten minutes, and all is written when it is back."""
    made = told.annotator("--no-events").list().hear(*events())
    told.api.fail(patches, code, times=1000)
    made.turns(200)
    assert 5 <= told.api.count("PATCH") <= 40
    told.api.faults.clear()
    for _ in range(60):
        made.hear(device_samples(at_s=told.now_s)).turns(1)
    assert "gpu-use" in told.api.annotations("Pod", "train-0", "ml")
    assert len([line for line in told.said if "does not take more" in line]) == 1


def test_a_missing_right_is_told_once_with_its_mend(told: World) -> None:
    """All else is written."""
    rules = [{"apiGroups": [""], "resources": ["pods", "nodes"], "verbs": ["list", "watch"]}]
    rules += [{"apiGroups": [""], "resources": ["nodes"], "verbs": ["patch"]}]
    told.api.rules = {"weak": rules}
    told.pod("train-1")
    made = told.annotator("--no-events", token="weak").list()
    pods = held_by("node-1", "train-0", range(4)) + held_by("node-1", "train-1", range(4, 8))
    made.hear(node_described(pods=pods), device_samples()).turns(30)
    assert "inventory" in told.api.annotations("Node", "node-1")
    lines = [line for line in told.said if "may not patch pods" in line]
    assert len(lines) == 1
    assert 'fix: add {apiGroups: [""], resources: ["pods"], verbs: ["patch"]}' in lines[0]
    assert len([line for line in told.said if "may not get jobs" in line]) == 1
    assert told.api.count("PATCH", "/pods/") <= 4  # Not again before ten minutes have gone by.


def test_a_login_that_has_ended_is_told(told: World) -> None:
    made = told.annotator("--no-events").list().hear(*events())
    told.api.rules = {}
    made.turns(10)
    assert any("Unauthorized" in line for line in told.said)


def test_a_namespace_that_is_being_deleted_is_no_missing_right(told: World) -> None:
    """An Event cannot be made there any more, and that is all right."""
    message = "events is forbidden: unable to create new content in namespace ml because it is being terminated"
    told.api.fail(lambda asked: asked.method == "POST", 403, times=100, message=message)
    told.annotator().list().hear(*events(), finding(cluster="default")).turns(20)
    assert not any("mend" in line for line in told.said)
    assert told.api.count("POST") == 1


@pytest.mark.long
def test_an_answer_that_is_no_object_is_no_reason_to_stop(told: World) -> None:
    made = told.annotator("--no-events").list().hear(*events())
    kept = told.api.answer

    def nonsense(asked: Asked, token: str) -> tuple[int, object]:
        told_it = kept(asked, token)
        return (200, ["nonsense"]) if asked.method == "PATCH" and "/pods/" in asked.path else told_it

    told.api.answer = nonsense  # type: ignore[method-assign]
    made.turns(10)
    told.api.answer = kept  # type: ignore[method-assign]
    made.turns(60)
    assert "inventory" in told.api.annotations("Node", "node-1")


def test_an_annotation_that_somebody_removed_is_put_back(told: World) -> None:
    made = told.annotator("--no-events").list().hear(*events()).turns()
    told.api.put("Pod", "train-0", "ml", spec={"nodeName": "node-1"}, status={"phase": "Running"})
    assert told.api.annotations("Pod", "train-0", "ml") == {}
    made.list().turns(15)
    assert "gpu-use" in told.api.annotations("Pod", "train-0", "ml")


def test_a_kind_that_is_not_served_for_a_while_is_not_gone_for_ever(told: World) -> None:
    """An upgrade takes a CRD away and puts it back; ten minutes later its objects are written to again."""
    told.api.install("kubeflow.org", "v1", "MPIJob", "mpijobs")
    told.owner("MPIJob", "m")
    told.pod("m-0", owner=("MPIJob", "m"))
    made = told.annotator("--no-events").list().hear(node_described(pods=held_by("node-1", "m-0")), device_samples())
    made.turns(1)
    kind = told.api.served.kinds.pop()
    told.now_s += 700
    made.hear(device_samples(at_s=told.now_s, power_w=690.0)).turns(3)
    told.api.served.kinds.append(kind)
    told.now_s += 700
    made.hear(device_samples(at_s=told.now_s, power_w=690.0)).turns(5)
    assert told.api.annotations("MPIJob", "m", "ml")["maxima"]["power_w"]["value"] == 690


def test_a_pod_that_goes_while_its_refusal_is_looked_into_stays_gone(told: World) -> None:
    """The watch tells of it before the answer to our question comes."""
    made = told.annotator("--no-events").list().hear(*events())
    objects, kept = made.parts.objects, told.api.answer

    def answer(asked: Asked, token: str) -> tuple[int, object]:
        if asked.method == "GET" and asked.path.endswith("/pods/train-0"):
            objects.drop(objects.pod("ml", "train-0").ref)  # type: ignore[union-attr]
        return kept(asked, token)

    told.api.fail(lambda asked: patches(asked) and "/pods/" in asked.path, 409, times=1)
    told.api.answer = answer  # type: ignore[method-assign]
    made.turns(2)
    assert objects.pods == {}
