"""Snapshots of any size survive in a table of small values, and never half old, half new."""

import asyncio

import pytest

from streams.store import CHUNK_BYTES, Store, StoreError, partition_of

SMALL = b"state"
LARGE = bytes(range(256)) * (3 * CHUNK_BYTES // 256)
OTHER = LARGE[::-1]


class StoppedError(Exception):
    """The writer was killed."""


class Table(dict):
    """A table whose writer is killed after some writes."""

    left = 10**9

    def __setitem__(self, key, value):
        if self.left == 0:
            raise StoppedError
        self.left -= 1
        assert len(value) < 1_000_000
        super().__setitem__(key, value)


async def delivered():
    return None


@pytest.fixture
def table():
    return Table()


@pytest.fixture
def store(table):
    return Store(table, delivered)


@pytest.mark.parametrize("data", [b"", SMALL, LARGE], ids=["empty", "small", "large"])
def test_what_was_written_is_read(store, data):
    """A snapshot comes back as it was, whatever its size."""
    asyncio.run(store.write(3, "job", data))
    assert store.read(3, "job") == data


def test_what_was_never_written_is_none(store):
    """An unknown job has no snapshot."""
    assert store.read(3, "job") is None


@pytest.mark.parametrize("old", [SMALL, LARGE], ids=["small", "large"])
@pytest.mark.parametrize("writes", range(5))
def test_a_writer_killed_anywhere_leaves_the_old_or_the_new(store, table, old, writes):
    """After any number of writes the snapshot is whole."""
    asyncio.run(store.write(3, "job", old))
    table.left = writes
    try:
        asyncio.run(store.write(3, "job", OTHER))
    except StoppedError:
        assert store.read(3, "job") == old
    else:
        assert store.read(3, "job") == OTHER


def test_many_snapshots_leave_no_litter(store, table):
    """Old chunks are deleted."""
    for _ in range(5):
        asyncio.run(store.write(3, "job", LARGE))
        asyncio.run(store.write(3, "job", OTHER))
    asyncio.run(store.write(3, "job", SMALL))
    assert len(table) == 1


def test_a_deleted_snapshot_leaves_nothing(store, table):
    """A forgotten job takes no room."""
    asyncio.run(store.write(3, "job", LARGE))
    asyncio.run(store.delete(3, "job"))
    assert not table


def test_damage_is_reported(store, table):
    """A missing chunk, a changed one and a damaged header raise, and can be written over."""
    asyncio.run(store.write(3, "job", LARGE))
    chunk = next(name for name in table if b"#" in name)
    kept = table.pop(chunk)
    with pytest.raises(StoreError, match="missing"):
        store.read(3, "job")
    table[chunk] = kept[:-1] + b"!"
    with pytest.raises(StoreError, match="checksum"):
        store.read(3, "job")
    table[b"3|job"] = b"nonsense"
    with pytest.raises(StoreError, match="header"):
        store.read(3, "job")
    asyncio.run(store.write(3, "job", SMALL))
    assert store.read(3, "job") == SMALL


def test_keys_name_their_partition(store, table):
    """Every key of the table tells which partition of the changelog it belongs to."""
    asyncio.run(store.write(11, 'a|b"#0.1', LARGE))
    assert {partition_of(name) for name in table} == {11}
