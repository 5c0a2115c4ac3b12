"""The sidecar's part in captures: who is asked, what comes back in pieces, and who takes too long."""

import base64
import json
import socket
from pathlib import Path
from types import SimpleNamespace

import pytest

from paceline.command_rules import RefusedError
from paceline.delivery.stats import Stats
from paceline.events import CAPTURE_PIECE_BYTES, CaptureAsked, CapturePiece
from paceline.kafka.settings import BrokerSettings
from paceline.settings import CAPTURES
from paceline.sidecar import assembly
from paceline.sidecar.__main__ import arguments
from paceline.sidecar.actions import OFF, actions
from paceline.sidecar.assembly import BusSink
from paceline.sidecar.batch import Batcher, Origin, Outgoing
from paceline.sidecar.captures import MOST_UNDER_WAY, PATIENCE_S, SUMMED_A_TURN, SWEEP_EVERY_S, WAITS_S, Captures
from paceline.sidecar.server import Sidecar
from paceline.topics import CAPTURE
from paceline.training.capture_messages import decode, encode

JOB = ("resnet", 0)


class Clock:
    now_s = 0.0

    def __call__(self) -> float:
        return self.now_s


@pytest.fixture
def clock() -> Clock:
    return Clock()


@pytest.fixture
def captures(tmp_path: Path, clock: Clock) -> Captures:
    return Captures("c", "n1", tmp_path / "captures", clock)


def asked(captures: Captures, *ranks: int, name: str = "a") -> dict[int, Path]:
    """Ask ranks, as if they had been told; where each is to write."""
    captures.ask(JOB, list(ranks), name, 3)
    paths = {}
    for one, wish in captures.wishes():
        told = decode(encode(wish))
        assert told is not None
        one.sent, paths[one.rank] = True, Path(told.path)
    return paths


def gathered(captures: Captures, *, room: bool = True) -> list[CapturePiece]:
    return [piece for _ in range(40) for piece in captures.turn(room=room)]


def test_a_trace_goes_out_in_pieces_and_leaves_nothing_behind(captures: Captures) -> None:
    path = asked(captures, 2)[2]
    assert gathered(captures) == []
    content = bytes(range(256)) * (CAPTURE_PIECE_BYTES // 128)
    path.write_bytes(content)
    pieces = gathered(captures)
    assert b"".join(base64.b64decode(piece.content) for piece in pieces) == content
    assert {(piece.rank, piece.pieces, piece.bytes) for piece in pieces} == {(2, 2, len(content))}
    assert list(path.parent.iterdir()) == []
    assert gathered(captures) == []


def test_a_reason_goes_out_in_place_of_a_trace(captures: Captures) -> None:
    path = asked(captures, 2)[2]
    path.with_name(path.name + ".why").write_text(json.dumps({"reason": "the script profiles itself"}))
    (piece,) = gathered(captures)
    assert (piece.pieces, piece.reason) == (0, "the script profiles itself")


@pytest.mark.parametrize("content", [b"", b"{", b"[]", b"\xff", b'{"reason": 7}'])
def test_a_reason_that_cannot_be_read_is_one_too(captures: Captures, content: bytes) -> None:
    path = asked(captures, 2)[2]
    path.with_name(path.name + ".why").write_bytes(content)
    (piece,) = gathered(captures)
    assert piece.pieces == 0
    assert piece.reason


def test_a_rank_that_tells_nothing_is_given_up(captures: Captures, clock: Clock) -> None:
    asked(captures, 2)
    clock.now_s = PATIENCE_S + 1.0
    (piece,) = gathered(captures)
    assert "no trace within" in piece.reason


def test_an_empty_trace_is_none(captures: Captures) -> None:
    asked(captures, 2)[2].write_bytes(b"")
    (piece,) = gathered(captures)
    assert "0 bytes" in piece.reason


@pytest.mark.parametrize("name", ["", "../x", "a/b", "a b", "x" * 65, "a\n"])
def test_a_name_that_is_no_name_is_refused(captures: Captures, name: str) -> None:
    with pytest.raises(ValueError, match="name"):
        captures.ask(JOB, [2], name, 3)


def test_there_is_a_limit_and_no_capture_is_asked_for_twice(captures: Captures) -> None:
    asked(captures, *range(MOST_UNDER_WAY))
    with pytest.raises(ValueError, match="under way"):
        captures.ask(JOB, [0], "a", 3)
    with pytest.raises(ValueError, match="at most"):
        captures.ask(JOB, [0], "b", 3)


class Ranks:
    """In place of a batcher: ranks 0 and 1 of a job."""

    def ranks(self) -> dict[tuple[str, int], dict[int, tuple[int, str]]]:
        return {JOB: {0: (1, "cpu"), 1: (2, "cpu")}}


def test_ranks_of_other_nodes_are_left_to_them(captures: Captures, clock: Clock) -> None:
    action = actions(Ranks(), clock, captures)["capture"]  # type: ignore[arg-type]
    said = action.obey("job:resnet", CaptureAsked(capture="a", ranks="1,7", steps=3))
    assert "ranks 1 are" in said
    assert [one.rank for one, _ in captures.wishes()] == [1]
    with pytest.raises(RefusedError, match="none of these ranks"):
        action.obey("job:resnet", CaptureAsked(capture="b", ranks="7", steps=3))
    with pytest.raises(RefusedError, match="none of these ranks"):
        action.obey("job:another", CaptureAsked(capture="c", ranks="1", steps=3))


def test_a_run_without_captures_refuses_and_says_how_to_have_them(clock: Clock) -> None:
    action = actions(Ranks(), clock, None)["capture"]  # type: ignore[arg-type]
    with pytest.raises(RefusedError, match="--captures") as refused:
        action.obey("job:resnet", CaptureAsked(capture="a", ranks="1", steps=3))
    assert str(refused.value) == OFF


@pytest.mark.parametrize(
    ("options", "environ", "on"),
    [
        ([], {}, False),
        ([], {CAPTURES.name: "0"}, False),
        ([], {CAPTURES.name: "1"}, True),
        (["--captures"], {}, True),
    ],
)
def test_captures_are_off_unless_the_run_was_started_with_them(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, options: list[str], environ: dict[str, str], on: bool
) -> None:
    """For who takes commands, too."""
    given: list[Captures | None] = []

    def noted(batcher: Batcher, clock: object, captures: Captures | None) -> dict[str, object]:
        given.append(captures)
        return {}

    monkeypatch.setattr(assembly, "_bus", lambda *_: SimpleNamespace(settings=BrokerSettings()))
    monkeypatch.setattr(assembly, "actions", noted)
    monkeypatch.setattr(assembly, "CommandReader", lambda *_: None)
    parts = assembly.build(arguments(["--socket", str(tmp_path / "ranks"), "--no-commands", *options]), environ, print)
    assert (parts.captures is not None) is on
    assert given == [parts.captures]


class Bus:
    """In place of the bus: room for so many pieces."""

    def __init__(self) -> None:
        self.room, self.taken = 0, list[Outgoing]()

    def has_room(self) -> bool:
        return len(self.taken) < self.room

    def put(self, outgoing: Outgoing) -> None:
        self.taken.append(outgoing)


def test_a_sidecar_puts_nothing_of_a_trace_on_the_bus_that_has_no_room(captures: Captures) -> None:
    """What waits goes out as room comes, and nothing of it is lost."""
    path, bus = asked(captures, 2)[2], Bus()
    content = bytes(range(256)) * (CAPTURE_PIECE_BYTES // 128)
    path.write_bytes(content)
    ours, theirs = socket.socketpair()
    with ours, theirs:
        batcher = Batcher(Origin("c", "n1", "p"))
        sidecar = Sidecar(ours, batcher, [], until_empty=True, captures=captures, capture_sink=bus)
        for room in (0, 1, 2):
            bus.room = room
            for _ in range(10):
                sidecar._turn(0.0)
            assert len(bus.taken) == room
    assert {outgoing.topic for outgoing in bus.taken} == {CAPTURE}
    assert b"".join(base64.b64decode(outgoing.event.content) for outgoing in bus.taken) == content


def test_a_trace_waits_in_its_file_until_the_bus_has_room(captures: Captures) -> None:
    path = asked(captures, 2)[2]
    path.write_bytes(b"x")
    assert gathered(captures, room=False) == []
    assert path.exists()
    assert [piece.bytes for piece in gathered(captures)] == [1]


def test_a_trace_for_which_there_is_no_room_is_removed_after_its_time(captures: Captures, clock: Clock) -> None:
    path = asked(captures, 2)[2]
    path.write_bytes(b"x")
    captures.turn(room=False)
    clock.now_s = PATIENCE_S + WAITS_S
    captures.turn(room=False)
    assert gathered(captures) == []
    assert list(path.parent.iterdir()) == []


def test_one_piece_goes_out_a_turn(captures: Captures) -> None:
    path = asked(captures, 2)[2]
    path.write_bytes(bytes(3 * CAPTURE_PIECE_BYTES))
    assert [len(captures.turn(room=True)) for _ in range(6)] == [0, 1, 1, 1, 0, 0]


def test_no_trace_is_read_whole(captures: Captures) -> None:
    """It is summed up a part a turn before its first piece goes out."""
    path = asked(captures, 2)[2]
    with path.open("wb") as file:
        file.truncate(3 * SUMMED_A_TURN)
    assert [len(captures.turn(room=True)) for _ in range(4)] == [0, 0, 0, 1]


def test_what_comes_after_its_time_is_removed(captures: Captures, clock: Clock) -> None:
    """A trace, its reason, its note, and what a rank has only half written; what is under way is left alone."""
    late = asked(captures, 2)[2]
    clock.now_s = PATIENCE_S
    assert len(gathered(captures)) == 1
    here = asked(captures, 4, name="c")[4]
    here.write_bytes(b"x")
    for ending in ("", ".part", ".json", ".why", ".note"):
        late.with_name(late.name + ending).write_bytes(b"x")
    clock.now_s += SWEEP_EVERY_S
    captures.turn(room=False)
    assert list(late.parent.iterdir()) == [here]


def test_what_a_sidecar_that_died_left_is_removed(tmp_path: Path, captures: Captures, clock: Clock) -> None:
    (tmp_path / "captures").mkdir()
    (tmp_path / "captures" / "old-1.json.gz").write_bytes(b"x")
    clock.now_s = SWEEP_EVERY_S
    captures.turn(room=True)
    assert list((tmp_path / "captures").iterdir()) == []


def test_nothing_is_left_at_the_end(tmp_path: Path, captures: Captures) -> None:
    asked(captures, 2)[2].write_bytes(bytes(CAPTURE_PIECE_BYTES))
    captures.turn(room=True)
    captures.close()
    assert not (tmp_path / "captures").exists()


def test_a_trace_that_vanishes_is_told(captures: Captures) -> None:
    path = asked(captures, 2)[2]
    path.write_bytes(b"x")
    captures.turn(room=False)
    path.unlink()
    (piece,) = gathered(captures)
    assert "cannot be read" in piece.reason


def test_a_note_goes_with_the_trace(captures: Captures) -> None:
    path = asked(captures, 2)[2]
    path.with_name(path.name + ".note").write_text(json.dumps({"reason": "4 of 20 steps"}))
    path.write_bytes(b"x")
    (piece,) = gathered(captures)
    assert (piece.pieces, piece.reason) == (1, "4 of 20 steps")


@pytest.mark.parametrize(
    ("connected", "pending", "spooled", "spooled_bytes", "room"),
    [
        (True, 0, 0, 0, True),
        (True, 4, assembly.SHORT_QUEUE - 4, 1000, True),
        (True, 4, assembly.SHORT_QUEUE - 3, 1000, False),
        (True, 0, 3, 4 * 1024 * 1024 + 1, False),
        (False, 0, 0, 0, False),
    ],
)
def test_the_bus_has_room_while_hardly_anything_waits(
    connected: bool, pending: int, spooled: int, spooled_bytes: int, room: bool
) -> None:
    stats = Stats(connected=connected, pending=pending, spooled=spooled, spooled_bytes=spooled_bytes)
    sink = BusSink.__new__(BusSink)
    sink._limit_bytes = 32 * 1024 * 1024
    sink._publisher = SimpleNamespace(stats=lambda: stats)  # type: ignore[assignment]
    assert sink.has_room() is room
