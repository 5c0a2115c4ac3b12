"""How much of the time between two readings of the run queue the probe was on, and heard what a rank did.

Rule of this file: pure; times are integer nanoseconds.
"""


class HeardTime:
    """Told when the probe is turned off and on.

    >>> heard = HeardTime()
    >>> heard.turned_off(10), heard.read(40), heard.turned_on(70)
    (None, 0.25, None)
    >>> heard.read(80), heard.read(120)
    (0.25, 1.0)
    """

    def __init__(self) -> None:
        self._off_since: int | None = None
        self._off_ns = self._read_at = 0

    def turned_off(self, t: int) -> None:
        """Nothing is heard from ``t`` on."""
        self._off_since = t

    def turned_on(self, t: int) -> None:
        """... up to ``t``."""
        if self._off_since is not None:
            self._off_ns += max(t - self._off_since, 0)
        self._off_since = None

    def read(self, t: int) -> float:
        """The share of the time since the reading before in which the probe was on."""
        if self._off_since is not None:
            self._off_ns, self._off_since = self._off_ns + max(t - self._off_since, 0), t
        elapsed_ns = t - self._read_at
        heard = max(1.0 - self._off_ns / elapsed_ns, 0.0) if self._off_ns and elapsed_ns > 0 else 1.0
        self._read_at, self._off_ns = t, 0
        return heard
