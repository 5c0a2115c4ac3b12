"""What is no event of its topic is refused with one line that says why, whatever it is."""

import json
from pathlib import Path
from typing import Any

import pytest

from paceline import topics
from paceline.wire import WireError, decode, encode_untyped, untyped

GOLDEN = Path(__file__).parent / "golden" / "v1"


def changed(event: str, **fields: Any) -> bytes:
    """The golden message of ``event`` with ``fields`` changed."""
    return json.dumps(json.loads((GOLDEN / f"{event}.json").read_bytes()) | fields).encode()


HOSTILE = {
    "nothing": b"",
    "no JSON": b"not json",
    "half a message": (GOLDEN / "DeviceSamples.json").read_bytes()[:-20],
    "no UTF-8": b'{"job": "\xff\xfe"}',
    "null": b"null",
    "a list": b"[]",
    "an empty object": b"{}",
    "huge nesting": b"[" * 200_000,
    "huge nesting in an unknown field": b'{"x":' * 100_000,
    "a string for a number": changed("DeviceSamples", t0_s="soon"),
    "a float for a whole number": changed("DeviceSamples", device=[0.5, 1]),
    "a bool for a number": changed("DeviceSamples", device=[True, 1]),
    "null in a column that is always measured": changed("DeviceSamples", time_s=[None, 0.1]),
    "unequal columns": changed("DeviceSamples", power_w=[0.1]),
    "NaN": changed("DeviceSamples", power_w=[float("nan"), 0.1]),
    "infinity": changed("DeviceSamples", power_w=[float("inf"), 0.1]),
    "a number beyond any float": changed("DeviceSamples", t0_s=0).replace(b'"t0_s": 0', b'"t0_s": 1e999'),
    "a number beyond 64 bits": changed("DeviceSamples", xid=[2**70, 41]),
    "a device that is not in the list": changed("DeviceSamples", device=[3, 0]),
    "a device before the first": changed("DeviceSamples", device=[-1, 0]),
    "a future schema": changed("DeviceSamples", schema_version=2),
    "a schema before the first": changed("DeviceSamples", schema_version=0),
    "another topic's event": (GOLDEN / "DeadLetter.json").read_bytes(),
}


@pytest.mark.parametrize("data", HOSTILE.values(), ids=HOSTILE.keys())
def test_hostile_input_is_refused_on_one_line(data: bytes) -> None:
    """The reason is one readable line, short enough for a log and a dead letter."""
    with pytest.raises(WireError) as caught:
        decode(topics.DEVICE, data)
    reason = str(caught.value)
    assert reason
    assert "\n" not in reason
    assert len(reason) <= 400


@pytest.mark.parametrize("size", [1, 7, 100])
def test_a_cut_message_never_passes(size: int) -> None:
    """A message that lost its end is refused, wherever it was cut."""
    whole = (GOLDEN.parent / "v2" / "CollectiveCalls.msgpack").read_bytes()
    with pytest.raises(WireError):
        decode(topics.COLLECTIVE, whole[:-size])


def test_a_window_of_unknown_kind_is_refused() -> None:
    """The window topic carries four kinds; a fifth is named in the reason."""
    with pytest.raises(WireError, match="galaxy"):
        decode(topics.WINDOW, changed("RankWindow", window="galaxy"))


@pytest.mark.parametrize(
    ("part", "changed"),
    [
        ("facts", {"ranks": [3, 5], "words": {"nccl_version": ["2.27.5"]}}),
        ("facts", {"ranks": [3], "words": {"nccl_version": ["2.27.5", "2.19.3"]}}),
        ("facts", {"ranks": [-1], "words": {}}),
        ("facts", {"ranks": [3], "words": {"nccl_version": [2.27]}}),
        ("breakdowns", [{"rank": 2**20}]),
        ("breakdowns", [{"span_s": float("nan")}]),
        ("breakdowns", [{"idle_s": float("inf")}]),
        ("breakdowns", [{"steps": 2**63}]),
    ],
)
def test_what_holds_for_ranks_as_a_whole_is_bounded(part: str, changed: Any) -> None:
    """Facts have a word a rank, and every number of a breakdown is one."""
    golden = (GOLDEN.parent / "v2.1" / "StepTimings.msgpack").read_bytes()
    message = untyped(topics.OP, golden)
    if part == "breakdowns":
        changed = [message[part][0] | one for one in changed]
    with pytest.raises(WireError):
        decode(topics.OP, encode_untyped(topics.OP, message | {part: changed}))
