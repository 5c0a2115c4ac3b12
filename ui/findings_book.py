"""Findings by (id, revision): delivery is at least once, so a repeated revision replaces itself.

Rule of this file: pure and bounded.
"""

from paceline.events import Finding

EPISODES, REVISIONS = 200, 40

#: What a reader must see first.
ORDER = {"confirmed": 0, "suspected": 1, "recovered": 2}


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

    def episodes(self) -> list[tuple[Finding, ...]]:
        """Each episode's revisions, oldest first; confirmed episodes, then suspected, then recovered."""
        found = [tuple(revisions[number] for number in sorted(revisions)) for revisions in self._episodes.values()]
        return sorted(found, key=lambda episode: (ORDER[episode[-1].state], -episode[-1].first_step, episode[-1].id))

    def _least(self) -> str:
        """The episode to forget: the oldest of those least worth seeing."""
        return self.episodes()[-1][-1].id
