"""How often to sample: the node's own interval, or what those want who have asked for more for a while.

Rule of this file: a decision; time is an argument, in seconds of a monotonic clock. A wish holds until it expires, so
that whoever is killed asks for nothing any more; it never makes sampling slower than the node's own interval.
"""

from typing import NamedTuple

from .change import Change

#: Wishes at a time, each under a name of its own.
MOST_LEASES = 64
#: After a change the short interval holds so long.
HOLD_S = 10.0


class Lease(NamedTuple):
    """A wish: sample every ``interval_s`` until ``until_s``; ``adaptive``: only while something changes."""

    interval_s: float
    until_s: float
    adaptive: bool


class TooManyError(Exception):
    """No further wish is taken."""


class Pace:
    """The interval of a node that samples every ``own_s`` seconds unless somebody asks for more.

    >>> pace = Pace(own_s=1.0)
    >>> pace.ask("session-1", 0.2, 120.0, adaptive=False, now_s=0.0)
    >>> pace.ask("session-2", 0.5, 300.0, adaptive=False, now_s=0.0)
    >>> pace.interval_s(60.0), pace.interval_s(200.0), pace.interval_s(400.0)
    (0.2, 0.5, 1.0)
    """

    def __init__(self, own_s: float) -> None:
        self._own_s = own_s
        self._leases: dict[str, Lease] = {}
        self._changes: dict[str, Change] = {}
        self._changed_s = float("-inf")

    def ask(self, lease: str, interval_s: float, seconds: float, *, adaptive: bool, now_s: float) -> None:
        """Sample every ``interval_s`` for ``seconds`` from now on; 0: the wish of that name is over.

        Raises:
            TooManyError: there are too many wishes.
        """
        self._expire(now_s)
        if lease not in self._leases and len(self._leases) >= MOST_LEASES:
            raise TooManyError(f"{MOST_LEASES} hold already; the first ends in {self._first_end_s(now_s):.0f} s")
        self._leases[lease] = Lease(interval_s, now_s + seconds, adaptive)
        self._expire(now_s)

    def observe(self, signal: str, value: float | None, now_s: float) -> None:
        """``signal`` was measured, in any unit; None was not."""
        if value is None or not any(lease.adaptive for lease in self._leases.values()):
            return
        if self._changes.setdefault(signal, Change()).update(value):
            self._changed_s = now_s

    def interval_s(self, now_s: float) -> float:
        """How often to sample at ``now_s``."""
        self._expire(now_s)
        changing = now_s - self._changed_s < HOLD_S
        wished = [lease.interval_s for lease in self._leases.values() if changing or not lease.adaptive]
        return min([self._own_s, *wished])

    def _expire(self, now_s: float) -> None:
        self._leases = {name: lease for name, lease in self._leases.items() if lease.until_s > now_s}
        if not self._leases:
            self._changes.clear()

    def _first_end_s(self, now_s: float) -> float:
        return min(lease.until_s for lease in self._leases.values()) - now_s
