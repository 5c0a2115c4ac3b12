"""Whatever a broker answers: every batch is read or passed over, and the next fetch begins behind it."""

import struct

import pytest
from kafka.record.default_records import DefaultRecordBatch, DefaultRecordBatchBuilder

from paceline.kafka.batches import Checked, batches

#: What is read, what is told, and where the next fetch begins.
Read = tuple[list[int], list[tuple[int, int]], int]


def made(first: int, records: int = 3, **changes: object) -> bytes:
    """A batch at ``first``, as a producer makes it and a broker places it; ``changes`` are made behind its checksum."""
    builder = DefaultRecordBatchBuilder(2, 0, 0, -1, -1, -1, 1 << 20)
    for distance in range(records):
        builder.append(distance, 0, None, b"value", [])
    data = bytearray(builder.build())
    struct.pack_into(">q", data, 0, first)
    for name, value in changes.items():
        struct.pack_into(*{"size": (">i", data, 8), "form": (">b", data, 16), "last": (">i", data, 23)}[name], value)
    return bytes(data)


def read(data: bytes, position: int, end: int | None = 1000) -> Read:
    offsets, told, after = [], [], position
    for batch in batches(data, position, end, DefaultRecordBatch, lambda *what: told.append(what[:2])):
        if isinstance(batch, Checked):
            offsets += [record.offset for record in batch]
        after = batch.next_offset
    return offsets, told, after


def test_sound_batches_are_read_to_their_end():
    """From the middle of the first, over what compaction left out, to where the answer was cut off."""
    answer = made(5) + made(8) + made(20) + made(23)[:-1]
    assert read(answer, 6) == ([5, 6, 7, 8, 9, 10, 20, 21, 22], [], 23)


@pytest.mark.parametrize("wrong", [0, 5, 7, 9, 900, 2**40, -1, -(2**63)])
def test_a_wrong_offset_leads_neither_back_nor_beyond_the_next(wrong: int):
    """The checksum does not cover it: the batch ends where the next one begins."""
    assert read(made(5) + made(wrong) + made(11), 5) == ([5, 6, 7, 11, 12, 13], [(8, 11)], 14)


@pytest.mark.parametrize("wrong", [0, 2**40])
def test_a_wrong_offset_in_the_last_batch_costs_one_step(wrong: int):
    """Nobody says where it ends: the next fetch begins one further, within the partition."""
    assert read(made(5) + made(wrong), 5) == ([5, 6, 7], [(8, 9)], 9)


@pytest.mark.parametrize("last", [-1, -(2**31), 2**31 - 1, 400])
def test_a_wrong_last_offset_leads_nowhere(last: int):
    """It is under the checksum: the batch ends where the next one begins, or one further."""
    assert read(made(5) + made(8, last=last) + made(11), 5) == ([5, 6, 7, 11, 12, 13], [(8, 11)], 14)
    assert read(made(5) + made(8, last=last), 5) == ([5, 6, 7], [(8, 9)], 9)


def test_a_batch_beyond_the_end_as_it_was_is_read():
    """A broker looks at the end first, and then reads: what came in between is sound."""
    assert read(made(5) + made(8), 5, end=7) == ([5, 6, 7, 8, 9, 10], [], 11)
    assert read(made(5), 5, end=None) == ([5, 6, 7], [], 8)


@pytest.mark.parametrize("size", [-(2**31), -13, -12, 0, 14, 48, 10_000, 2**31 - 1])
def test_a_wrong_size_costs_the_answer_behind_it(size: int):
    """Where the next batch begins is not known; cut off at the end of an answer is none of it."""
    assert read(made(5, size=size) + made(8), 5) == ([], [(5, 6)], 6)


@pytest.mark.parametrize("form", [-128, -1, 0, 1, 3, 127])
def test_another_format_is_passed_over(form: int):
    """That of before 2017, too, whose batches of batches may have no end."""
    assert read(made(5, form=form) + made(8), 5) == ([8, 9, 10], [(5, 8)], 11)


@pytest.mark.long
def test_every_flipped_bit_is_told_or_harmless():
    """Of the middle one of three batches: what is around it is read, nothing of it wrongly, and there is an end."""
    before, data, behind = made(5), made(8), made(11)
    for bit in range(len(data) * 8):
        flipped = bytearray(data)
        flipped[bit // 8] ^= 1 << bit % 8
        offsets, told, after = read(before + bytes(flipped) + behind, 5)
        sized = 8 <= bit // 8 < 12
        assert offsets[:3] == [5, 6, 7]
        assert sized or (offsets[-3:], after) == ([11, 12, 13], 14)
        assert sized or (told == [(8, 11)]) is (offsets == [5, 6, 7, 11, 12, 13])
        assert all(first < end for first, end in told)


def test_nonsense_is_one_span():
    """An answer of zeros, of which every batch would be smaller than its header: not tried from each of its bytes."""
    assert read(bytes(4 * 2**20), 5)[1:] == ([(5, 6)], 6)
    assert read(b"\xff" * 100, 5)[1:] == ([(5, 6)], 6)
    assert read(b"", 5) == ([], [], 5)
