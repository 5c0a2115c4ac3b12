"""Which consumer offsets are safe to commit: those whose every event, and every one before it, is in a stored snapshot.

Rule of this file: pure. Several keys share a partition and are stored at different times, so a partition's offset moves
only over an unbroken run of stored events. (Faust's own commit may step over a gap of one, so it is not used.)
"""

from collections import deque
from collections.abc import Hashable
from typing import NamedTuple


class Partition(NamedTuple):
    """A partition of a source topic."""

    topic: str
    number: int


class _Entry(NamedTuple):
    offset: int
    key: Hashable | None
    serial: int


class Offsets:
    """Events pending, by partition, in the order they came."""

    def __init__(self) -> None:
        self._serial = 0
        self._entries: dict[Partition, deque[_Entry]] = {}
        self._next: dict[Partition, int] = {}
        self._committed: dict[Partition, int] = {}
        self._open: dict[Hashable, int] = {}
        self._last: dict[Hashable, int] = {}
        self._stored: dict[Hashable, int] = {}
        self._held: set[int] = set()

    def received(self, partition: Partition, offset: int, key: Hashable | None) -> int:
        """Take down an event. With a key it is safe once that key is stored; without, once it is released."""
        self._serial += 1
        self._entries.setdefault(partition, deque()).append(_Entry(offset, key, self._serial))
        if key is None:
            self._held.add(self._serial)
        else:
            self._open[key] = self._open.get(key, 0) + 1
            self._last[key] = self._serial
        return self._serial

    def release(self, serial: int) -> None:
        """The event without a key that got ``serial`` is done with."""
        self._held.discard(serial)

    def mark(self) -> int:
        """Now, as a point between events: what ``stored`` wants to know of the moment of a snapshot."""
        return self._serial

    def stored(self, key: Hashable, mark: int) -> None:
        """A snapshot of ``key`` taken at ``mark`` is stored."""
        if key in self._open:
            self._stored[key] = max(mark, self._stored.get(key, 0))

    def dirty(self) -> list[Hashable]:
        """The keys with an event that no stored snapshot covers yet."""
        return [key for key, last in self._last.items() if last > self._stored.get(key, 0)]

    def in_hand(self) -> int:
        """How many events wait to be safe."""
        return sum(len(entries) for entries in self._entries.values())

    def committable(self) -> dict[Partition, int]:
        """The next offset of each partition that moved since the last call of ``committed``."""
        for partition, entries in self._entries.items():
            while entries and self._safe(entries[0]):
                entry = entries.popleft()
                self._next[partition] = max(entry.offset + 1, self._next.get(partition, 0))
                self._settle(entry)
        return {at: offset for at, offset in self._next.items() if offset > self._committed.get(at, -1)}

    def _safe(self, entry: _Entry) -> bool:
        if entry.key is None:
            return entry.serial not in self._held
        return entry.serial <= self._stored.get(entry.key, 0)

    def _settle(self, entry: _Entry) -> None:
        if entry.key is None:
            return
        self._open[entry.key] -= 1
        if not self._open[entry.key]:
            del self._open[entry.key], self._last[entry.key]
            self._stored.pop(entry.key, None)

    def committed(self, offsets: dict[Partition, int]) -> None:
        """These offsets are committed."""
        self._committed.update(offsets)

    def clear(self) -> None:
        """Forget everything: the partitions were taken away, and their events will come again."""
        for table in (self._entries, self._next, self._committed, self._open, self._last, self._stored):
            table.clear()
        self._held.clear()
