"""What a finding rests on: which ranks reported, and what is missing or odd of their messages.

Rule of this file: counts only. It judges nothing; the findings' coverage is read from it.
"""

from paceline.events import Coverage

from ..stored import Kept, Stored
from .roster import JointRoster, Roster


def sampled(told: int, left_out: int) -> str:
    """How many of a job's steps were reported, where others were left out on purpose.

    >>> sampled(181, 542)
    'steps sampled: 1 in 4 (181 of 723)'
    """
    return f"steps sampled: 1 in {(told + left_out) / max(told, 1):.2g} ({told} of {told + left_out})"


class CoverageTracker(Stored):
    """Gaps, disagreements and oddities in the messages of ``roster``, which is kept by whoever admits them."""

    odd: Kept[dict[str, int]]
    told: Kept[int]
    left_out: Kept[int]

    def __init__(self, roster: Roster | JointRoster | None = None) -> None:
        self.roster = Roster() if roster is None else roster
        self.odd = {}
        #: Steps that were told, and that were left out on purpose.
        self.told = self.left_out = 0
        #: What ``counts`` answered last, and of which numbers: it is asked with each step, and seldom changes.
        self._counts: tuple[tuple[int, ...], Coverage] | None = None

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
        """See ``Roster``."""
        return self.roster.expected

    @property
    def plausible_ranks(self) -> int:
        """See ``Roster``."""
        return self.roster.plausible_ranks

    def counts(self) -> Coverage:
        """The coverage that a finding of this moment rests on."""
        roster = self.roster
        numbers = (roster.missing, roster.version, self.left_out, self.told if self.left_out else 0)
        if self._counts is None or self._counts[0] != numbers:
            self._counts = (numbers, self._count())
        return self._counts[1]

    def _count(self) -> Coverage:
        roster, worlds = self.roster, self.roster.worlds
        notes = [f"{what}: {times}" for what, times in sorted(self.odd.items())]
        if len(set(worlds.values())) > 1:
            notes.append(f"ranks disagree about the world size: {sorted(set(worlds.values()))[:8]}")
        silent = roster.expected - len(worlds)
        if silent > 0:
            notes.append(f"ranks that did not report: {silent} of {roster.expected}")
        if self.left_out:
            notes.append(sampled(self.told, self.left_out))
        return Coverage(
            ranks_expected=roster.expected, ranks_heard=len(worlds), events_missing=roster.missing, notes=notes
        )

    def loaded(self) -> None:
        """Work out again what follows from the state."""
        self._counts = None
