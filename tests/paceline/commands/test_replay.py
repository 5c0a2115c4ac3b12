"""Record and replay, on both brokers; and what of a recording goes onto the bus."""

import os
import secrets
import signal
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import msgspec
import pytest

from paceline import topics
from paceline.commands.replay import playable, renamed
from paceline.kafka.settings import BrokerSettings
from paceline.recording import Bad, Line, Writer, read
from paceline.selection import Selection


def line(topic: str, key: str | None, value: dict[str, object], number: int = 1) -> Line:
    return Line(number, topic, key, 1000 * number, msgspec.json.encode(value))


def paceline(*arguments: str, brokers: str) -> "subprocess.Popen[str]":
    command = [sys.executable, "-m", "paceline", *arguments]
    return subprocess.Popen(command, stderr=subprocess.PIPE, text=True, env={**os.environ, "PACELINE_BROKERS": brokers})


@pytest.mark.bus
def test_what_is_replayed_can_be_recorded_again(
    broker: BrokerSettings, tmp_path: Path, until: Callable[..., None]
) -> None:
    """Same topics, keys and bytes, in the same order; another job's messages stay out."""
    job = f"job-{secrets.token_hex(4)}"
    first, second = tmp_path / "first.jsonl.gz", tmp_path / "second.jsonl"
    writer = Writer(str(first))
    for number in range(20):
        for name in (job, "other"):
            writer.write("paceline.balance.v1", name, number, msgspec.json.encode({"job": name, "n": number}))
    writer.write("paceline.balance.v1", job, 20, b"\xff no JSON")
    writer.close()
    recorder = paceline("record", "--job", job, "-o", str(second), brokers=broker.address)
    assert recorder.stderr is not None
    assert "recording" in recorder.stderr.readline()

    def replayed() -> bool:
        # The recorder joins when it joins: what came before is not on the tape, so replay until it is.
        sent = paceline("replay", str(first), "--speed", "0", brokers=broker.address)
        _, said = sent.communicate()
        assert sent.returncode == 0, said
        return len([found for found in read(str(second)) if isinstance(found, Line)]) >= 21

    until(replayed)
    recorder.send_signal(signal.SIGINT)
    recorder.communicate()
    assert recorder.returncode == 0
    want = [(found.key, found.value) for found in read(str(first)) if isinstance(found, Line) and found.key == job]
    got = [(found.key, found.value) for found in read(str(second)) if isinstance(found, Line)]
    assert got[-21:] == want


@pytest.mark.slow
@pytest.mark.parametrize("command", [["record", "-o", "x.jsonl"], ["replay"]])
def test_an_absent_broker_is_one_line_and_status_1(tmp_path: Path, command: list[str]) -> None:
    """With the address."""
    recording = tmp_path / "run.jsonl"
    recording.write_bytes(b"")
    arguments = [*command, str(recording)] if command == ["replay"] else ["record", "-o", str(recording)]
    process = paceline(*arguments, brokers="127.0.0.1:1")
    _, err = process.communicate()
    assert (process.returncode, len(err.splitlines())) == (1, 1)
    assert "127.0.0.1:1" in err


def test_derived_topics_and_dead_letters_stay_in_the_recording() -> None:
    """Workers derive them again; nobody asks again for what was asked then; unknown topics are bad lines."""
    short = ("balance", "finding", "window", "deadletter", "command", "audit", "job")
    lines = [line(f"paceline.{name}.v1", "j", {"job": "j"}) for name in short]
    lines.append(line("elsewhere", "j", {}))
    found = list(playable(iter(lines), derived=False, job=None))
    assert [item.topic for item in found if isinstance(item, Line)] == ["paceline.balance.v1", "paceline.job.v1"]
    assert [item.reason for item in found if isinstance(item, Bad)] == ["no topic 'elsewhere'"]


def test_a_renamed_job_is_no_duplicate() -> None:
    """Job, key and producer change together; a node's own messages stay as they are."""
    own = renamed(line("paceline.job.v1", "j/n1", {"job": "j", "producer": "p", "x": [1]}), "again")
    assert own.key == "again/n1"
    assert msgspec.json.decode(own.value) == {"job": "again", "producer": "p-again", "x": [1]}
    host = line("paceline.host.v1", "n1", {"node": "n1", "producer": "p"})
    assert renamed(host, "again") == host


def test_a_renamed_job_is_renamed_in_binary_messages_too() -> None:
    """Its columns, and what this version does not know, stay as they are."""
    raw = {"job": "j", "producer": "p", "rank": ["u1", b"\x00\x01"], "later": {"x": 1.5}}
    found = renamed(Line(1, topics.OP.name, "j", 0, msgspec.msgpack.encode(raw)), "again")
    assert found.key == "again"
    assert msgspec.msgpack.decode(found.value) == raw | {"job": "again", "producer": "p-again"}
    noise = Line(1, topics.OP.name, "j", 0, b"\xc1 no MessagePack")
    assert renamed(noise, "again") == noise


def test_a_selection_learns_nodes_from_binary_messages_too() -> None:
    """Of the job alone."""
    selection = Selection("j")
    assert selection.takes(topics.OP.name, "j", msgspec.msgpack.encode({"job": "j", "node": "n1", "rank": b""}))
    assert selection.takes(topics.OP.name, "j", b"\xc1")
    assert selection.nodes == {"n1"}


def test_a_selection_of_one_cluster_takes_nothing_of_another() -> None:
    """Of a job, its nodes and all; what names no cluster is taken by its key."""
    selection, whole = Selection("j", cluster="east"), Selection(cluster="east")
    for cluster, taken in (("west", False), ("east", True)):
        value = b'{"cluster":"%s","job":"j","node":"n1"}' % cluster.encode()
        assert selection.takes("paceline.balance.v1", "j", value) is taken
        assert selection.takes("paceline.job.v1", "j/n1", value) is taken
        assert whole.takes("paceline.balance.v1", "other", value) is taken
    assert not selection.takes("paceline.host.v1", "n1", b'{"cluster":"west","node":"n1"}')
    assert selection.takes("paceline.host.v1", "n1", b'{"cluster":"east","node":"n1"}')
    assert selection.takes("paceline.balance.v1", "j", b"\xff no JSON")


def test_a_selection_takes_the_job_and_its_nodes() -> None:
    """Node samples count from the job's first message on that node on; other jobs never."""
    selection = Selection("j")
    sample = ("paceline.host.v1", "n1", b'{"node":"n1"}')
    assert not selection.takes(*sample)
    assert selection.takes("paceline.balance.v1", "j", b'{"job":"j","node":"n1"}')
    assert selection.takes(*sample)
    assert selection.takes("paceline.job.v1", "j/n2", b'{"job":"j","node":"n2"}')
    assert not selection.takes("paceline.job.v1", "jj/n2", b"{}")
    assert not selection.takes("paceline.balance.v1", "other", b"{}")
    assert selection.takes("paceline.balance.v1", "j", b"\xff no JSON")
