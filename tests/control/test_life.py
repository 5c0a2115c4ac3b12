"""Sessions by the commands of docs/sessions.md: recorder and control are killed, and nothing is lost."""

import json
import socket
from collections.abc import Callable
from pathlib import Path

import pytest

from control.sessions.manifest import read_manifest
from tests.control.conftest import Cluster, Collector
from tests.patience import PATIENCE_S

pytestmark = [pytest.mark.e2e, pytest.mark.bus]


def numbers(path: Path, collector: Collector) -> list[int]:
    """The numbers of a collector's messages in a recording."""
    values = [json.loads(row)["value"] for row in path.read_text().splitlines()]
    return [value["sequence"] for value in values if value.get("producer") == collector.name]


@pytest.mark.exactly_once
def test_nothing_is_lost_when_recorder_and_control_are_killed(
    cluster: Cluster, collector: Collector, until: Callable[..., None], tmp_path: Path
) -> None:
    """The session is told as interrupted, recovered by its name, and holds every message once."""
    assert cluster.run("session", "start", "mine", "--nodes", collector.node).returncode == 0
    until(lambda: cluster.state("mine") == "recording")
    collector.publish(200)
    assert cluster.control is not None
    cluster.kill(cluster.control.pid)
    cluster.control.wait()
    collector.publish(200)
    cluster.start()
    until(lambda: cluster.state("mine") == "recording")
    cluster.kill(*cluster.recorders())
    until(lambda: cluster.state("mine") == "interrupted")
    assert cluster.session("status", "mine")["state"] == "interrupted"
    collector.publish(200)
    refused = cluster.run("session", "stop", "mine")
    assert refused.returncode == 1
    assert "recover it" in refused.stderr
    assert [one["name"] for one in cluster.session("recover")] == ["mine"]
    recovered = cluster.session("recover", "mine")
    assert (recovered["state"], recovered["missing"], recovered["proof"]["complete"]) == ("stopped", 0, True)
    out = tmp_path / "mine.jsonl"
    assert cluster.run("session", "export", "mine", "-o", str(out)).returncode == 0
    assert numbers(out, collector) == list(range(600))
    assert cluster.run("session", "delete", "mine").returncode == 0
    # Others may be told of on a broker that tests share.
    until(lambda: "mine" not in [one["name"] for one in cluster.asked("/v1/sessions")["sessions"]])
    assert "mine" not in [one["name"] for one in cluster.session("list")]


def test_a_control_that_is_told_to_end_goes_on_with_its_sessions_when_it_starts_again(
    cluster: Cluster, collector: Collector, until: Callable[..., None], tmp_path: Path
) -> None:
    cluster.session("start", "mine", "--nodes", collector.node)
    until(lambda: cluster.state("mine") == "recording")
    collector.publish(100)
    assert cluster.control is not None
    cluster.control.terminate()
    assert cluster.control.wait() == 0
    until(lambda: not cluster.recorders())
    collector.publish(100)
    cluster.start()
    until(lambda: cluster.state("mine") == "recording")
    collector.publish(100)
    assert cluster.session("stop", "mine")["state"] == "stopped"
    out = tmp_path / "mine.jsonl"
    cluster.run("session", "export", "mine", "-o", str(out))
    assert numbers(out, collector) == list(range(300))


def test_half_a_request_keeps_no_recorder_from_ending_with_its_control(
    cluster: Cluster, collector: Collector, until: Callable[..., None]
) -> None:
    """Recorders are told to end first, and close what they have; whoever sends no more is not waited for."""
    cluster.session("start", "mine", "--nodes", collector.node)
    until(lambda: cluster.state("mine") == "recording")
    assert cluster.control is not None
    with socket.create_connection(("127.0.0.1", cluster.port)) as client:
        client.sendall(b"POST /v1/sessions HTTP/1.1\r\nHost: 127.0.0.1\r\nContent-Length: 100\r\n\r\n{")
        assert cluster.state("mine") == "recording", "what came later is answered: the half is read"
        cluster.control.terminate()
        assert cluster.control.wait(PATIENCE_S) == 0
        until(lambda: not cluster.recorders())
    (manifest,) = cluster.home.rglob("mine/manifest.json")
    state = read_manifest(manifest).state
    assert (state.state, "its recorder was stopped" in state.reason) == ("interrupted", True)


def test_without_control_and_with_a_wrong_token_it_is_one_line(cluster: Cluster, free_port: Callable[[], int]) -> None:
    """Cause and mend, and status 1."""
    away = cluster.run("session", "--control", f"http://127.0.0.1:{free_port()}", "list")
    cluster.environ["PACELINE_CONTROL_TOKEN"] = "wrong"
    wrong = cluster.run("session", "start", "mine")
    for done, words in ((away, "paceline control"), (wrong, "the token is wrong")):
        assert done.returncode == 1
        (said,) = done.stderr.splitlines()
        assert words in said
    assert "control.token" in wrong.stderr
