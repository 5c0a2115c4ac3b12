"""Whether the topics are still those that a worker has joined: one that was deleted and made again has another id.

Rule of this file: pure. Offsets of the old topic mean nothing in the new one; what follows is the worker's affair.
"""

from collections.abc import Mapping

#: A topic that is not there may be about to be made again, with other settings than ours: so long that is waited for.
GONE_S = 10.0


class TopicWatch:
    """Compares the topics' ids with those of ``ids``, as they were when the worker joined."""

    def __init__(self, ids: Mapping[str, str]) -> None:
        self.ids = dict(ids)
        self._gone_s: dict[str, float] = {}

    def changed(self, ids: Mapping[str, str], now_s: float) -> list[str]:
        """The topics that are other ones by now, or have been gone for ``GONE_S``, as of ``now_s`` (monotonic)."""
        gone = {name: self._gone_s.get(name, now_s) for name in self.ids if name not in ids}
        self._gone_s = gone
        remade = [name for name, known in self.ids.items() if ids.get(name, known) != known]
        return sorted(remade + [name for name, since_s in gone.items() if now_s - since_s >= GONE_S])
