"""A mapping that counts how often one of its entries is looked at after another: what grows with all that it holds."""

from collections.abc import Iterable, Iterator
from typing import TypeVar

K = TypeVar("K")
V = TypeVar("V")
T = TypeVar("T")


class LookedAt(dict[K, V]):
    """A dictionary; to get, to set and to delete an entry are no looks at the others."""

    looks = 0

    def _each(self, entries: Iterable[T]) -> Iterator[T]:
        for entry in entries:
            self.looks += 1
            yield entry

    def __iter__(self) -> Iterator[K]:
        return self._each(super().__iter__())

    def values(self) -> Iterator[V]:  # type: ignore[override]
        return self._each(super().values())

    def items(self) -> Iterator[tuple[K, V]]:  # type: ignore[override]
        return self._each(super().items())
