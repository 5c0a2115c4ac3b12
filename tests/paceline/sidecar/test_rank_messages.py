"""What ranks say is read as it was written, and nothing else is."""

import json
import struct
from typing import Any

import pytest

from paceline.sidecar.rank_messages import NotAMessageError, OtherProtocolError, decode, encode_settled
from paceline.training.balance_messages import BALANCE
from paceline.training.look_messages import LOOKED, Looked, encode_looked
from paceline.training.messages import (
    BYE,
    HELLO,
    MARKS,
    MARKS_HEAD,
    PROTOCOL,
    Bye,
    Hello,
    LinkReport,
    Marks,
    Peer,
    Place,
    Settled,
    decode_settled,
    encode,
)

PLACE = Place(step=2**40, start_ns=-5, explicit=True, compiled=False, exchanges=True, repeated=3, told=9)
SAID: dict[str, Any] = {
    "rank": 3, "world_size": 8, "local_rank": 3, "pid": 7, "device": "cuda:3", "backend": "nccl", "framework": "torch",
    "job": "j", "attempt": 1, "started_s": 5.5, "batch_size": 4, "dp": 1, "tp": -1, "pp": 0, "labels": {"team": "ä"},
}  # fmt: skip
ISSUED = ("world", 8, 2**53, "all_reduce", 0, 2)


@pytest.mark.parametrize(
    "message",
    [
        Hello(**SAID, place=PLACE, measures=True),
        Marks(marks=[], offset_ns=-(2**63)),
        Marks(marks=[(-1, 0, None), (2**62, 49, -(2**63)), (2**62, 33, ISSUED)], offset_ns=3, on_device=True, lost=2),
        Marks(marks=[(1, 2, 3)], offset_ns=0, link=LinkReport(1, 0.5, 2, [Peer("a:1", "b:2"), Peer("c:1", "d", 0.5)])),
        Bye(ended_s=7.25),
    ],
    ids=["hello", "none", "marks", "links", "bye"],
)
def test_it_is_read_as_it_was_written(message: Hello | Marks | Bye) -> None:
    assert decode(encode(message)) == message


def test_half_a_character_in_an_environment_is_no_reason_to_stop() -> None:
    """Variables that are no text, which become labels, reach Python as halves of characters."""
    (label,) = decode(encode(Hello(**{**SAID, "labels": {"slurm_user": "m\udce4x"}}))).labels.values()
    assert label == "m?x"


@pytest.mark.parametrize(
    "changed",
    [
        {"rank": -1}, {"rank": 2**20}, {"rank": "3"}, {"rank": 1.5}, {"world_size": 2**53 + 1}, {"pid": 2**63},
        {"started_s": -1.0}, {"started_s": 1e12}, {"started_s": float("nan")}, {"dp": -2}, {"labels": {"a": 1}},
        {"job": None}, {"place": {"step": 1}}, {"measures": 1},
    ],
)  # fmt: skip
def test_a_hello_with_what_no_rank_is_is_refused(changed: dict[str, Any]) -> None:
    """Numbers out of bounds, other types, parts that are missing."""
    with pytest.raises(NotAMessageError):
        decode(HELLO + json.dumps({**SAID, "protocol": PROTOCOL, **changed}).encode())


def test_a_hello_may_hold_more_than_is_known_here() -> None:
    """What a later version adds is passed over."""
    said = {**SAID, "protocol": PROTOCOL, "later": [1]}
    assert decode(HELLO + json.dumps(said).encode()) == Hello(**SAID)


@pytest.mark.parametrize("other", [PROTOCOL + 1, 0])
def test_a_hello_of_another_protocol_is_told_apart(other: int) -> None:
    """Whatever else it holds: that may be what has changed."""
    with pytest.raises(OtherProtocolError) as told:
        decode(HELLO + json.dumps({"protocol": other, "rank": "changed"}).encode())
    assert told.value.spoken == other


WHOLE = encode(Marks(marks=[(5, 2, None), (6, 33, ISSUED)], offset_ns=1))


@pytest.mark.parametrize("size", range(len(WHOLE)))
def test_a_message_that_is_cut_off_is_refused(size: int) -> None:
    with pytest.raises(NotAMessageError):
        decode(WHOLE[:size])


@pytest.mark.parametrize(
    ("count", "lost", "rest"),
    [
        (2**32 - 1, 0, b'{"payloads":[],"link":null}'),
        (0, 2**53 + 1, b'{"payloads":[],"link":null}'),
        (0, 0, b'{"payloads":[null],"link":null}'),
        (0, 0, b'{"payloads":[],"link":[-1,0.5,0]}'),
        (0, 0, b"[" * 100_000),
        (0, 0, b'{"payloads":[],"link":[1,1e999,0]}'),
    ],
)
def test_marks_that_contradict_themselves_are_refused(count: int, lost: int, rest: bytes) -> None:
    with pytest.raises(NotAMessageError):
        decode(MARKS + MARKS_HEAD.pack(count, 0, lost, False) + rest)


@pytest.mark.parametrize(
    "issued", [("w", -1, 0, "o", 0, 0), ("w", 1, 2**53 + 1, "o", 0, 0), ("w", 1, 0, "o", 0), (1,) * 6]
)
def test_a_collective_that_cannot_be_is_refused(issued: tuple[Any, ...]) -> None:
    with pytest.raises(NotAMessageError):
        decode(encode(Marks(marks=[(1, 33, issued)], offset_ns=0)))  # type: ignore[list-item]


def test_what_is_settled_is_read_by_the_rank() -> None:
    settled = Settled(marks=7, place=PLACE, lost=1, open=2)
    assert decode_settled(encode_settled(settled)) == settled


@pytest.mark.parametrize(
    "told",
    [
        b"", b"\xff", b"null", b"[]", b"{}", b'{"marks":1}', b'{"marks":1,"place":3}', b"[" * 3000, struct.pack("q", 3),
        encode_settled(Settled(marks=7, place=PLACE)).replace(b"7", b'"7"', 1),
        encode_settled(Settled(marks=7, place=PLACE)).replace(b"-5", b"null", 1),
    ],
)  # fmt: skip
def test_what_no_sidecar_says_is_nothing_to_the_rank(told: bytes) -> None:
    """It raises nothing: that would end the timing."""
    assert decode_settled(told) is None


def test_each_kind_of_message_has_a_first_byte_of_its_own():
    """One that two kinds share would be read as the other, and lost without a word."""
    kinds = [HELLO, MARKS, BYE, BALANCE, LOOKED]
    assert len(set(kinds)) == len(kinds)


def test_an_answer_to_a_look_is_read_and_bounded():
    """What a rank says of where it is; numbers that cannot be are refused."""
    looked = Looked(3, 4121, True, "train.py:45 evaluate", ["train.py:45 evaluate"], ["loss.py:3 mean"])
    assert decode(encode_looked(looked)) == looked
    with pytest.raises(NotAMessageError):
        decode(encode_looked(Looked(-1, 0, True, "")))
    with pytest.raises(NotAMessageError):
        decode(LOOKED + b"{}")
