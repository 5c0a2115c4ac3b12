"""Offsets are committed only over an unbroken run of stored events."""

import random

from streams.offsets import Offsets, Partition

A = Partition("op", 0)
B = Partition("op", 1)


def test_nothing_is_safe_before_a_snapshot():
    """An event in hand holds its partition."""
    offsets = Offsets()
    offsets.received(A, 0, "job")
    assert offsets.committable() == {}


def test_a_stored_snapshot_frees_the_events_before_its_mark():
    """Events that came after the snapshot was taken stay in hand."""
    offsets = Offsets()
    offsets.received(A, 7, "job")
    mark = offsets.mark()
    offsets.received(A, 8, "job")
    offsets.stored("job", mark)
    assert offsets.committable() == {A: 8}


def test_another_job_holds_the_partition():
    """A job stored early does not carry the offset over an unstored event of its neighbour, not even a single one."""
    offsets = Offsets()
    offsets.received(A, 0, "slow")
    offsets.received(A, 1, "quick")
    offsets.stored("quick", offsets.mark())
    assert offsets.committable() == {}
    offsets.stored("slow", offsets.mark())
    assert offsets.committable() == {A: 2}


def test_partitions_move_independently():
    """One partition waiting does not hold another."""
    offsets = Offsets()
    offsets.received(A, 0, "one")
    offsets.received(B, 5, "two")
    offsets.stored("two", offsets.mark())
    assert offsets.committable() == {B: 6}


def test_a_dead_letter_holds_its_offset_until_it_is_delivered():
    """A message without a job is safe once it is released."""
    offsets = Offsets()
    serial = offsets.received(A, 0, None)
    assert offsets.committable() == {}
    offsets.release(serial)
    assert offsets.committable() == {A: 1}


def test_what_is_committed_is_not_offered_again():
    """The same offset is not committed twice."""
    offsets = Offsets()
    offsets.received(A, 0, "job")
    offsets.stored("job", offsets.mark())
    offsets.committed(offsets.committable())
    assert offsets.committable() == {}


def test_a_stored_job_behind_another_is_not_dirty():
    """A job whose events are all stored is not stored again, although its neighbour holds the partition."""
    offsets = Offsets()
    offsets.received(A, 0, "slow")
    offsets.received(A, 1, "quick")
    offsets.stored("quick", offsets.mark())
    assert offsets.dirty() == ["slow"]


def test_a_mark_after_a_loss_is_void():
    """A snapshot begun before the partitions were taken away frees nothing that came again after."""
    offsets = Offsets()
    offsets.received(A, 0, "job")
    mark = offsets.mark()
    offsets.clear()
    offsets.received(A, 0, "job")
    offsets.stored("job", mark)
    assert offsets.committable() == {}


def test_never_past_an_unstored_event():
    """Whatever the order of events and snapshots, no offset passes an event that is not stored; in the end all do."""
    dice = random.Random(5)
    offsets, unstored, next_offset = Offsets(), {}, 0
    for _ in range(5000):
        if dice.random() < 0.7:
            key = dice.choice("abcde")
            offsets.received(A, next_offset, key)
            unstored[next_offset] = key
            next_offset += 1
        else:
            key = dice.choice("abcde")
            offsets.stored(key, offsets.mark())
            unstored = {at: one for at, one in unstored.items() if one != key}
        safe = offsets.committable().get(A, 0)
        assert not unstored or safe <= min(unstored)
    for key in "abcde":
        offsets.stored(key, offsets.mark())
    assert offsets.committable()[A] == next_offset
    assert offsets.in_hand() == 0
