"""The door to Kubernetes' API: whom it talks to, how much it takes, and what it may."""

from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import kubernetes_validate
import pytest
import yaml

from tests.trials.kube_cluster import Cluster
from tests.trials.kube_world import World
from trials import kube_client
from trials.executor import ExecutorError
from trials.kube_client import AwayError, KubeClient, RefusedError, configuration
from trials.kube_options import KubernetesOptions, read

ROLE = Path(__file__).parents[2] / "deploy" / "kubernetes" / "trial-role.yaml"


@pytest.fixture
def world(free_port: Callable[[], int], tmp_path: Path) -> Iterator[World]:
    with Cluster(free_port()) as cluster:
        yield World(cluster, tmp_path)


def options(world: World) -> KubernetesOptions:
    return read(world.options)


def kubeconfig(path: Path, **cluster: Any) -> KubernetesOptions:
    told = {
        "clusters": [{"name": "a", "cluster": cluster}], "users": [{"name": "a", "user": {}}],
        "contexts": [{"name": "a", "context": {"cluster": "a", "user": "a"}}], "current-context": "a",
    }  # fmt: skip
    path.write_text(yaml.safe_dump(told))
    return read({"name": "a", "folder": "/f", "image": "i", "kubeconfig": str(path)})


@pytest.mark.parametrize(
    ("cluster", "said"),
    [
        ({"server": "http://10.0.0.1"}, "not encrypted"),
        ({"server": "https://10.0.0.1", "insecure-skip-tls-verify": True}, "insecure-skip-tls-verify"),
    ],
)
def test_whom_it_cannot_trust_it_does_not_ask(tmp_path: Path, cluster: dict[str, Any], said: str) -> None:
    """A token would go to anybody."""
    with pytest.raises(ExecutorError, match=said):
        configuration(kubeconfig(tmp_path / "config", **cluster), {})


@pytest.mark.parametrize("text", ["", "[]", "a: [", "current-context: b"])
def test_a_kubeconfig_that_is_none_is_told(tmp_path: Path, text: str) -> None:
    """In a sentence that says what may stand there."""
    made = kubeconfig(tmp_path / "config", server="https://10.0.0.1")
    (tmp_path / "config").write_text(text)
    with pytest.raises(ExecutorError, match=r"no login to Kubernetes.*kubeconfig"):
        configuration(made, {})


def test_a_long_log_is_read_to_its_end_and_kept_in_part(world: World, monkeypatch: pytest.MonkeyPatch) -> None:
    """The document stands at the end; what is before is let go."""
    monkeypatch.setattr(kube_client, "MOST_LOG", 1000)
    world.executor.start(world.job())
    world.cluster.begin()
    name = world.cluster.pod()["metadata"]["name"]
    world.cluster.logs[name] = b"x" * 300_000 + b"\nend"
    asking = KubeClient(options(world))
    assert asking.log(name) == (b"x" * 996 + b"\nend")
    monkeypatch.setattr(kube_client, "MOST_LOG_READ", 70_000)
    told = asking.log(name)
    assert told is not None
    assert not told.endswith(b"end")
    assert asking.log("another") is None
    world.cluster.waiting("ContainerCreating")
    del world.cluster.logs[name]
    assert asking.log(name) is None
    asking.close()
    world.executor.close()


def test_an_answer_that_is_too_long_is_refused(world: World, monkeypatch: pytest.MonkeyPatch) -> None:
    """And not held in memory."""
    monkeypatch.setattr(kube_client, "MOST_BYTES", 100)
    asking = KubeClient(options(world))
    world.cluster.put("Job", "a", "ml", spec={"x": "y" * 200})
    with pytest.raises(ExecutorError, match="more than 100 bytes"):
        asking.get("jobs", "a")
    asking.close()


def test_what_is_not_there_is_no_error(world: World) -> None:
    """Neither is another one of a name where one was to be deleted."""
    asking = KubeClient(options(world))
    assert asking.get("jobs", "a") is None
    assert asking.delete("jobs", "a") is False
    world.cluster.put("Job", "a", "ml", spec={})
    assert asking.delete("jobs", "a", "another-uid") is False
    assert world.cluster.left() == ["Job a"]
    asking.close()


@pytest.mark.parametrize(
    ("code", "kind"),
    [(400, RefusedError), (403, RefusedError), (422, RefusedError), (429, AwayError), (502, AwayError)],
)
def test_refusals_and_absence_are_told_apart(world: World, code: int, kind: type[Exception]) -> None:
    """What another time may be granted, and what not; a server's words are one line."""
    world.cluster.fail(lambda _: True, code, message="no\x1b[2J\nway")
    asking = KubeClient(options(world))
    with pytest.raises(kind, match=r"no \[2J way"):
        asking.list("jobs")
    asking.close()


def test_the_role_is_what_kubernetes_takes() -> None:
    """As a person applies it."""
    made = list(yaml.safe_load_all(ROLE.read_text()))
    assert [one["kind"] for one in made] == ["Role", "RoleBinding"]
    for one in made:
        for version in ("1.28", "1.37"):
            kubernetes_validate.validate(one, version, strict=True)


@pytest.mark.slow
def test_no_right_of_the_role_is_idle(free_port: Callable[[], int], tmp_path: Path) -> None:
    """Without any one of them a trial's life ends in an error; but for the events, which only say why."""
    rules = next(yaml.safe_load_all(ROLE.read_text()))["rules"]
    with Cluster(free_port(), {"token": rules}) as cluster:
        assert _life(World(cluster, tmp_path, "token")) is None
        for at, rule in enumerate(rules):
            for verb in rule["verbs"]:
                less = [
                    {**one, "verbs": [v for v in one["verbs"] if (n, v) != (at, verb)]} for n, one in enumerate(rules)
                ]
                cluster.rules = {"token": less}
                failed = _life(World(cluster, tmp_path, "token"))
                assert (failed is None) == (rule["resources"] == ["events"]), (rule, verb)
                cluster.rules = {"token": rules}
                World(cluster, tmp_path, "token").again()._sweep("", [])
                for kind in ("Secret", "Service"):  # No Job, so nothing of the trial names them any more.
                    for one in cluster.all(kind):
                        cluster.delete(kind, one["metadata"]["name"], "ml")


def _life(world: World) -> str | None:
    """A job of two nodes from start to end; the error that it ends in."""
    job = world.job(nodes=2)
    try:
        world.executor.start(job)
        world.executor = world.again()
        world.executor.start(job)
        world.cluster.begin(0), world.cluster.begin(1)
        world.cluster.finish(0, b"", 0), world.cluster.finish(0, b"", 1)
        world.poll(job)
        world.executor.close()
    except ExecutorError as error:
        return str(error)
    return None
