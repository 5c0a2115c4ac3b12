"""The command itself, on a bus and an API server: it writes what was published, is ready, is scraped, ends cleanly."""

import json
import os
import re
import shlex
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from shutil import which
from typing import Any
from urllib.error import HTTPError
from urllib.request import urlopen

import pytest

from paceline import topics, wire
from paceline.kafka import clients, embedded
from paceline.kafka.settings import BrokerSettings
from paceline.kafka.topic_admin import ensure_topics
from tests.annotator.world import World, device_samples, held_by, job, node_described, profile
from tests.derived_events import finding

Until = Callable[..., Any]
TOPICS = {
    "NodeDescribed": topics.NODE,
    "DeviceSamples": topics.DEVICE,
    "JobDescribed": topics.JOB,
    "JobProfile": topics.PROFILE,
    "Finding": topics.FINDING,
}
pytestmark = pytest.mark.e2e


@pytest.fixture
def bus() -> Iterator[BrokerSettings]:
    """A broker of its own: what it holds is what a test has published."""
    with embedded.start() as running:
        settings = BrokerSettings().with_brokers(running.address)
        ensure_topics(settings)
        yield settings


@pytest.fixture
def cluster(world: World) -> World:
    world.node()
    world.owner("Job", "train")
    world.pod("train-0", owner=("Job", "train"), creationTimestamp="2023-11-14T22:13:20Z")
    return world


def publish(bus: BrokerSettings, *events: Any, written_s: float | None = None) -> None:
    producer = clients.producer(bus, client_id="tests")
    written_ms = None if written_s is None else int(written_s * 1000)
    for event in events:
        topic = TOPICS[type(event).__name__]
        key = (wire.key_of(topic, event) or "").encode()
        producer.send(topic.name, key=key, value=wire.encode(event), timestamp_ms=written_ms)
    producer.flush()
    producer.close()


def told() -> tuple[Any, ...]:
    now_s = time.time()
    described = node_described(pods=held_by("node-1", "train-0"), time_s=now_s)
    return (
        described,
        device_samples(at_s=now_s),
        job(pod="train-0", started_s=now_s),
        profile(),
        finding(cluster="default"),
    )


def command(world: World, bus: BrokerSettings, *options: str) -> list[str]:
    own = ["--kubeconfig", str(world.kubeconfig()), "--brokers", bus.address]
    return [sys.executable, "-P", "-m", "paceline", "annotate", *own, *options]


@pytest.mark.landing
def test_the_service_writes_what_is_published(
    cluster: World, bus: BrokerSettings, free_port: Callable[[], int], until: Until, promtool: Callable[[str], None]
) -> None:
    """What was there before and what comes later; after SIGTERM it ends with status 0."""
    publish(bus, *told()[:3])
    port = free_port()
    with subprocess.Popen(command(cluster, bus, "--web-port", str(port)), stderr=subprocess.PIPE, text=True) as running:
        try:
            until(lambda: running.poll() is not None or "gpu-use" in cluster.api.annotations("Job", "train", "ml"))
            publish(bus, *told()[3:])
            until(lambda: running.poll() is not None or cluster.api.all("Event"))
            assert urlopen(f"http://127.0.0.1:{port}/readyz").status == 200
            metrics = urlopen(f"http://127.0.0.1:{port}/metrics").read().decode()
            promtool(metrics)
            assert 'paceline_annotator_objects{object="owner"} 1.0' in metrics
            assert 'paceline_annotator_writes_total{result="written"} 3.0' in metrics
            assert "paceline_annotator_ready 1.0" in metrics
        finally:
            running.terminate()
            said = running.communicate()[1]
    assert running.returncode == 0, said


def test_it_is_not_ready_while_the_api_is_away(
    cluster: World, bus: BrokerSettings, free_port: Callable[[], int], until: Until
) -> None:
    cluster.api.fail(lambda asked: True, 503, times=100_000)
    port = free_port()

    def asked() -> tuple[int, str]:
        try:
            with urlopen(f"http://127.0.0.1:{port}/readyz") as answer:
                return int(answer.status), answer.read().decode()
        except HTTPError as refused:
            return refused.code, refused.read().decode()
        except OSError:
            return 0, ""

    with subprocess.Popen(command(cluster, bus, "--web-port", str(port)), stderr=subprocess.PIPE, text=True) as running:
        try:
            until(lambda: running.poll() is not None or (asked()[0] == 503 and "the watch of pods" in asked()[1]))
            cluster.api.faults.clear()
            until(lambda: asked()[0] == 200)
        finally:
            running.terminate()
            running.communicate()


def test_once_writes_and_ends(cluster: World, bus: BrokerSettings) -> None:
    """And a second time there is nothing to write, however long that takes: the samples do not grow old meanwhile."""
    publish(bus, *told(), written_s=time.time() + 1800.0)
    ended = subprocess.run(command(cluster, bus, "--once"), capture_output=True, text=True, check=False)
    assert ended.returncode == 0, ended.stderr
    held = cluster.api.annotations("Job", "train", "ml")
    assert {"inventory", "gpu-use", "maxima", "job", "kind", "cycle", "finding"} <= held.keys()
    written = len(cluster.api.writes())
    again = subprocess.run(command(cluster, bus, "--once", "--no-events"), capture_output=True, text=True, check=False)
    assert again.returncode == 0, again.stderr
    assert len(cluster.api.writes()) == written


def test_once_says_what_it_may_not_do(cluster: World, bus: BrokerSettings) -> None:
    cluster.api.rules = {"all": [{"apiGroups": [""], "resources": ["pods", "nodes"], "verbs": ["list", "watch"]}]}
    publish(bus, *told())
    ended = subprocess.run(command(cluster, bus, "--once"), capture_output=True, text=True, check=False)
    assert ended.returncode == 1
    assert "may not patch nodes; fix: add" in ended.stderr
    assert cluster.api.annotations("Node", "node-1") == {}


def test_a_dry_run_prints_what_once_would_write(cluster: World, bus: BrokerSettings) -> None:
    publish(bus, *told())
    done = subprocess.run(command(cluster, bus, "--once", "--dry-run"), capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    kinds = {line["object"]["kind"] for line in map(json.loads, done.stdout.splitlines()) if "patch" in line}
    assert kinds == {"Node", "Pod", "Job"}
    assert cluster.api.writes() == []


def test_a_broker_that_is_away_is_told_in_a_line(cluster: World, free_port: Callable[[], int]) -> None:
    nobody = BrokerSettings().with_brokers(f"127.0.0.1:{free_port()}")
    ended = subprocess.run(command(cluster, nobody, "--once"), capture_output=True, text=True, check=False)
    assert ended.returncode == 1
    assert len(ended.stderr.splitlines()) <= 3
    assert "Traceback" not in ended.stderr


def kubectl() -> str:
    """The pinned one where the charts' tools are, else the machine's."""
    tools = Path(__file__).parents[2] / "deploy" / "helm" / "tools.sh"
    if tools.exists():
        done = subprocess.run([str(tools)], capture_output=True, text=True, check=True)
        return f"{done.stdout.strip()}/kubectl"
    found = which("kubectl")
    if found is None:
        pytest.skip("no kubectl here; fix: install it")
    return found


def test_kubectl_sees_what_was_written(cluster: World) -> None:
    """The server of the tests answers Kubernetes' own client, too: reading, annotating, patching with conditions."""
    program, config = kubectl(), str(cluster.kubeconfig())
    environ = {**os.environ, "HOME": str(cluster.folder)}

    def run(*words: str, fails: bool = False) -> str:
        line = [program, "--kubeconfig", config, "-n", "ml", *words]
        done = subprocess.run(line, capture_output=True, text=True, check=False, env=environ)
        assert (done.returncode != 0) == fails, done.stderr
        return done.stderr if fails else done.stdout

    cluster.annotator().list().hear(*told()).turns()
    path = r"jsonpath={.metadata.annotations.paceline\.dev/inventory}"
    assert json.loads(run("get", "node", "node-1", "-o", path))["gpus"][0]["count"] == 8
    run("annotate", "pod", "train-0", "example.org/mine=1")
    assert run("get", "pod", "train-0", "-o", r"jsonpath={.metadata.annotations.example\.org/mine}") == "1"
    stale = '{"metadata":{"resourceVersion":"1","annotations":{"a":"b"}}}'
    assert "modified" in run("patch", "pod", "train-0", "--type", "merge", "-p", stale, fails=True)
    assert "not found" in run("get", "pod", "other", fails=True)
    assert "train-0" in run("get", "pods", "--field-selector", "spec.nodeName=node-1", "-o", "name")
    # What the page shows, as it is typed there.
    page = (Path(__file__).parents[2] / "docs" / "annotations.md").read_text(encoding="utf-8")
    shown = re.findall(r"^kubectl (get .*)$", page, re.M)
    assert len(shown) == 4
    said = [run(*shlex.split(line.replace(" NODE ", " node-1 "))) for line in shown]
    assert all("schema_version" in line or "Straggler" in line for line in said), said
    assert "Straggler" in run("get", "events.events.k8s.io", "-o", "jsonpath={.items[*].reason}")
