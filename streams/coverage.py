"""What was heard of a job and what is missing: producers' message numbers, ranks, world sizes, odd rows.

Rule of this file: counts only. It judges nothing; the findings' coverage is read from it.
"""

from collections import Counter
from collections.abc import Iterable
from typing import Any

from paceline.events import Coverage
from paceline.sequences import Sequences

#: Rank numbers beyond so many times what the world is believed to be are garbage.
_SPARE = 4
#: Where ranks are numbered with gaps, one of each tensor group, that is as far as nearly all that speak reach: all but
#: one in so many, and but one at the least.
_ODD_ONES = 10


def sampled(told: int, left_out: int) -> str:
    """How many of a job's steps were reported, where others were left out on purpose.

    >>> sampled(181, 542)
    'steps sampled: 1 in 4 (181 of 723)'
    """
    return f"steps sampled: 1 in {(told + left_out) / max(told, 1):.2g} ({told} of {told + left_out})"


class CoverageTracker:
    """Gaps, duplicates and disagreements in one job's messages on one topic."""

    def __init__(self) -> None:
        self.sequences = Sequences()
        self.worlds: dict[int, int] = {}
        #: How many ranks believe in each world size: thousands of nodes join one by one, and each asks.
        self._votes: Counter[int] = Counter()
        self.odd: dict[str, int] = {}
        #: Steps that were told, and that were left out on purpose.
        self.told = self.left_out = 0
        self._expected: int | None = None
        self._reach: int | None = None
        #: What ``counts`` answered last, and of which numbers: it is asked with each step, and seldom changes.
        self._counts: tuple[tuple[int, int, int], Coverage] | None = None

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

    def hear(self, ranks: Iterable[int], world_sizes: Iterable[int]) -> None:
        """Take down which ranks spoke, and how large each believes the world to be."""
        for rank, world in zip(ranks, world_sizes, strict=True):
            before = self.worlds.get(rank)
            if before != world:
                self.worlds[rank] = world
                self._votes[world] += 1
                if before is not None:
                    self._votes[before] -= 1
                self._expected = self._reach = self._counts = None

    def note(self, what: str, times: int = 1) -> None:
        """Count something odd, by name."""
        if times:
            self.odd[what] = self.odd.get(what, 0) + times
            self._counts = None

    def note_all(self, odd: dict[str, int]) -> None:
        """Count several things that are odd, by name."""
        for what, times in odd.items():
            self.note(what, times)

    def leave_out(self, ranks: int, most: int) -> None:
        """Take down that a job has so many ranks beyond the bound of ``most``."""
        if ranks:
            what = f"ranks left out (impossible rank: beyond {most} of one job)"
            self.odd[what] = max(self.odd.get(what, 0), ranks)
            self._counts = None

    def count_step(self, left_out: int) -> None:
        """Take down a step that was reported, and how many right before it were left out on purpose."""
        self.told += 1
        self.left_out += left_out

    @property
    def expected(self) -> int:
        """The world size most ranks believe in (the larger on a tie), or 0 before anybody spoke."""
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

    @property
    def producers(self) -> int:
        """How many producers have been heard."""
        return len(self.last)

    def counts(self) -> Coverage:
        """The coverage that a finding of this moment rests on."""
        numbers = (self.missing, self.left_out, self.told if self.left_out else 0)
        if self._counts is None or self._counts[0] != numbers:
            self._counts = (numbers, self._count())
        return self._counts[1]

    def _count(self) -> Coverage:
        notes = [f"{what}: {times}" for what, times in sorted(self.odd.items())]
        if len(set(self.worlds.values())) > 1:
            notes.append(f"ranks disagree about the world size: {sorted(set(self.worlds.values()))[:8]}")
        silent = self.expected - len(self.worlds)
        if silent > 0:
            notes.append(f"ranks that did not report: {silent} of {self.expected}")
        if self.left_out:
            notes.append(sampled(self.told, self.left_out))
        return Coverage(
            ranks_expected=self.expected, ranks_heard=len(self.worlds), events_missing=self.missing, notes=notes
        )

    def snapshot(self) -> dict[str, Any]:
        """The state as plain data."""
        return {
            **self.sequences.snapshot(),
            "worlds": dict(self.worlds),
            "odd": dict(self.odd),
            "told": self.told,
            "left_out": self.left_out,
        }

    def load(self, data: dict[str, Any]) -> None:
        """Take the state that ``snapshot`` described."""
        self.sequences = Sequences.restore(data)
        self.worlds, self.odd = dict(data["worlds"]), dict(data["odd"])
        self._votes = Counter(self.worlds.values())
        self.told, self.left_out = data["told"], data["left_out"]
        self._expected = self._reach = self._counts = None
