"""Events of Kubernetes: one a finding and pod, however often it is told and by whoever."""

from typing import Any

import pytest

from tests.annotator.world import World, device_samples, held_by, job, node_described
from tests.derived_events import HOSTILE, finding


@pytest.fixture
def told(world: World) -> World:
    world.node()
    world.pod("train-0")
    return world


def events(**changes: Any) -> tuple[Any, ...]:
    described = node_described(pods=held_by("node-1", "train-0"))
    return described, device_samples(), job(pod="train-0"), finding(cluster="default", **changes)


def test_a_confirmed_finding_is_an_event_at_the_pod(told: World) -> None:
    told.annotator().list().hear(*events()).turns()
    (event,) = told.api.all("Event")
    assert (event["type"], event["reason"], event["action"]) == ("Warning", "Straggler", "Analyzed")
    pod = told.api.get("Pod", "train-0", "ml")["metadata"]
    assert event["regarding"] == {
        "apiVersion": "v1",
        "kind": "Pod",
        "namespace": "ml",
        "name": "train-0",
        "uid": pod["uid"],
    }
    assert event["related"] == {"apiVersion": "v1", "kind": "Node", "name": "node-1"}
    assert event["reportingController"] == "paceline.dev/annotator"
    assert "rank 3" in event["note"]


def test_what_is_delivered_three_times_is_told_once(told: World) -> None:
    """And not again after a restart, for the Event is there."""
    made = told.annotator().list()
    for _ in range(3):
        made.hear(*events(), finding(cluster="default", revision=2)).turns()
    told.annotator().list().hear(*events(revision=2)).turns(10)
    assert len(told.api.all("Event")) == 1
    assert told.api.all("Event")[0].get("series") is None
    assert told.api.count("POST") == 2  # The second annotator asked, and heard that it is there.


def test_a_finding_that_stands_for_long_becomes_a_series(told: World) -> None:
    made = told.annotator().list().hear(*events()).turns()
    for _ in range(2):
        told.now_s += 1900
        made.hear(device_samples(at_s=told.now_s), finding(cluster="default", revision=5)).turns()
    (event,) = told.api.all("Event")
    assert event["series"]["count"] == 3
    assert event["eventTime"] < event["series"]["lastObservedTime"]


def test_an_event_that_has_expired_is_made_anew_while_the_finding_stands(told: World) -> None:
    """The API server lets go of Events after an hour."""
    made = told.annotator().list().hear(*events()).turns()
    told.api.delete("Event", told.api.all("Event")[0]["metadata"]["name"], "ml")
    told.now_s += 1900
    made.turns()
    assert len(told.api.all("Event")) == 1


def test_a_recovery_is_told_once(told: World) -> None:
    made = told.annotator().list().hear(*events()).turns()
    made.hear(finding(cluster="default", revision=2, state="recovered")).turns(10)
    told.annotator().list().hear(*events(), finding(cluster="default", revision=2, state="recovered")).turns(10)
    assert [(one["type"], one["reason"]) for one in told.api.all("Event")] in (
        [("Warning", "Straggler"), ("Normal", "StragglerRecovered")],
        [("Normal", "StragglerRecovered"), ("Warning", "Straggler")],
    )


def test_what_another_finding_reports_from_now_on_has_not_recovered(told: World) -> None:
    """The trouble goes on: its pod has the Event of the other finding."""
    made = told.annotator().list().hear(*events()).turns()
    replaced = finding(cluster="default", revision=2, state="recovered", replaced_by="f2")
    made.hear(replaced, finding(cluster="default", id="f2")).turns(10)
    assert [(one["type"], one["reason"]) for one in told.api.all("Event")] == [("Warning", "Straggler")] * 2


def test_what_was_over_long_ago_or_never_confirmed_is_told_to_nobody(told: World) -> None:
    made = told.annotator().list().hear(*events(state="suspected"))
    made.hear(finding(cluster="default", revision=2, state="recovered")).turns()
    made.hear(finding(cluster="default", id="f2"), finding(cluster="default", id="f2", revision=2, state="recovered"))
    told.now_s += 700
    made.turns()
    assert told.api.all("Event") == []


@pytest.mark.long
def test_many_pods_and_findings_are_told_slowly(world: World) -> None:
    """Sixty a minute, and sixteen pods of one finding."""
    world.node()
    pods = []
    for at in range(30):
        world.pod(f"p-{at}")
        pods += held_by("node-1", f"p-{at}", [0])
    made = world.annotator("--rate", "1000").list()
    made.hear(node_described(pods=pods), finding(cluster="default", ranks=[], first_step=-1, devices=["GPU-node-1-0"]))
    made.turns(3)
    assert len(world.api.all("Event")) == 16
    for at in range(10):
        told = finding(cluster="default", id=f"g{at}", ranks=[], first_step=-1, devices=["GPU-node-1-0"])
        made.hear(told)
    made.turns(3)
    assert len(world.api.all("Event")) <= 60 + 18


def test_hostile_names_make_sound_events(told: World) -> None:
    """The server validates; nothing that is not to be seen is in a note."""
    long = "\U0001f600" * 5000
    made = told.annotator().list().hear(*events())
    made.hear(
        finding(cluster="default", id=HOSTILE, kind=HOSTILE + long, job="train", summary=HOSTILE, severity=HOSTILE)
    )
    made.hear(finding(cluster="default", id=long, kind="", job="train", cause=long)).turns(10)
    assert len(told.api.all("Event")) == 3
    assert all(one["note"].isprintable() for one in told.api.all("Event"))
    assert told.said == []


def test_events_can_be_left_out(told: World) -> None:
    told.annotator("--no-events").list().hear(*events()).turns()
    assert told.api.all("Event") == []


def test_an_event_that_was_refused_is_tried_again_and_counted_when_it_is_told(told: World) -> None:
    told.api.fail(lambda asked: asked.method == "POST", 403, times=1)
    made = told.annotator().list().hear(*events()).turns(20)
    assert (told.api.count("POST"), made.parts.annotating.events) == (1, 0)
    told.now_s += 600
    made.turns(2)
    assert (len(told.api.all("Event")), made.parts.annotating.events) == (1, 1)
