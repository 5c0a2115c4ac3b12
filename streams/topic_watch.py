"""Whether the topics are still those that a worker has joined: deleted, made again, or with more partitions.

Rule of this file: pure; time is an argument. Offsets of the old topic mean nothing in the new one; what follows is the
worker's affair.
"""

from collections.abc import Hashable, Mapping

#: A topic that is not there may be about to be made again, with other settings than ours: so long that is waited for.
GONE_S = 10.0


class TopicWatch:
    """Compares what brokers say of each topic with ``joined``: what they said when the worker joined."""

    def __init__(self, joined: Mapping[str, Hashable]) -> None:
        self.joined = joined
        self._gone_s: dict[str, float] = {}

    def update(self, present: Mapping[str, Hashable], now_s: float) -> list[str]:
        """The topics that are other ones by now, or have been gone for ``GONE_S``, as of ``now_s`` (monotonic)."""
        self._gone_s = {name: self._gone_s.get(name, now_s) for name in self.joined if name not in present}
        remade = [name for name, known in self.joined.items() if present.get(name, known) != known]
        return sorted(remade + [name for name, since_s in self._gone_s.items() if now_s - since_s >= GONE_S])

    @property
    def gone(self) -> list[str]:
        """The topics that were not there at the last update."""
        return sorted(self._gone_s)
