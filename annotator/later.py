"""What was refused, and when it is tried again.

Rule of this file: pure and bounded; time is an argument, and a clock set back waits no longer than it must.
"""

from collections import OrderedDict
from collections.abc import Hashable

MOST_HELD = 50_000


class Later:
    """By a key of whoever asks."""

    def __init__(self) -> None:
        self._held: OrderedDict[Hashable, tuple[float, float]] = OrderedDict()

    def put(self, key: Hashable, wait_s: float, now_s: float) -> None:
        """Not again before ``wait_s`` have gone by."""
        self._held[key] = now_s, now_s + wait_s
        self._held.move_to_end(key)
        if len(self._held) > MOST_HELD:
            self._held.popitem(last=False)

    def may(self, key: Hashable, now_s: float) -> bool:
        """Whether it may be tried now."""
        at_s, again_s = self._held.get(key, (0.0, 0.0))
        return not at_s <= now_s < again_s
