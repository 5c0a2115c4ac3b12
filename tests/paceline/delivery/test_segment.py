"""A segment's format: damage of any kind is skipped and counted, never raised, never executed."""

import pickle

import pytest
from hypothesis import given
from hypothesis import strategies as st

from paceline.delivery.outbox import Message
from paceline.delivery.segment import MAGIC, frame, scan

MESSAGES = [Message("t", b"key", f"value {number}".encode(), number) for number in range(5)]
FRAMES = [frame(message) for message in MESSAGES]
WHOLE = MAGIC + b"".join(FRAMES)


def found(data: bytes) -> list[int]:
    return [record.message.timestamp_ms for record in scan(data).records]


def test_what_was_written_is_read():
    """Messages come back equal and in order."""
    assert [record.message for record in scan(WHOLE).records] == MESSAGES


def test_reading_goes_on_where_it_stopped():
    """From a record's end, the next ones follow."""
    first = scan(WHOLE, 0, 2).records
    assert [record.message.timestamp_ms for record in scan(WHOLE, first[-1].end).records] == [2, 3, 4]


@pytest.mark.long
@given(st.integers(len(MAGIC), len(WHOLE) - 1))
def test_a_torn_tail_costs_only_the_record_it_tears(cut: int):
    """A file cut anywhere gives every whole record before the cut, and counts no damage."""
    whole, end = 0, len(MAGIC)
    while end + len(FRAMES[whole]) <= cut:
        end += len(FRAMES[whole])
        whole += 1
    assert found(WHOLE[:cut]) == list(range(whole))
    assert scan(WHOLE[:cut]).corrupt == 0


@pytest.mark.long
@given(st.integers(len(MAGIC), len(WHOLE) - 1), st.integers(1, 255))
def test_one_bad_byte_costs_one_record(position: int, flip: int):
    """Any one byte changed: exactly one record is missing, the others are read."""
    damaged = bytearray(WHOLE)
    damaged[position] ^= flip
    assert len(found(bytes(damaged))) == len(MESSAGES) - 1


def test_a_bad_record_in_the_middle_is_counted():
    """Damage is not passed over in silence."""
    damaged = bytearray(WHOLE)
    damaged[len(MAGIC) + len(FRAMES[0]) + 20] ^= 1
    assert scan(bytes(damaged)).corrupt == 1


@pytest.mark.long
@given(st.binary(max_size=300))
def test_any_bytes_are_read_without_an_error(data: bytes):
    """A file of noise gives no records and no exception, with or without a good beginning."""
    assert found(data) == []
    assert found(WHOLE + data)[:5] == [0, 1, 2, 3, 4]


def test_a_pickle_is_noise():
    """What would be executed by other formats is skipped here."""
    assert found(MAGIC + pickle.dumps(MESSAGES)) == []


def test_a_length_of_gigabytes_asks_for_no_memory():
    """A head that promises more than there is is a torn record."""
    assert scan(MAGIC + FRAMES[0][:4] + b"\xff" * 8 + b"rest").torn
