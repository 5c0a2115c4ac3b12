"""No number that a raw column can hold stops a worker, or fills its memory: it is refused on reading, or judged."""

import struct
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import msgspec
import numpy as np
import pytest

from paceline import topics, wire
from paceline.columns import SIZES
from paceline.topics import Topic
from streams.processor import Processor
from tests.streams.test_hostile_numbers import refused

GOLDEN = Path(__file__).parents[1] / "paceline" / "golden" / "v2"
RAW: dict[str, Topic] = {"StepTimings": topics.OP, "CollectiveCalls": topics.COLLECTIVE}
Place = tuple[str, ...]
#: The largest and the smallest number of each type, and what is no number.
EXTREME = {
    **{f"u{size}": [2 ** (8 * size) - 1] for size in (1, 2, 4, 8)},
    **{f"i{size}": [2 ** (8 * size - 1) - 1, -(2 ** (8 * size - 1)), -1] for size in (1, 2, 4, 8)},
    "f4": [3e38, -3e38, -1.0, 1e-45, float("nan"), float("inf"), float("-inf")],
    "f8": [1e308, -1e308, -1.0, 5e-324, float("nan"), float("inf"), float("-inf")],
}


def columns_of(value: Any, at: Place = ()) -> Iterator[Place]:
    """Where ``value``, plain data, holds columns."""
    if isinstance(value, dict):
        for name, one in value.items():
            yield from columns_of(one, (*at, name))
    elif isinstance(value, list) and len(value) == 2 and isinstance(value[1], bytes):
        yield at


def replaced(whole: Any, at: Place, column: list[Any]) -> bytes:
    """``whole`` as MessagePack with another column at ``at``."""
    changed = msgspec.msgpack.decode(msgspec.msgpack.encode(whole))
    inner = changed
    for name in at[:-1]:
        inner = inner[name]
    inner[at[-1]] = column
    return msgspec.msgpack.encode(changed)


@pytest.fixture(params=RAW)
def golden(request):
    """A topic, and a message of it as plain data."""
    return RAW[request.param], msgspec.msgpack.decode((GOLDEN / f"{request.param}.msgpack").read_bytes())


@pytest.mark.slow
@pytest.mark.parametrize("kind", SIZES)
def test_any_number_in_any_column_is_refused_or_judged_and_stored(golden, kind):
    """In the middle of messages that are sound, the first row holds the extreme number."""
    topic, whole = golden
    for at in columns_of(whole):
        was, data = at_place(whole, at)
        values = np.frombuffer(data, dtype="<" + was)
        for number in EXTREME[kind]:
            with np.errstate(all="ignore"):
                changed = values.astype("<" + kind)
            changed[:1] = number
            odd = replaced(whole, at, [kind, changed.tobytes()])
            if (reason := refused(topic, odd)) is None:
                judged_and_stored(topic, whole, odd)
            else:
                assert "\n" not in reason


def at_place(whole: Any, at: Place) -> list[Any]:
    """What stands at ``at``."""
    for name in at:
        whole = whole[name]
    return whole


def judged_and_stored(topic: Topic, whole: Any, odd: bytes) -> None:
    """The event between two that are sound: its answers can be read, its state is small, stored and read back."""
    processor = Processor()
    before, after = (msgspec.msgpack.encode(whole | {"sequence": number}) for number in (0, 10_000))
    changed = msgspec.msgpack.encode(msgspec.msgpack.decode(odd) | {"sequence": 1})
    for message in (before, changed, after):
        for target, answer in processor.update(topic, wire.decode(topic, message)):
            assert refused(target, wire.encode(answer)) is None
    for key in list(processor.states):
        data = processor.snapshot(key)
        assert len(data) < 1_000_000
        processor.restore(key, data)


@pytest.mark.parametrize("column", [["u3", b""], ["f2", b""], ["O", b""], ["<u4", b""], ["u4"], ["u4", "text"], {}])
def test_what_is_no_column_is_refused(golden, column):
    """Types that nobody declared, least of all such as hold objects."""
    topic, whole = golden
    for at in columns_of(whole):
        assert refused(topic, replaced(whole, at, column))


def test_torn_columns_and_columns_of_unequal_length_are_refused(golden):
    """A byte too few, a row too many; the reason names the column."""
    topic, whole = golden
    for at in columns_of(whole):
        kind, data = at_place(whole, at)
        more = data + data[: SIZES[kind]] if data else struct.pack("<d", 0.0)[: SIZES[kind]]
        assert refused(topic, replaced(whole, at, [kind, more])), at
        if SIZES[kind] > 1 and data:
            assert refused(topic, replaced(whole, at, [kind, data[:-1]])), at


def test_whole_numbers_are_refused_as_floating_point(golden):
    """A rank of 1.5 is none: tables are indexed by it."""
    topic, whole = golden
    for at in columns_of(whole):
        kind, data = at_place(whole, at)
        if kind[0] in "ui" and not at[-1].endswith("_s") and at[0] != "phases" and "values" not in at:
            rows = len(data) // SIZES[kind]
            assert refused(topic, replaced(whole, at, ["f4", struct.pack(f"<{rows}f", *[1.5] * rows)])), at


@pytest.mark.long
def test_a_rank_beyond_all_bounds_takes_no_memory(golden):
    """Tables are as long as the highest rank that can be."""
    topic, whole = golden
    for at in columns_of(whole):
        if at[-1] not in ("rank", "ranks", "span_rank", "reached_rank"):
            continue
        kind, data = at_place(whole, at)
        rows = len(data) // SIZES[kind]
        odd = replaced(whole, at, ["u4", struct.pack(f"<{rows}I", *[2**32 - 1] * rows)])
        if refused(topic, odd) is None:
            judged_and_stored(topic, whole, odd)
