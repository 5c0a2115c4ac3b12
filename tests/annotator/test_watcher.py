"""How the annotator knows what pods and nodes there are: pages, changes, gaps, and a server that breaks off."""

import threading
from collections.abc import Callable, Iterator
from typing import Any

import pytest

from annotator.kube_api import PODS
from annotator.watcher import PAGE, Watcher
from tests.annotator.api_server import Asked
from tests.annotator.world import NOW_S, Running, World, held_by, node_described, stamp

Until = Callable[..., Any]


@pytest.fixture
def watching(world: World, until: Until) -> Iterator[Running]:
    """An annotator whose watches are open."""
    world.node()
    running = world.annotator()
    for watcher in running.parts.watchers:
        watcher.thread.start()
    until(lambda: world.api.opened >= len(running.parts.watchers))
    yield running
    world.api.break_watches()


def names(running: Running) -> set[str]:
    return {pod.ref.name for pod in list(running.parts.objects.pods.values())}


def is_watch(asked: Asked) -> bool:
    return asked.query.get("watch") == "true" and "pods" in asked.path


def test_pods_come_change_and_go(watching: Running, until: Until) -> None:
    world = watching.world
    world.pod("a")
    until(lambda: names(watching) == {"a"})
    world.api.annotate("Pod", "a", "ml", **{"paceline.dev/job": "{}", "other": "x"})
    until(lambda: watching.parts.objects.pod("ml", "a").annotations == {"job": "{}"})
    world.api.delete("Pod", "a", "ml")
    until(lambda: not names(watching))


def test_a_pod_that_has_ended_or_runs_nowhere_yet_is_left_out(watching: Running, until: Until) -> None:
    world = watching.world
    world.api.put("Pod", "pending", "ml", spec={}, status={"phase": "Pending"})
    world.pod("a")
    until(lambda: names(watching) == {"a"})
    world.api.put("Pod", "a", "ml", spec={"nodeName": "node-1"}, status={"phase": "Succeeded"})
    until(lambda: not names(watching))


def test_a_namesake_may_come_before_its_predecessor_goes(watching: Running, until: Until) -> None:
    """Its deletion must not take the new one with it."""
    world = watching.world
    first = world.pod("a")
    until(lambda: names(watching) == {"a"})
    world.api.delete("Pod", "a", "ml")
    second = world.pod("a")
    until(lambda: watching.parts.objects.pod("ml", "a") and watching.parts.objects.pod("ml", "a").ref.uid == second)
    assert first not in watching.parts.objects.pods


@pytest.mark.long
def test_a_watch_that_breaks_off_goes_on_where_it_was(watching: Running, until: Until) -> None:
    """No second list is read, and nothing in between is missed."""
    world = watching.world
    world.pod("a")
    until(lambda: names(watching) == {"a"})
    world.api.break_watches()
    world.pod("b")
    until(lambda: names(watching) == {"a", "b"})
    assert watching.parts.watchers[0].lists == 1
    assert watching.parts.watchers[0].watches >= 2


def test_a_version_that_is_forgotten_is_a_new_list(watching: Running, until: Until) -> None:
    """What was deleted in the gap is gone then."""
    world = watching.world
    world.pod("a")
    until(lambda: names(watching) == {"a"})
    world.api.fail(is_watch, 410, times=1)
    world.api.break_watches()
    with world.api.changed:
        world.api.delete("Pod", "a", "ml")
        world.pod("b")
        world.api.forget()
    until(lambda: names(watching) == {"b"})
    assert watching.parts.watchers[0].lists >= 2


@pytest.mark.slow
def test_bookmarks_keep_a_quiet_watch_young(watching: Running, until: Until) -> None:
    """Other kinds change and versions are forgotten: a watch that heard bookmarks alone need not list again."""
    world = watching.world
    until(lambda: all(watcher.listed for watcher in watching.parts.watchers))
    for at in range(5):
        world.node(f"other-{at}")
    version = str(world.api.served.version)
    until(lambda: watching.parts.watchers[0]._version == version)
    world.api.forget()
    world.api.break_watches()
    world.pod("a")
    until(lambda: names(watching) == {"a"})
    assert watching.parts.watchers[0].lists == 1


@pytest.mark.long
def test_a_server_that_is_away_is_seen_and_waited_for(watching: Running, until: Until) -> None:
    world = watching.world
    until(lambda: watching.parts.watchers[0].listed)
    world.api.fail(is_watch, 503, times=10_000)
    world.api.break_watches()
    until(lambda: "broke off" in (watching.parts.watchers[0].waits() or ""))
    world.api.faults.clear()
    until(lambda: watching.parts.watchers[0].waits() is None)


def test_a_missing_right_is_told_once_and_holds_nothing_up(world: World, until: Until) -> None:
    """Without nodes, pods are told all the same."""
    world.api.rules = {"pods": [{"apiGroups": [""], "resources": ["pods"], "verbs": ["list", "watch", "patch"]}]}
    world.pod("a")
    running = world.annotator(token="pods")
    for watcher in running.parts.watchers:
        watcher.thread.start()
    until(lambda: all(watcher.waits() is None for watcher in running.parts.watchers))
    assert [line for line in world.said if "may not list nodes" in line and "fix: add" in line]
    assert names(running) == {"a"}


def test_only_the_named_namespaces_are_looked_at(world: World) -> None:
    world.node()
    for namespace in ("ml", "web", "other"):
        meta = {"creationTimestamp": stamp(NOW_S)}
        world.api.put(
            "Pod", namespace, namespace, metadata=meta, spec={"nodeName": "node-1"}, status={"phase": "Running"}
        )
    running = world.annotator("--namespace", "ml", "--namespace", "web").list()
    assert names(running) == {"ml", "web"}
    asked = {one.path for one in world.api.asked if "pods" in one.path}
    assert asked == {"/api/v1/namespaces/ml/pods", "/api/v1/namespaces/web/pods"}


@pytest.mark.long
def test_a_long_list_is_read_in_pages(world: World) -> None:
    for at in range(PAGE + 10):
        world.pod(f"p-{at:04}")
    running = world.annotator().list()
    assert len(names(running)) == PAGE + 10
    assert world.api.count("GET", "/pods") == 2


@pytest.mark.long
def test_pages_that_are_forgotten_in_the_middle_are_read_anew(world: World) -> None:
    for at in range(PAGE + 10):
        world.pod(f"p-{at:04}")
    world.api.fail(lambda asked: "continue" in asked.query, 410, times=1)
    running = world.annotator().list()
    assert len(names(running)) == PAGE + 10
    assert running.parts.watchers[0].lists == 1


def test_nodes_are_asked_for_their_metadata_alone(world: World) -> None:
    world.node()
    world.annotator().list()
    (asked,) = [one for one in world.api.asked if one.path == "/api/v1/nodes"]
    assert ";as=PartialObjectMetadataList;" in asked.query["accept"]


@pytest.mark.slow
def test_nodes_come_as_metadata_from_lists_and_watches(world: World, monkeypatch: pytest.MonkeyPatch) -> None:
    """The server sends whole objects where it does not know what is asked for: it must not."""
    world.node()
    seen = list[Any]()
    watcher = world.annotator().parts.watchers[-1]
    monkeypatch.setattr(watcher, "_known", lambda raw: seen.append(bytes(raw)))
    watcher.list_all()
    world.node("node-2")
    monkeypatch.setattr("annotator.watcher.WATCH_S", (1, 1))
    watcher.watch_once()
    assert len(seen) == 2
    assert all(b'"PartialObjectMetadata"' in one and b"status" not in one for one in seen)


def test_what_cannot_be_read_is_counted_and_passed_over(world: World) -> None:
    """Objects of a newer or a broken server."""
    world.api.put("Pod", "odd", "ml", spec={"nodeName": 7}, status={"phase": "Running"})
    world.api.put(
        "Pod", "deep", "ml", metadata={"annotations": {"paceline.dev/job": "x" * 200_000}}, spec={"nodeName": "n"}
    )
    world.pod("a")
    running = world.annotator().list()
    assert names(running) == {"a", "deep"}
    assert running.parts.watchers[0].unusable == 1
    assert len(running.parts.objects.pod("ml", "deep").annotations["job"]) < 10


def test_a_line_without_an_end_is_not_read_for_ever(world: World, monkeypatch: pytest.MonkeyPatch) -> None:
    """A server that sends one endless line is left."""
    monkeypatch.setattr("annotator.kube_api.MOST_LINE_BYTES", 10_000)
    world.pod("a")
    running = world.annotator().list()
    watcher = Watcher(
        running.parts.api, PODS, "", running.parts.objects, threading.Lock(), threading.Event(), world.said.append
    )
    watcher.list_all()
    world.api.annotate("Pod", "a", "ml", big="x" * 200_000)
    watcher._version = "100"
    with pytest.raises(Exception, match="a line of more than"):
        watcher.watch_once()


def test_a_late_pod_is_told_when_it_comes(world: World) -> None:
    """The kubelet tells of a pod before our watch does."""
    world.node()
    made = world.annotator("--no-events").list().hear(node_described(pods=held_by("node-1", "late"))).turns()
    world.pod("late")
    from tests.annotator.world import job

    made.hear(job(pod="late")).list().turns(12)
    assert "job" in world.api.annotations("Pod", "late", "ml")


@pytest.mark.slow
def test_watches_that_end_at_once_are_begun_more_and_more_seldom(watching: Running, until: Until) -> None:
    """A proxy in between may end each; the wait doubles from 0.2 s."""
    world, watcher = watching.world, watching.parts.watchers[0]
    until(lambda: watcher.watches)
    kept = world.api.answer
    world.api.answer = lambda asked, token: (  # type: ignore[method-assign]
        (200, iter(())) if is_watch(asked) else kept(asked, token)
    )
    world.api.break_watches()
    until(lambda: "ended immediately" in watcher.trouble and watcher._backoff._failures >= 3)
    assert watcher.watches < 20


@pytest.mark.slow
def test_versions_that_are_forgotten_again_and_again_are_waited_for(watching: Running, until: Until) -> None:
    world, watcher = watching.world, watching.parts.watchers[0]
    until(lambda: watcher.watches)
    world.api.fail(is_watch, 410, times=1_000_000)
    world.api.break_watches()
    until(lambda: watcher._backoff._failures >= 3)
    assert watcher.lists < 20
