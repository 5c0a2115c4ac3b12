"""What is done only where it is asked for: nothing at all (`--dry-run`), conditions, proposals of taints."""

import json

import pytest

from tests.annotator.world import World, device_samples, held_by, job, node_described
from tests.derived_events import HOSTILE, finding


def fault(**changes):
    held = {"kind": "device_fault", "ranks": [], "first_step": -1, "devices": ["GPU-node-1-2"], "severity": "critical"}
    return finding(**{"cluster": "default", **held, **changes})


@pytest.fixture
def told(world: World) -> World:
    world.node()
    world.owner("Job", "train")
    world.pod("train-0", owner=("Job", "train"))
    return world


def events():
    return node_described(pods=held_by("node-1", "train-0")), device_samples(), job(pod="train-0"), fault()


def test_a_dry_run_writes_nothing_and_prints_each_patch_once(told: World, capsys: pytest.CaptureFixture[str]) -> None:
    made = told.annotator("--dry-run", "--propose-taints", "--node-condition").list().hear(*events()).turns(20)
    made.list().turns(20)  # What the API says again takes nothing back.
    assert told.api.writes() == []
    lines = [json.loads(line) for line in capsys.readouterr().out.splitlines()]
    patched = [line["object"]["kind"] for line in lines if "patch" in line and "gpu-use" in str(line)]
    assert sorted(patched) == ["Job", "Node", "Pod"] or sorted(set(patched)) == ["Job", "Node", "Pod"]
    assert len([line for line in lines if "proposal" in line]) == 1
    assert [line["condition"]["status"] for line in lines if "condition" in line] == ["False"]
    assert [line["event"]["reason"] for line in lines if "event" in line] == ["DeviceFault"]


def test_what_a_dry_run_prints_is_harmless_for_a_terminal(told: World, capsys: pytest.CaptureFixture[str]) -> None:
    made = told.annotator("--dry-run").list()
    made.hear(*events(), job(HOSTILE, pod="train-0"), fault(id=HOSTILE, job=HOSTILE, kind=HOSTILE)).turns(10)
    out = capsys.readouterr().out
    assert all(line.isprintable() for line in out.splitlines())
    assert [json.loads(line) for line in out.splitlines()]


def test_a_taint_is_proposed_and_never_set(told: World) -> None:
    """As an annotation with the command, while a grave finding accuses the node."""
    made = told.annotator("--propose-taints").list().hear(*events()).turns()
    held = told.api.annotations("Node", "node-1")["proposal"]
    assert held["command"] == "kubectl taint nodes node-1 paceline.dev/suspect=device-fault:PreferNoSchedule"
    assert "spec" not in told.api.get("Node", "node-1")
    made.hear(fault(revision=2, state="recovered")).turns(15)
    assert "proposal" not in told.api.annotations("Node", "node-1")


def test_a_hostile_kind_makes_no_command_of_its_own(told: World) -> None:
    told.annotator("--propose-taints").list().hear(*events()[:3], fault(kind="x; rm -rf / #`$(id)`\n")).turns()
    command = told.api.annotations("Node", "node-1")["proposal"]["command"]
    assert command == "kubectl taint nodes node-1 paceline.dev/suspect=x-rm-rf-id-n:PreferNoSchedule"


@pytest.mark.long
def test_no_taint_is_proposed_unasked_or_for_less(told: World) -> None:
    told.annotator().list().hear(*events()).turns()
    assert "proposal" not in told.api.annotations("Node", "node-1")
    told.annotator("--propose-taints").list().hear(*events()[:3], fault(severity="warning")).turns(15)
    assert "proposal" not in told.api.annotations("Node", "node-1")


def conditions(world: World) -> dict[str, dict[str, str]]:
    return {one["type"]: one for one in world.api.get("Node", "node-1")["status"]["conditions"]}


@pytest.mark.long
def test_a_condition_follows_the_findings(told: World) -> None:
    made = told.annotator("--node-condition").list().hear(*events()[:3]).turns()
    first = conditions(told)["PacelineHealthy"]
    assert (first["status"], first["reason"]) == ("True", "NoFinding")
    assert conditions(told)["Ready"] == {"type": "Ready", "status": "True"}
    made.hear(fault()).turns()
    second = conditions(told)["PacelineHealthy"]
    assert (second["status"], second["reason"]) == ("False", "DeviceFault")
    assert second["lastTransitionTime"] > first["lastTransitionTime"]
    made.hear(fault(revision=2, state="recovered")).turns()
    assert conditions(told)["PacelineHealthy"]["status"] == "True"


def test_a_condition_is_not_written_again_after_a_restart(told: World) -> None:
    told.annotator("--node-condition").list().hear(*events()).turns()
    before = told.api.count("PATCH", "/status")
    told.annotator("--node-condition").list().hear(*events()).turns()
    assert told.api.count("PATCH", "/status") == before == 1


def test_no_condition_is_written_unasked(told: World) -> None:
    told.annotator().list().hear(*events()).turns()
    assert list(conditions(told)) == ["Ready"]
