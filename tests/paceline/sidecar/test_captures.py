"""The sidecar's part in captures: who is asked, what comes back in pieces, and who takes too long."""

import base64
import json
from pathlib import Path

import pytest

from paceline.command_rules import RefusedError
from paceline.events import CAPTURE_PIECE_BYTES, CaptureAsked, CapturePiece
from paceline.sidecar.actions import actions
from paceline.sidecar.captures import MOST_UNDER_WAY, PATIENCE_S, Captures
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


def gathered(captures: Captures) -> list[CapturePiece]:
    pieces: list[CapturePiece] = []
    while turn := captures.turn():
        pieces += turn
    return pieces


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
