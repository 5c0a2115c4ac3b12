"""How long to wait before the next attempt: doubling, capped, with jitter.

Rule of this file: pure; chance comes in as an argument. Without jitter every node of a cluster would knock at the same
moment when a broker comes back.
"""

from random import Random


class Backoff:
    """Delays of ``first_s``, twice that, … at most ``cap_s``, each times a random factor in [0.5, 1.5)."""

    def __init__(self, first_s: float, cap_s: float, random: Random) -> None:
        self.first_s, self.cap_s, self._random = first_s, cap_s, random
        self._failures = 0

    def next_s(self) -> float:
        """The delay after one more failure."""
        delay = self.delay_s(self._failures)
        self._failures += 1
        return delay

    def delay_s(self, failures: int) -> float:
        """The delay after one more failure than ``failures``, for who counts them."""
        return min(self.cap_s, self.first_s * 2.0 ** min(failures, 30)) * (0.5 + self._random.random())

    def reset(self) -> None:
        """An attempt succeeded."""
        self._failures = 0
