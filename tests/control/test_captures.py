"""Traces from their pieces: in any order, twice, of strangers, and with sums that do not fit."""

import base64
import hashlib
import itertools
import random
from typing import Any

import pytest

from control.captures import MOST_BYTES, MOST_CAPTURES, NOBODY, NOT_HERE, SETTLED_S, UNHEARD_S, CaptureBook
from paceline import topics, wire
from paceline.events import CAPTURE_PIECE_BYTES, AuditEntry, CapturePiece

CONTENT = random.Random(7).randbytes(3 * CAPTURE_PIECE_BYTES + 5)


def pieces(whole: bytes = CONTENT, **changed: Any) -> list[CapturePiece]:
    """The pieces of a trace, as a sidecar sends them."""
    count = -(-len(whole) // CAPTURE_PIECE_BYTES)
    about: dict[str, Any] = {
        "cluster": "c",
        "job": "resnet",
        "attempt": 0,
        "node": "n1",
        "rank": 2,
        "capture": "a",
        "pieces": count,
        "bytes": len(whole),
        "sha256": hashlib.sha256(whole).hexdigest(),
    }
    parts = [whole[place * CAPTURE_PIECE_BYTES : (place + 1) * CAPTURE_PIECE_BYTES] for place in range(count)]
    return [
        CapturePiece(**{**about, "piece": place, "content": base64.b64encode(part).decode()} | changed)
        for place, part in enumerate(parts)
    ]


def entry(outcome: str, reason: str, node: str = "n1") -> AuditEntry:
    return AuditEntry(
        command_id="command",
        cluster="c",
        target="job:resnet",
        action="capture",
        issuer="ada",
        time_s=0.0,
        service="sidecar",
        node=node,
        outcome=outcome,
        reason=reason,
    )


@pytest.fixture
def book() -> CaptureBook:
    made = CaptureBook()
    made.begin("a", "c", "resnet", [2, 5], 3, "command", 1000.0)
    return made


def states(book: CaptureBook, now_s: float = 1000.0) -> dict[int, tuple[str, str]]:
    told = book.told("a", now_s)
    assert told is not None
    return {row["rank"]: (row["state"], row["reason"]) for row in told.ranks}


def test_pieces_come_in_any_order_and_twice(book: CaptureBook) -> None:
    sent = pieces() * 2
    random.Random(1).shuffle(sent)
    for piece in sent:
        book.update(piece)
    assert states(book)[2][0] == "done"
    assert book.trace("a", 2) == CONTENT


def test_a_trace_that_lacks_a_piece_is_not_handed_out(book: CaptureBook) -> None:
    for piece in pieces()[:-1]:
        book.update(piece)
    assert states(book)[2][0] == "arriving"
    assert book.trace("a", 2) is None


@pytest.mark.parametrize(
    "changed",
    [
        {"sha256": "0" * 64},
        {"bytes": 7},
        {"content": "no base64!"},
        {"pieces": 2},
        {"content": base64.b64encode(b"x").decode()},
    ],
)
def test_what_does_not_fit_fails_the_trace(book: CaptureBook, changed: dict[str, Any]) -> None:
    for piece in pieces(**changed):
        book.update(piece)
    assert states(book)[2][0] == "failed"
    assert book.trace("a", 2) is None


def test_a_reason_instead_of_a_trace_is_told(book: CaptureBook) -> None:
    (piece, *_) = pieces(pieces=0, content="", reason="the script runs a profiler of its own")
    book.update(piece)
    assert states(book)[2] == ("failed", "the script runs a profiler of its own")


def test_strangers_change_no_capture_of_ours(book: CaptureBook) -> None:
    for piece in [*pieces(job="another"), *pieces(rank=7)]:
        book.update(piece)
    assert states(book) == {2: ("asked", ""), 5: ("asked", "")}


def test_what_another_control_asked_for_is_known_too(book: CaptureBook) -> None:
    for piece in pieces(capture="theirs"):
        book.update(piece)
    assert book.trace("theirs", 2) == CONTENT


def test_a_rank_that_no_node_has_is_told_when_the_others_have_answered(book: CaptureBook) -> None:
    book.answered(entry("accepted", "3 steps of ranks 2 are being captured"), 1001.0)
    assert states(book, 1002.0) == {2: ("running", ""), 5: ("asked", "")}
    assert states(book, 1001.5 + SETTLED_S) == {2: ("running", ""), 5: ("failed", NOT_HERE)}


def test_a_refusal_is_told_unless_another_node_has_the_rank(book: CaptureBook) -> None:
    book.answered(entry("refused", "none of these ranks is here; here are 0, 1", "n0"), 1001.0)
    book.answered(entry("accepted", "3 steps of ranks 2 are being captured"), 1002.0)
    told = states(book, 1003.0 + SETTLED_S)
    assert told[2][0] == "running"
    assert told[5][0] == "failed"
    assert "none of these ranks" in told[5][1]


def test_when_nobody_answers_it_is_said(book: CaptureBook) -> None:
    assert states(book, 1001.0 + UNHEARD_S)[2] == ("failed", NOBODY)


def test_what_another_control_asked_for_waits_for_no_answer(book: CaptureBook) -> None:
    """It knows when it asked; here nobody does, at whatever time."""
    for piece in pieces(capture="theirs")[:-1]:
        book.update(piece)
    told = book.told("theirs", 1e9)
    assert told is not None
    assert told.ranks[0]["state"] == "arriving"


@pytest.mark.long
def test_no_more_is_kept_than_there_is_room_for(book: CaptureBook) -> None:
    for number in range(3 * MOST_CAPTURES):
        for piece in pieces(b"x", capture=f"c{number}"):
            book.update(piece)
    assert len(book.all(1000.0)) == MOST_CAPTURES


def held_bytes(book: CaptureBook) -> int:
    return sum(row["bytes"] for told in book.all(1000.0) for row in told.ranks)


def test_the_bound_holds_for_one_capture_too(book: CaptureBook, monkeypatch: pytest.MonkeyPatch) -> None:
    """The rank that has no room fails; what is whole stays."""
    monkeypatch.setattr("control.captures.MOST_BYTES", 2 * len(CONTENT) - 1)
    for rank in (2, 5):
        for piece in pieces(rank=rank):
            book.update(piece)
            assert held_bytes(book) < 2 * len(CONTENT)
    assert states(book)[2] == ("done", "")
    assert states(book)[5][0] == "failed"
    assert "no room" in states(book)[5][1]
    assert MOST_BYTES == 512 * 1024 * 1024


def test_names_of_jobs_and_nodes_count_towards_the_bound(book: CaptureBook, monkeypatch: pytest.MonkeyPatch) -> None:
    """Of captures that others asked for, whose pieces hold nothing but long names."""
    most, name = 2 * 2**20, "n" * 2**16
    monkeypatch.setattr("control.captures.MOST_BYTES", most)
    for number, rank in itertools.product(range(3), range(64)):
        about = {"capture": f"c{number}", "rank": rank, "node": name, "job": f"{name}{number}"}
        for piece in pieces(b"x", pieces=0, content="", reason="none", **about):
            book.update(piece)
        told = book.all(1000.0)
        assert sum(len(one.job) + sum(len(row["node"]) for row in one.ranks) for one in told) <= most
    assert [one.capture for one in told] == ["c2"]
    assert "no room" in told[0].ranks[63]["reason"]


def test_pieces_without_content_count_towards_the_bound(book: CaptureBook, monkeypatch: pytest.MonkeyPatch) -> None:
    """What waits for the rest of its trace takes memory, however little it holds."""
    monkeypatch.setattr("control.captures.MOST_BYTES", 100_000)
    for rank, place in itertools.product(range(16), range(100)):
        for piece in pieces(b"x", capture="theirs", rank=rank, piece=place, pieces=256, content=""):
            book.update(piece)
    (told,) = book.all(1000.0)
    assert 0 < sum(row["state"] == "arriving" for row in told.ranks) < 10


def test_strangers_push_out_strangers_before_ours(book: CaptureBook) -> None:
    for piece in pieces():
        book.update(piece)
    for number in range(2 * MOST_CAPTURES):
        for piece in pieces(b"x", capture=f"c{number}"):
            book.update(piece)
    assert book.trace("a", 2) == CONTENT


def test_a_note_on_a_trace_is_told(book: CaptureBook) -> None:
    for piece in pieces(reason="4 of 20 steps"):
        book.update(piece)
    assert states(book)[2] == ("done", "4 of 20 steps")


@pytest.mark.parametrize("name", ["", "snow-\u2603", 'x"; filename="evil.exe', "a\r\nSet-Cookie: a=b", "a\n", "x" * 65])
def test_a_capture_whose_name_fits_no_header_is_no_event(name: str) -> None:
    with pytest.raises(wire.WireError):
        wire.decode(topics.CAPTURE, wire.encode(pieces(b"x", capture=name)[0]))
