"""Batches of alerts whose message did not arrive, and when each is tried again.

Rule of this file: pure and bounded by the alerts that there are; time is a steady clock's, an argument. A batch that
fails is halved, so that what is not taken is soon alone: then it waits ever longer, and nothing else does.
"""

from collections.abc import Collection, Sequence
from typing import NamedTuple

from paceline.backoff import Backoff


class Batch(NamedTuple):
    """The alerts ``ids``, tried from ``at_s`` on; ``failures`` counts how often one failed alone."""

    ids: frozenset[str]
    at_s: float
    failures: int = 0


class Retries:
    """What failed, by batches; the one that has waited longest comes first.

    >>> from random import Random
    >>> retries = Retries(Backoff(1.0, 300.0, Random(1)))
    >>> retries.failed(("a", "b", "c"), 0.0)
    >>> [sorted(batch.ids) for batch in (retries.first(0.0), retries.first(-1.0)) if batch]
    [['a']]
    """

    def __init__(self, backoff: Backoff) -> None:
        self._backoff = backoff
        self._batches: list[Batch] = []

    @property
    def ids(self) -> frozenset[str]:
        """All alerts that are in a batch."""
        return frozenset().union(*(batch.ids for batch in self._batches))

    def failed(self, ids: Sequence[str], now_s: float, halve: bool = True) -> None:
        """The message of ``ids`` failed: its halves are tried apart, and one alone after its own wait.

        Without ``halve`` it goes to the back as it is.
        """
        failures = max((batch.failures for batch in self._batches if not batch.ids.isdisjoint(ids)), default=0)
        self.drop(ids)
        if len(ids) == 1:
            self._batches.append(Batch(frozenset(ids), now_s + self._backoff.delay_s(failures), failures + 1))
            return
        middle = len(ids) // 2 if halve else 0
        self._batches += [Batch(frozenset(half), now_s) for half in (ids[:middle], ids[middle:]) if half]

    def put_off(self, ids: Sequence[str], until_s: float) -> None:
        """Try ``ids`` again from ``until_s`` on, by themselves."""
        self.drop(ids)
        self._batches.append(Batch(frozenset(ids), until_s))

    def drop(self, ids: Collection[str]) -> None:
        """Forget ``ids``: they have arrived, or there is nothing to tell of them."""
        gone = frozenset(ids)
        if not gone:
            return
        left = (batch._replace(ids=batch.ids - gone) for batch in self._batches)
        self._batches = [batch for batch in left if batch.ids]

    def first(self, now_s: float) -> Batch | None:
        """The batch that is due and has waited longest."""
        due = [batch for batch in self._batches if batch.at_s <= now_s]
        return min(due, key=lambda batch: batch.at_s) if due else None
