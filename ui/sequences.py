"""Producers number their messages: drop what comes twice, count what never came.

Rule of this file: pure and bounded; the producer silent for longest is forgotten first.
"""

PRODUCERS = 10_000


class Sequences:
    """The last number of each producer on each topic."""

    def __init__(self) -> None:
        self.missing = 0
        self.repeated = 0
        self._last: dict[tuple[str, str], int] = {}

    def fresh(self, topic: str, producer: str, sequence: int) -> bool:
        """Whether this message was not seen before. The first of a producer sets where its counting starts."""
        last = self._last.pop((topic, producer), None)
        self._last[topic, producer] = sequence if last is None else max(last, sequence)
        if len(self._last) > PRODUCERS:
            del self._last[next(iter(self._last))]
        if last is None:
            return True
        if sequence <= last:
            self.repeated += 1
            return False
        self.missing += sequence - last - 1
        return True

    def forget_gaps(self, topic: str) -> None:
        """We skipped messages of ``topic`` ourselves: the next number of each producer is no gap."""
        for key in [key for key in self._last if key[0] == topic]:
            del self._last[key]
