"""A partition whose topic is another one than when it was noted is found, by whichever worker has it then."""

import asyncio

import pytest

from streams.joined_topics import JoinedTopics
from streams.offsets import Partition
from streams.store import Store

BOTH = [Partition("op", 3), Partition("job", 3), Partition("op", 4)]


async def delivered():
    return None


@pytest.fixture
def joined():
    """A worker that joins topics with the ids it is given, on the same store as those before it."""
    store = Store({}, delivered)
    return lambda op, job: JoinedTopics(store, {"op": op, "job": job})


def note(worker, partitions=BOTH):
    asyncio.run(worker.note(partitions))


def test_what_was_never_noted_is_as_it_was(joined):
    """A first worker reads on from wherever it is."""
    assert joined("1", "2").remade(BOTH) == []


def test_another_id_is_another_topic_until_it_is_noted(joined):
    """Only its partitions, and only those that were noted; a worker that is killed before it notes finds them again."""
    note(joined("1", "2"), BOTH[:2])
    assert joined("1", "2").remade(BOTH) == []
    later = joined("9", "2")
    assert [later.remade(BOTH), joined("9", "2").remade(BOTH)] == [[BOTH[0]]] * 2
    note(later)
    assert joined("9", "2").remade(BOTH) == []


def test_a_worker_that_has_one_topic_keeps_the_notes_on_the_other(joined):
    """Both topics of a partition share its note."""
    note(joined("1", "2"), BOTH[:1])
    note(joined("1", "2"), BOTH[1:2])
    assert joined("9", "9").remade(BOTH) == BOTH[:2]


def test_brokers_that_give_no_id_change_nothing(joined):
    """A topic without an id may be any: neither is it another one, nor is its note forgotten."""
    note(joined("1", "2"))
    unknown = joined("", "2")
    assert unknown.remade(BOTH) == []
    note(unknown)
    assert joined("9", "2").remade(BOTH) == [BOTH[0], BOTH[2]]


def test_the_same_is_noted_once():
    """A rebalance of topics that stay writes nothing."""

    class Once(dict):
        def __setitem__(self, name, value):
            assert name not in self
            super().__setitem__(name, value)

    joined = JoinedTopics(Store(Once(), delivered), {"op": "1", "job": "2"})
    note(joined)
    note(joined)


def test_a_damaged_note_is_told_and_written_anew(joined, caplog):
    """It stops no worker, now or later."""
    worker = joined("1", "2")
    note(worker)
    worker.store.table[b"3|topics"] = b"damaged"
    assert joined("9", "9").remade(BOTH) == BOTH[2:]
    assert "partition 3 was read from is not readable" in caplog.text
    note(joined("9", "9"))
    assert joined("8", "9").remade(BOTH) == [BOTH[0], BOTH[2]]
