"""The outbox: bounded by bytes, oldest shed first, counted exactly, order kept."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from paceline.delivery.outbox import OVERHEAD_BYTES, Message, Outbox


def message(number: int, topic: str = "t", size: int = 10) -> Message:
    return Message(topic, None, str(number).encode().rjust(size), number)


def numbers(messages: object) -> list[int]:
    return [int(each.value) for each in messages]


def test_the_oldest_are_shed_and_counted_by_topic():
    """Room for three of five: the first two are gone, each counted on its topic."""
    box = Outbox(3 * (10 + OVERHEAD_BYTES))
    for number in range(5):
        box.put(message(number, topic="even" if number % 2 == 0 else "odd"))
    assert (numbers(box), dict(box.shed)) == ([2, 3, 4], {"even": 1, "odd": 1})


def test_a_message_larger_than_the_box_is_shed_itself():
    """It pushes out the others, for it was newest, and then finds no room."""
    box = Outbox(1000)
    box.put(message(1))
    box.put(message(2, size=2000))
    assert (len(box), box.bytes, box.shed.total()) == (0, 0, 2)


def test_what_is_put_back_comes_out_first():
    """A batch that was not delivered is the oldest again, in its order."""
    box = Outbox(10_000)
    for number in range(5):
        box.put(message(number))
    box.put_back(box.pop(10_000, 3))
    assert numbers(box.pop(10_000, 10)) == [0, 1, 2, 3, 4]


def test_a_batch_holds_at_least_one_message():
    """A message above the batch's size still gets out."""
    box = Outbox(10_000)
    box.put(message(1, size=500))
    assert numbers(box.pop(1, 10)) == [1]


def test_empty_messages_are_bounded_too():
    """A flood of messages without content cannot fill the memory."""
    box = Outbox(10 * OVERHEAD_BYTES)
    for _ in range(1000):
        box.put(Message("t", None, b"", 0))
    assert (len(box), box.shed["t"]) == (10, 990)


@pytest.mark.slow
@given(st.lists(st.one_of(st.integers(0, 300), st.none()), max_size=60), st.integers(0, 59))
def test_nothing_is_lost_uncounted_and_a_restored_box_goes_on_the_same(operations: list[int | None], cut: int):
    """After any puts and takes: put = taken + waiting + shed; and a snapshot continues like the original."""

    def step(box: Outbox, number: int, size: int | None) -> int:
        if size is None:
            return len(box.pop(400, 3))
        box.put(message(number, size=size))
        return 0

    box, other = Outbox(1500), Outbox(1500)
    taken = 0
    for number, size in enumerate(operations):
        taken += step(box, number, size)
        step(other, number, size)
        if number == cut:
            other = Outbox.restore(1500, other.snapshot())
    put = sum(size is not None for size in operations)
    assert put == taken + len(box) + box.shed.total()
    assert box.bytes == sum(each.size for each in box) <= 1500
    assert other.snapshot() == box.snapshot()
