"""The sidecar as a process: it takes reports, survives garbage, and ends when told.

Rule of this file: a sidecar is asked about all cases of one kind, a connection each. What needs no end shares one, by
ranks of its own.
"""

import importlib.util
import os
import signal
import socket
import stat
import subprocess
import sys
import time
from collections.abc import Callable, Iterator, Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from paceline import columns, topics, wire
from paceline.events import JobDescribed, StepTimings
from paceline.recording import Line, read
from paceline.training.look_messages import Looked, decode_look, encode_looked
from paceline.training.messages import (
    HELLO,
    MOST_HELLOS,
    PROTOCOL,
    Bye,
    LinkReport,
    Marks,
    Peer,
    Place,
    encode,
)
from tests.patience import PATIENCE_S

_spec = importlib.util.spec_from_file_location("rank", Path(__file__).parents[1] / "training" / "rank.py")
assert _spec is not None
assert _spec.loader is not None
rank = importlib.util.module_from_spec(_spec)
_spec.loader.exec_module(rank)


class Sidecar:
    """A running sidecar that records."""

    def __init__(self, until: Callable[..., bool], folder: Path, *options: str, record: str | None = None) -> None:
        self.path = folder / "own" / "ranks"
        self.recording = record or str(folder / "run.jsonl")
        command = ["--socket", str(self.path), "--record", self.recording, "--quiet", "--job", "made-up", *options]
        self.process = subprocess.Popen(
            [sys.executable, "-m", "paceline.sidecar", *command],
            stdin=subprocess.PIPE,
            stderr=subprocess.PIPE,
            env={**os.environ, "PACELINE_NODE": "n1"},
        )
        until(lambda: self.path.exists() or self.process.poll() is not None)

    def speaker(self) -> "rank.Speaker":
        made = rank.Speaker(str(self.path))
        made.socket.settimeout(PATIENCE_S)  # Of a sidecar that neither answers nor hangs up the test says so.
        return made

    def recorded(self, kind: type) -> list[object]:
        lines = (line for line in read(self.recording) if isinstance(line, Line))
        found = (wire.decode(topics.resolve(line.topic), line.value) for line in lines)
        return [event for event in found if isinstance(event, kind)]

    def steps(self) -> list[list[int]]:
        """The steps of each message."""
        return [list(columns.numbers(event.step)) for event in self.recorded(StepTimings)]

    def end(self, word: bytes = b"") -> str:
        """Hang up, and what it said on standard error."""
        _, said = self.process.communicate(word)
        return said.decode()


def hangs_up(speaker: "rank.Speaker") -> bool:
    """Read what a rank is told until the sidecar hangs up."""
    while speaker.socket.recv(4096):
        pass
    return True


@pytest.fixture(scope="module")
def shared(tmp_path_factory: pytest.TempPathFactory, until: Callable[..., bool]) -> Iterator[Sidecar]:
    """A sidecar that several tests speak to, each as another rank; nobody ends it."""
    made = Sidecar(until, tmp_path_factory.mktemp("shared"))
    yield made
    made.process.kill()
    made.process.communicate()


@pytest.fixture
def sidecar(tmp_path: Path, until: Callable[..., bool]) -> Iterator[Sidecar]:
    made = Sidecar(until, tmp_path)
    yield made
    made.process.kill()
    made.process.communicate()


@pytest.mark.slow
def test_what_a_rank_reports_is_recorded_to_the_last_row(sidecar: Sidecar) -> None:
    """Rows sent just before the parent hangs up are in the file, and so is the command's exit status."""
    speaker = sidecar.speaker()
    speaker.say(rank.hello())
    for step in range(50):
        speaker.say(rank.step(step))
    speaker.say(Bye(ended_s=time.time()))
    speaker.close()
    assert sidecar.end(b"exit 7\n") == ""
    assert [step for steps in sidecar.steps() for step in steps] == list(range(50))
    last = sidecar.recorded(JobDescribed)[-1]
    assert (last.job, last.node, last.exit_status) == ("made-up", "n1", 7)
    assert last.ended_s is not None


@pytest.mark.slow
@pytest.mark.parametrize(("place", "part"), [(None, ""), ("0", ""), ("3", "3")])
def test_one_of_several_sidecars_of_a_node_says_which(
    tmp_path: Path, until: Callable[..., bool], monkeypatch: pytest.MonkeyPatch, place: str | None, part: str
) -> None:
    """By the place of its task, in whose environment it runs; the first and the only one are alike."""
    if place is not None:
        monkeypatch.setenv("SLURM_PROCID", "11")
        monkeypatch.setenv("SLURM_LOCALID", place)
    sidecar = Sidecar(until, tmp_path)
    speaker = sidecar.speaker()
    speaker.say(rank.hello())
    speaker.close()
    assert sidecar.end() == ""
    assert {event.part for event in sidecar.recorded(JobDescribed)} == {part}


@pytest.mark.slow
def test_patience_is_how_long_a_sidecar_waits_for_ranks(tmp_path: Path, until: Callable[..., bool]) -> None:
    """With none for so long it ends by itself, long before it would otherwise."""
    sidecar = Sidecar(until, tmp_path, "--until-empty", "--patience", "0.1")
    assert sidecar.process.wait(timeout=PATIENCE_S) == 0
    assert sidecar.end() == ""


@pytest.mark.slow
def test_the_connections_of_a_rank_are_passed_on(sidecar: Sidecar) -> None:
    """With what their interface is rated at, which nobody knows of loopback."""
    peer = Peer(local="127.0.0.1:4000", remote="127.0.0.1:5000", rtt_s=0.0001)
    speaker = sidecar.speaker()
    speaker.say(rank.hello())
    link = LinkReport(2, 0.0001, 0, [peer])
    speaker.say(replace(rank.step(0), link=link))
    speaker.say(Bye(ended_s=time.time()))
    speaker.close()
    assert sidecar.end() == ""
    (link,) = [wire.readable(event.links) for event in sidecar.recorded(StepTimings) if event.links is not None]
    assert "rated_bytes_per_s" not in link
    assert (link["rank"], link["connections"], link["retransmits"], link["of"]) == ([0], [2], [0], [0])
    assert [*link["rtt_s"], *link["peer_rtt_s"]] == pytest.approx([0.0001, 0.0001])
    assert (link["local"], link["remote"]) == ([columns.end_of_link(peer.local)], [columns.end_of_link(peer.remote)])


@pytest.mark.slow
def test_the_socket_is_for_our_user_alone(shared: Sidecar) -> None:
    """Its folder admits nobody else."""
    assert stat.S_IMODE(shared.path.parent.stat().st_mode) == 0o700


GARBAGE = {
    "short": b"x",
    "random": os.urandom(1000),
    "long": b"\xc1" * 60_000,
    "nested": b"\x81" * 50_000,
    "marks before hello": encode(rank.step(0)),
}


@pytest.mark.slow
def test_garbage_costs_its_sender_the_connection_and_nobody_else(sidecar: Sidecar) -> None:
    """The others' rows arrive, and the count is told at the end."""
    good = sidecar.speaker()
    good.say(rank.hello())
    for name, garbage in GARBAGE.items():
        bad = sidecar.speaker()
        bad.say(garbage)
        assert bad.socket.recv(1) == b"", name
        bad.close()
    good.say(rank.step(3))
    good.close()
    assert f"{len(GARBAGE)} connections were dropped" in sidecar.end()
    assert sidecar.steps() == [[0]]


MARKS = [(1, 15, None), (1, 31, None), (1, 33, None), (1, 33, 7), (1, 0, 7), (1, 38, ("g",) * 6)]


@pytest.mark.slow
def test_marks_and_places_that_cannot_be_drop_the_connection(sidecar: Sidecar) -> None:
    """They may decode, but no timeline could use them, and no event tell of them: steps are counted on from a place."""
    for number, mark in enumerate(MARKS):
        speaker = sidecar.speaker()
        speaker.say(rank.hello(number, len(MARKS)))
        speaker.say(encode(Marks(marks=[mark], offset_ns=0)))
        assert hangs_up(speaker), mark
        speaker.close()
    place = Place(step=2**53, start_ns=0, explicit=True, compiled=False, exchanges=False)
    speaker = sidecar.speaker()
    speaker.say(replace(rank.hello(), place=place))
    assert hangs_up(speaker)
    speaker.close()
    assert f"{len(MARKS) + 1} connections were dropped" in sidecar.end()


@pytest.mark.slow
def test_ranks_of_another_version_are_told_of_once_and_pass_unread(sidecar: Sidecar) -> None:
    """Hung up on they would come again and again; the others are timed as ever."""
    later = [sidecar.speaker(), sidecar.speaker()]
    for speaker in later:
        speaker.say(HELLO + b'{"protocol":%d,"who":"changed"}' % (PROTOCOL + 1))
        speaker.say(b"m" + b"of which nothing is known here")
    same = sidecar.speaker()
    same.say(rank.hello())
    same.say(rank.step(0))
    same.close()
    said = sidecar.end()
    assert said.count("\n") == 1
    assert f"protocol {PROTOCOL + 1}, here {PROTOCOL}" in said
    assert sidecar.steps() == [[0]]
    for speaker in later:
        speaker.close()


@pytest.mark.slow
def test_a_rank_that_learns_its_device_says_hello_again(sidecar: Sidecar, until: Callable[..., bool]) -> None:
    """It is the same rank, with the same steps; who it is is told anew, and so are the conditions of its device."""
    speaker, hello = sidecar.speaker(), rank.hello()
    speaker.say(hello)
    speaker.say(rank.step(0))
    until(lambda: Path(sidecar.recording).exists() and bool(sidecar.steps()))
    speaker.say(replace(hello, device="GPU-1", framework="torch ddp", batch_size=8, pp=1))
    speaker.say(rank.step(1))
    until(lambda: [step for steps in sidecar.steps() for step in steps] == [0, 1])
    speaker.say(Bye(ended_s=time.time()))
    speaker.close()
    assert sidecar.end() == ""
    told = [event for event in sidecar.recorded(StepTimings) if columns.numbers(event.step)]
    first, second = (event.speakers for event in told)
    assert (first.devices, second.devices) == (["cpu"], ["GPU-1"])
    last = sidecar.recorded(JobDescribed)[-1]
    assert [(place.rank, place.device, place.pp) for place in last.places] == [(0, "GPU-1", 1)]
    assert (last.framework, last.batch_size) == ("torch ddp", 8)


CHANGES: list[dict[str, Any]] = [{"pid": 1}, {"rank": 99}, {"job": "other"}, {"world_size": 9}, {"attempt": 2}]


@pytest.mark.slow
def test_a_second_hello_of_somebody_else_drops_the_connection(sidecar: Sidecar) -> None:
    """One connection is one rank, from its beginning to its end."""
    for number, change in enumerate(CHANGES):
        speaker, hello = sidecar.speaker(), rank.hello(number, 100)
        speaker.say(hello)
        speaker.say(replace(hello, **change))
        assert hangs_up(speaker), change
        speaker.close()
    assert f"{len(CHANGES)} connections were dropped" in sidecar.end()
    told = sidecar.recorded(JobDescribed)
    assert {(one.job, one.attempt, one.world_size) for one in told} == {("made-up", 0, 100)}
    assert [(place.rank, place.pid) for place in told[-1].places] == [(n, os.getpid()) for n in range(len(CHANGES))]


@pytest.mark.slow
def test_a_rank_that_says_nothing_but_hello_is_dropped(sidecar: Sidecar) -> None:
    """It learns a few things about itself, not one each second."""
    speaker, hello = sidecar.speaker(), rank.hello()
    for number in range(MOST_HELLOS + 1):
        speaker.say(replace(hello, batch_size=number))
    speaker.close()
    assert "dropped" in sidecar.end()
    assert sidecar.recorded(JobDescribed)[-1].batch_size == MOST_HELLOS - 1


@pytest.mark.slow
def test_a_rank_that_stands_in_a_collective_is_told(shared: Sidecar, until: Callable[..., bool]) -> None:
    """A hang shows in nothing else: no row comes out of it."""
    speaker = shared.speaker()
    speaker.say(rank.hello(3, 4))
    speaker.say(rank.stuck(5))

    def told() -> list[StepTimings]:
        if not Path(shared.recording).exists():
            return []
        return [event for event in shared.recorded(StepTimings) if any(found.rank == 3 for found in event.open)]

    (first, *_) = until(told)
    (found,) = [one for one in first.open if one.rank == 3]
    assert (found.seq, found.operation) == (5, "all_reduce")
    assert first.now_s - found.start_s > 5
    assert all(3 not in columns.numbers(event.rank) for event in shared.recorded(StepTimings))
    speaker.close()


@pytest.mark.slow
def test_a_rank_that_ends_no_step_for_seconds_is_told_to_be_there_and_then_to_have_left(
    sidecar: Sidecar, until: Callable[..., bool]
) -> None:
    """Compiling, or evaluating alone: a node that says nothing at all is one that has fallen silent."""
    speaker = sidecar.speaker()
    speaker.say(rank.hello())
    until(lambda: Path(sidecar.recording).exists() and bool(sidecar.recorded(StepTimings)))
    (first, *_) = sidecar.recorded(StepTimings)
    assert (first.open, first.rank.data, first.ended) == ([], b"", False)
    assert wire.readable(first)["speakers"]["ranks"] == [0]
    speaker.close()
    sidecar.end()
    assert [event.ended for event in sidecar.recorded(StepTimings)][-1]


@pytest.mark.slow
def test_rows_come_with_what_the_node_did_to_the_rank(shared: Sidecar, until: Callable[..., bool]) -> None:
    """Once a second; what this machine does not measure is None."""
    speaker = shared.speaker()
    speaker.say(rank.hello(0, 4))
    steps = iter(range(1000))

    def conditions() -> list[Mapping[str, Any]]:
        speaker.say(rank.step(next(steps)))
        told = [event.conditions for event in shared.recorded(StepTimings)]
        return [one for one in (wire.readable(one) for one in told if one is not None) if 0 in one["rank"]]

    until(lambda: Path(shared.recording).exists() and bool(conditions()))
    (first, *_) = conditions()
    at = list(first["rank"]).index(0)
    assert first["span_s"][at] == 0.0
    assert "throttle_reasons" not in first["values"]
    speaker.close()


@pytest.mark.slow
def test_sigterm_ends_it_with_everything_written(sidecar: Sidecar, until: Callable[..., bool]) -> None:
    """A rank that is still connected does not hold it up."""
    speaker = sidecar.speaker()
    speaker.say(rank.hello())
    speaker.say(rank.step(1))
    until(lambda: Path(sidecar.recording).exists() and bool(sidecar.recorded(JobDescribed)))
    sidecar.process.send_signal(signal.SIGTERM)
    sidecar.process.wait()
    speaker.close()
    assert [step for steps in sidecar.steps() for step in steps] == [0]


@pytest.mark.slow
def test_a_ctrl_c_does_not_end_it(sidecar: Sidecar) -> None:
    """The terminal sends it to everybody; the last rows come after it."""
    sidecar.process.send_signal(signal.SIGINT)
    speaker = sidecar.speaker()
    speaker.say(rank.hello())
    speaker.say(rank.step(2))
    speaker.close()
    sidecar.end()
    assert sidecar.steps() == [[0]]


@pytest.mark.slow
def test_a_full_disk_is_said_once_and_ranks_go_on(tmp_path: Path, until: Callable[..., bool]) -> None:
    """The recording ends; the socket stays open."""
    made = Sidecar(until, tmp_path, record="/dev/full")
    speaker = made.speaker()
    speaker.say(rank.hello())
    for step in range(100):
        speaker.say(rank.step(step))
    speaker.close()
    said = made.end().splitlines()
    assert len(said) == 1
    assert "No space left" in said[0]
    assert made.process.returncode == 0


@pytest.mark.slow
def test_it_ends_by_itself_when_all_ranks_have_left(tmp_path: Path, until: Callable[..., bool]) -> None:
    """The way of a script that watches itself: nobody is there to hang up."""
    made = Sidecar(until, tmp_path, "--until-empty")
    speaker = made.speaker()
    speaker.say(rank.hello())
    speaker.say(rank.step(0))
    speaker.close()
    made.process.wait()
    assert made.end() == ""
    assert len(made.steps()) == 1


def rank_steps(sidecar: Sidecar) -> set[tuple[int, int]]:
    """Ranks and their steps in the recording."""
    rows = [map(columns.numbers, (event.rank, event.step)) for event in sidecar.recorded(StepTimings)]
    return {pair for row in rows for pair in zip(*row, strict=True)}


@pytest.mark.slow
def test_what_is_safe_is_told_and_nobody_has_to_listen(sidecar: Sidecar) -> None:
    """A step that is recorded with its sums is safe; a rank that leaves without reading that loses nothing."""
    speaker, deaf = sidecar.speaker(), sidecar.speaker()
    for number, one in enumerate((speaker, deaf)):
        one.say(rank.hello(number, 2))
        for step in range(3):
            one.say(rank.step(step))
    safe = 0
    while safe < 2:  # The sums of a step go out once the step after it is closed.
        told = speaker.settled()
        safe = told.place.step
        assert {(0, step) for step in range(safe)} <= rank_steps(sidecar)
        assert (told.lost, told.open) == (0, 0)
    assert deaf.socket.recv(4096, socket.MSG_PEEK)
    for step in range(3, 6):
        deaf.say(rank.step(step))
    deaf.close()
    speaker.close()
    sidecar.end()
    assert {step for number, step in rank_steps(sidecar) if number == 1} == set(range(6))


@pytest.mark.slow
def test_a_second_one_on_the_same_socket_leaves_it_to_the_first(sidecar: Sidecar, tmp_path: Path) -> None:
    """Ranks of a node may all try to start it: one wins, the others end in peace."""
    second = subprocess.run(
        [sys.executable, "-m", "paceline.sidecar", "--socket", str(sidecar.path)],
        stdin=subprocess.DEVNULL,
        check=False,
    )
    assert second.returncode == 0
    speaker = sidecar.speaker()
    speaker.say(rank.hello())
    speaker.say(rank.step(0))
    speaker.close()
    sidecar.end()
    assert len(sidecar.steps()) == 1


@pytest.mark.slow
def test_a_rank_that_gets_no_further_is_asked_where_it_is(sidecar: Sidecar, until: Callable[..., bool]) -> None:
    """Its answer is in the recording beside its open collective; an answer to no question is ignored."""
    speaker = sidecar.speaker()
    speaker.say(rank.hello())
    speaker.say(rank.step(0))
    speaker.say(rank.stuck(1))
    speaker.say(encode_looked(Looked(0, 0, True, "train.py:1 unasked", ["train.py:1 unasked"])))
    number = None
    while number is None:
        number = decode_look(speaker.socket.recv(4096))
    speaker.say(encode_looked(Looked(number, 0, True, "train.py:45 evaluate", ["train.py:45 evaluate"])))

    def looks() -> list[Any]:
        return [(event, one) for event in sidecar.recorded(StepTimings) for one in event.looks]  # type: ignore[attr-defined]

    until(looks)
    event, look = looks()[0]
    assert (look.rank, look.line, look.pid, look.moved) == (0, "train.py:45 evaluate", os.getpid(), None)
    assert [(one.rank, one.seq, one.bytes) for one in event.open] == [(0, 1, 4096)]
    speaker.close()
    sidecar.end()
