"""Whether a message is the next of its partition: the guard against messages that never reach the door.

Rule of this file: pure; time is an argument. A stream library may hand out a partition with messages missing in the
middle (Faust empties its queues when a worker has recovered, whatever they hold). So every partition's next offset is
known here; a message beyond it is not taken, and the partition is read again from there. Where the broker itself has a
gap, the same message comes again first, and is taken.
"""

from enum import Enum

from .offsets import Partition

#: A seek that brought nothing for so long is tried again.
RETRY_S = 2.0


class PositionCheck(Enum):
    """What to do with a message."""

    TAKE = "take"
    SKIP = "skip"
    SEEK = "seek"


class _Gap:
    def __init__(self, first: int, asked_s: float) -> None:
        self.first = first
        self.asked_s = asked_s


class Positions:
    """The next offset of every partition that this worker reads."""

    def __init__(self) -> None:
        self.next: dict[Partition, int] = {}
        self._gaps: dict[Partition, _Gap] = {}
        #: First offset -> the one after, of batches that were passed over because they cannot be read.
        self._passed: dict[Partition, dict[int, int]] = {}
        self.gaps_seen = 0

    def knows(self, partition: Partition) -> bool:
        """Whether the partition's position is known."""
        return partition in self.next

    def start(self, partition: Partition, offset: int) -> None:
        """The partition is read from ``offset`` on."""
        self.next[partition] = offset
        self._gaps.pop(partition, None)

    def pass_over(self, partition: Partition, first: int, after: int) -> None:
        """The offsets from ``first`` to before ``after``, if there are any, will not come: that is no gap."""
        if first < after:
            self._passed.setdefault(partition, {})[first] = after

    def due(self, partition: Partition, committed: int | None) -> int | None:
        """The offset that is due, ``committed`` where nothing was taken yet, beyond what was passed over."""
        offset, passed = self.next.get(partition, committed), self._passed.get(partition, {})
        while offset in passed:
            offset = passed[offset]
        return offset

    def _skip_passed(self, partition: Partition) -> int:
        """The offset that is due, beyond what was passed over."""
        passed = self._passed.get(partition, {})
        while self.next[partition] in passed:
            self.next[partition] = passed.pop(self.next[partition])
        return self.next[partition]

    def judge(self, partition: Partition, offset: int, now_s: float) -> PositionCheck:
        """What to do with the message at ``offset``; ``SEEK`` is not to take it but to read from ``next`` again."""
        wanted = self._skip_passed(partition)
        gap = self._gaps.get(partition)
        if offset < wanted:
            return PositionCheck.SKIP
        if offset == wanted or (gap is not None and offset == gap.first):
            self._gaps.pop(partition, None)
            self.next[partition] = offset + 1
            return PositionCheck.TAKE
        if gap is None:
            self.gaps_seen += 1
            self._gaps[partition] = _Gap(offset, now_s)
            return PositionCheck.SEEK
        if now_s - gap.asked_s >= RETRY_S:
            gap.asked_s = now_s
            return PositionCheck.SEEK
        return PositionCheck.SKIP

    def clear(self) -> None:
        """The partitions were taken away."""
        self.next.clear()
        self._gaps.clear()
        self._passed.clear()
