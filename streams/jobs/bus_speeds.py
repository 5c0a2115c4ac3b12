"""How fast transfers are: bus bandwidth by operation and size, as nccl-tests count it.

Rule of this file: pure. Only collectives of which the shortest time is known are reported, for who comes last waits for
nobody; of those of one size the fastest tenth counts.
"""

from collections.abc import Sequence

import msgspec
import numpy as np

from paceline.bus_turns import turns_of

from ..quantile import quantile
from ..raw_columns import Ints
from ..robust import Array
from ..runs import distinct
from ..stored import Kept, Stored

#: Transfers smaller than this measure latency, not bandwidth.
_LEAST_BYTES = 4096
#: The share of transfers of a size that the one which counts is faster than.
_FAST = 0.9


class BusSpeed(msgspec.Struct, frozen=True):
    """The bus bandwidth of one operation on messages of 2**power bytes and more, up to twice that."""

    operation: str
    power: int
    bytes_per_s: float


class BusSpeeds(Stored):
    """Told transfers, it knows the speed of each operation and size.

    >>> speeds = BusSpeeds()
    >>> column = lambda number: np.array([number])
    >>> speeds.append(["all_reduce"], column(0), column(4), column(2), column(2 << 20), column(0.5))
    >>> speeds.fastest(1)
    (BusSpeed(operation='all_reduce', power=20, bytes_per_s=6291456.0),)
    """

    _seen: Kept[dict[tuple[str, int], list[float]]]

    def __init__(self) -> None:
        self._seen = {}

    def append(
        self, words: Sequence[str], operation: Ints, ranks: Ints, calls: Ints, moved: Ints, took_s: Array
    ) -> None:
        """Rows of collectives: the operation (an index of ``words``), the ranks that took part, how many collectives,
        the bytes that a rank puts into them in all, and the shortest time of any rank, in all."""
        size = ranks.astype(np.float64)
        each = moved / calls
        fit = (each >= _LEAST_BYTES) & (took_s > 0) & (size > 1)
        power = powers(each)
        for at, word in enumerate(words):
            turns = turns_of(word)
            mine = fit & (operation == at)
            if turns is None or not np.count_nonzero(mine):
                continue
            speed, of = moved[mine] / took_s[mine] * turns(size[mine]), power[mine]
            for one in distinct(of):
                fast = quantile(speed[of == one], _FAST)
                self._seen.setdefault((word, one), []).append(fast)

    def better(self, others: "BusSpeeds") -> "BusSpeeds":
        """These, but for the operations that ``others`` know, which know better."""
        words = {word for word, _ in others._seen}
        made = BusSpeeds()
        made._seen = {key: seen for key, seen in self._seen.items() if key[0] not in words} | others._seen
        return made

    def fastest(self, most: int) -> tuple[BusSpeed, ...]:
        """The speeds of the ``most`` largest sizes."""
        largest = sorted(self._seen.items(), key=lambda item: -item[0][1])[:most]
        return tuple(BusSpeed(word, power, quantile(np.array(seen), _FAST)) for (word, power), seen in largest)


def powers(sizes: Array) -> Ints:
    """The power of two of each size in bytes; -1 of none."""
    return np.asarray(np.frexp(np.asarray(sizes, dtype=np.float64))[1] - 1, dtype=np.int64)
