"""How many bytes is kept of what comes from outside, and what goes where that is too many.

Rule of this file: pure. A number of entries bounds no memory where anybody who may write to the bus chooses how long
their names are. Sizes are estimates, rather too high than too low, and the same whenever they are asked for.
"""

from collections.abc import Iterable, Iterator, Mapping
from typing import Any, Generic, TypeVar

import msgspec

#: What any object takes beside its content, a number in a list, and the table of a dictionary: Python's, on a 64-bit
#: machine.
_OBJECT, _NUMBER, _TABLE = 64, 40, 128
Key = TypeVar("Key")
Value = TypeVar("Value")


def size_of(value: Any) -> int:
    """Bytes that an event, or a part of one, takes in memory.

    >>> size_of("node-1"), size_of(["node-1", 2.5]), size_of("\\N{SNOWMAN}"), size_of([1.0] * 1000)
    (70, 198, 68, 40064)
    """
    size, waiting = 0, [value]
    while waiting:
        one = waiting.pop()
        size += _OBJECT
        if isinstance(one, str):
            size += len(one) if one.isascii() else 4 * len(one)
        elif isinstance(one, bytes):
            size += len(one)
        elif isinstance(one, msgspec.Struct):
            waiting += (getattr(one, name) for name in one.__struct_fields__)
        elif isinstance(one, dict):
            size += _TABLE
            waiting += one
            waiting += one.values()
        elif isinstance(one, list) and one and isinstance(one[0], int | float) and isinstance(one[-1], int | float):
            size += _NUMBER * len(one)
        elif isinstance(one, Iterable):
            waiting += one
    return size


class HeldBytes(Generic[Key]):
    """The bytes that entries take, by key; beyond ``most_bytes``, or ``most`` entries, the oldest go.

    The entries themselves are their owner's, who lets go of the keys that are named.

    >>> held = HeldBytes[str](most_bytes=300)
    >>> held.note("a", 50), held.note("b", 50), held.note("c", 50), held.bytes
    ([], [], ['a'], 230)
    """

    def __init__(self, most_bytes: int, most: int | None = None) -> None:
        self._most_bytes, self._most, self.bytes = most_bytes, most, 0
        self._sizes: dict[Key, int] = {}

    def note(self, key: Key, size: int) -> list[Key]:
        """``size`` bytes are kept of ``key``, the newest now; the keys to let go of, which may be this one, too."""
        self.forget(key)
        self._sizes[key] = size + size_of(key)
        self.bytes += self._sizes[key]
        gone = []
        if self._most is not None and len(self._sizes) > self._most:
            gone.append(self._forget_oldest())
        return gone + self.shrink(self._most_bytes)

    def renew(self, key: Key) -> None:
        """``key`` is the newest now."""
        self._sizes[key] = self._sizes.pop(key)

    def forget(self, key: Key) -> None:
        """Nothing is kept of ``key`` any more."""
        self.bytes -= self._sizes.pop(key, 0)

    def shrink(self, most_bytes: int) -> list[Key]:
        """The keys to let go of, so that the others take ``most_bytes`` at most."""
        gone = []
        while self.bytes > most_bytes:
            gone.append(self._forget_oldest())
        return gone

    def _forget_oldest(self) -> Key:
        oldest = next(iter(self._sizes))
        self.forget(oldest)
        return oldest


class BoundedMapping(Mapping[Key, Value]):
    """At most ``most`` entries of ``most_bytes`` bytes; those that were put or renewed longest ago go.

    >>> mapping = BoundedMapping[str, str](most=2, most_bytes=10_000)
    >>> [mapping.put(key, key.upper(), size=100) for key in "abc"], dict(mapping), mapping.bytes
    ([0, 0, 1], {'b': 'B', 'c': 'C'}, 330)
    """

    def __init__(self, most: int, most_bytes: int) -> None:
        self._entries: dict[Key, Value] = {}
        self._held = HeldBytes[Key](most_bytes, most)

    def __getitem__(self, key: Key) -> Value:
        return self._entries[key]

    def __iter__(self) -> Iterator[Key]:
        """The keys, those that were put last at the end."""
        return iter(self._entries)

    def __len__(self) -> int:
        return len(self._entries)

    @property
    def bytes(self) -> int:
        """What all of it takes."""
        return self._held.bytes

    def put(self, key: Key, value: Value, size: int) -> int:
        """Keep ``value``, of ``size`` bytes beside its key, as the newest; how many entries went for it."""
        self._entries.pop(key, None)
        self._entries[key] = value
        gone = self._held.note(key, size)
        for one in gone:
            del self._entries[one]
        return len(gone)

    def renew(self, key: Key) -> None:
        """There is news of ``key``."""
        self._held.renew(key)

    def remove(self, key: Key) -> None:
        """Nothing is kept of ``key`` any more."""
        self._entries.pop(key, None)
        self._held.forget(key)
