"""How often the state of each job was forgotten, so that what is found of it later has ids of its own.

Rule of this file: pure and bounded. A finding's id says what it is about and at which step it began: a job that runs
every night under one name, on the same slow node, would repeat the ids of the first night, and whoever keeps the newest
revision of each would keep those. Of a key its digest is kept; where two share one, nothing is lost.
"""

import hashlib
from collections import OrderedDict

from .stored import Kept, StoredDecision

#: Keys of one partition that are known, the ones forgotten last: 200 KB.
MOST_KEYS = 10_000
#: So many bytes of a digest are an integer to every reader.
_BYTES = 7


class Forgotten(StoredDecision):
    """The keys of one partition.

    >>> forgotten = Forgotten()
    >>> forgotten.note("nightly")
    >>> forgotten.times("nightly"), forgotten.times("another")
    (1, 0)
    """

    counts: Kept[OrderedDict[int, int]]

    def __init__(self) -> None:
        self.counts = OrderedDict()

    def note(self, key: str) -> None:
        """The state of ``key`` is forgotten."""
        digest = _digest(key)
        self.counts[digest] = self.counts.pop(digest, 0) + 1
        if len(self.counts) > MOST_KEYS:
            self.counts.popitem(last=False)

    def times(self, key: str) -> int:
        """How often the state of ``key`` was forgotten."""
        return self.counts.get(_digest(key), 0)


def _digest(key: str) -> int:
    return int.from_bytes(hashlib.sha256(key.encode()).digest()[:_BYTES])
