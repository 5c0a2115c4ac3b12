"""Who reports on a topic of a job: producers' message numbers, the ranks that they speak for, and world sizes.

Rule of this file: counts only; pure.
"""

from collections import Counter
from collections.abc import Iterable

from paceline.sequences import Sequences

from ..stored import Kept, Stored

#: Rank numbers beyond so many times what the world is believed to be are garbage.
_SPARE = 4
#: Where ranks are numbered with gaps, one of each tensor group, that is as far as nearly all that speak reach: all but
#: one in so many, and but one at the least.
_ODD_ONES = 10


class Roster(Stored):
    """The producers and the ranks of one job on one topic.

    >>> roster = Roster()
    >>> [roster.admit("node-1", number) for number in (7, 8, 8, 11)]
    [True, True, False, True]
    >>> roster.hear([0, 1], [4, 4])
    >>> roster.missing, roster.producers, roster.expected
    (2, 1, 4)
    """

    sequences: Kept[Sequences]
    worlds: Kept[dict[int, int]]

    def __init__(self) -> None:
        self.sequences = Sequences()
        self.worlds = {}
        #: Counts every change of a rank or its world.
        self.version = 0
        #: How many ranks believe in each world size: thousands of nodes join one by one, and each asks.
        self._votes: Counter[int] = Counter()
        self._expected: int | None = None
        self._reach: int | None = None

    def admit(self, producer: str, sequence: int) -> bool:
        """Whether this message is new."""
        return self.sequences.admit(producer, sequence)

    @property
    def last(self) -> dict[str, int]:
        """The last number of each producer."""
        return self.sequences.last

    @property
    def missing(self) -> int:
        """Messages that never came."""
        return self.sequences.missing

    @property
    def producers(self) -> int:
        """How many producers have reported."""
        return len(self.sequences.last)

    def hear(self, ranks: Iterable[int], world_sizes: Iterable[int]) -> None:
        """Take down which ranks reported, and how large each believes the world to be."""
        for rank, world in zip(ranks, world_sizes, strict=True):
            before = self.worlds.get(rank)
            if before != world:
                self.worlds[rank] = world
                self._votes[world] += 1
                if before is not None:
                    self._votes[before] -= 1
                self._changed()

    def _changed(self) -> None:
        self._expected = self._reach = None
        self.version += 1

    @property
    def expected(self) -> int:
        """The world size most ranks believe in (the larger on a tie), or 0 before any reported."""
        if self._expected is None:
            votes = +self._votes
            self._expected = max(votes, key=lambda world: (votes[world], world), default=0)
        return self._expected

    @property
    def plausible_ranks(self) -> int:
        """Ranks from this number on are garbage: tables are as long as the highest rank, and one absurd number must not
        make them a thousand times longer."""
        if self._reach is None:
            speak = sorted(self.worlds)
            odd_ones = max(1, len(speak) // _ODD_ONES)
            self._reach = speak[-1 - odd_ones] + 1 if len(speak) > odd_ones else 0
        return _SPARE * (_SPARE + max(self.expected, len(self.worlds), self._reach))

    def loaded(self) -> None:
        """Count the votes again."""
        self._votes = Counter(self.worlds.values())
        self._changed()


class JointRoster:
    """The rosters of two topics as one; where both know a rank, the first one's world counts."""

    def __init__(self, first: Roster, second: Roster) -> None:
        self._first, self._second = first, second
        self._both = Roster()
        self._of = (-1, -1)

    @property
    def _ranks(self) -> Roster:
        """The roster that knows the ranks of both."""
        if not self._second.worlds:
            return self._first
        if not self._first.worlds:
            return self._second
        if self._of != (now := (self._first.version, self._second.version)):
            self._of, self._both = now, Roster()
            worlds = self._second.worlds | self._first.worlds
            self._both.hear(worlds.keys(), worlds.values())
        return self._both

    @property
    def version(self) -> int:
        """Counts every change of a rank or its world."""
        return self._first.version + self._second.version

    @property
    def worlds(self) -> dict[int, int]:
        """How large each rank believes the world to be."""
        return self._ranks.worlds

    @property
    def expected(self) -> int:
        """As of one roster."""
        return self._ranks.expected

    @property
    def plausible_ranks(self) -> int:
        """As of one roster."""
        return self._ranks.plausible_ranks

    @property
    def missing(self) -> int:
        """Messages of either topic that never came."""
        return self._first.missing + self._second.missing
