"""Findings by (id, revision): delivery is at least once, so a repeated revision replaces itself.

Rule of this file: pure and bounded.
"""

from collections.abc import Iterable

from paceline.events import Finding
from paceline.events.findings import STATE_ORDER

EPISODES, REVISIONS = 200, 40


Episode = tuple[Finding, ...]


def ordered(episodes: Iterable[Episode]) -> list[Episode]:
    """What a reader must see first, first; in each state the newest first."""
    return sorted(episodes, key=lambda one: (STATE_ORDER.get(one[-1].state, 1), -one[-1].first_step, one[-1].id))


class FindingsBook:
    """Every episode's revisions, oldest first; the first revision and the newest ones are kept."""

    def __init__(self) -> None:
        self._episodes: dict[str, dict[int, Finding]] = {}

    def upsert(self, finding: Finding) -> None:
        """Take ``finding``; the same (id, revision) again changes nothing else."""
        revisions = self._episodes.setdefault(finding.id, {})
        revisions[finding.revision] = finding
        if len(revisions) > REVISIONS:
            del revisions[sorted(revisions)[1]]
        if len(self._episodes) > EPISODES:
            del self._episodes[self._least()]

    def episodes(self) -> list[Episode]:
        """Each episode's revisions, oldest first; confirmed episodes, then suspected, then recovered."""
        return ordered(tuple(revisions[at] for at in sorted(revisions)) for revisions in self._episodes.values())

    def latest(self) -> list[Finding]:
        """Each episode's newest revision, in no order."""
        return [revisions[max(revisions)] for revisions in self._episodes.values()]

    def _least(self) -> str:
        """The episode to forget: the oldest of those least worth seeing."""
        return self.episodes()[-1][-1].id
