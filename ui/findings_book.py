"""Findings by (id, revision): delivery is at least once, so a repeated revision replaces itself.

Rule of this file: pure and bounded.
"""

from collections.abc import Iterable

from paceline.events import Finding
from paceline.events.findings import STATE_ORDER
from paceline.held_bytes import HeldBytes, size_of

EPISODES, REVISIONS = 200, 40
#: What all of them take: 200 findings of 40 revisions of 4 KB each.
FINDING_BYTES = 32 * 2**20

Episode = tuple[Finding, ...]


def ordered(episodes: Iterable[Episode]) -> list[Episode]:
    """What a reader must see first, first; in each state the newest first."""
    return sorted(episodes, key=lambda one: (STATE_ORDER.get(one[-1].state, 1), -one[-1].first_step, one[-1].id))


class FindingsBook:
    """Every episode's revisions, oldest first; the first revision and the newest ones are kept."""

    def __init__(self, earlier: Iterable[str] = ()) -> None:
        self._episodes: dict[str, dict[int, Finding]] = {}
        self._held = HeldBytes[tuple[str, int]](FINDING_BYTES)
        #: Ids of findings of the run before: their last revisions come after this run has begun.
        self._earlier = set(earlier)
        self._earlier_bytes = sum(map(size_of, self._earlier))
        #: When each was last reported.
        self._reported_s: dict[str, float] = {}

    @property
    def bytes(self) -> int:
        """What all of them take in memory."""
        return self._held.bytes + self._earlier_bytes

    def before(self, at_s: float) -> set[str]:
        """Ids of episodes that were last reported before ``at_s``."""
        return {one for one, reported_s in self._reported_s.items() if reported_s < at_s}

    def shrink(self, most_bytes: int) -> None:
        """Keep ``most_bytes`` at most; the revisions that were taken in longest ago go."""
        self._forget(self._held.shrink(most_bytes))

    def upsert(self, finding: Finding, at_s: float) -> None:
        """Take ``finding``, reported at ``at_s``; the same (id, revision) again changes nothing else.

        An id of the run before is passed over until it begins again, with its first revision.
        """
        if finding.id in self._earlier:
            if finding.revision > 1:
                return
            self._earlier.remove(finding.id)
        revisions = self._episodes.setdefault(finding.id, {})
        revisions[finding.revision] = finding
        self._reported_s[finding.id] = max(at_s, self._reported_s.get(finding.id, at_s))
        if len(revisions) > REVISIONS:
            second = sorted(revisions)[1]
            del revisions[second]
            self._held.forget((finding.id, second))
        if finding.revision in revisions:
            self._forget(self._held.note((finding.id, finding.revision), size_of(finding)))
        if len(self._episodes) > EPISODES:
            least = self._least()
            del self._reported_s[least]
            for revision in self._episodes.pop(least):
                self._held.forget((least, revision))

    def episodes(self) -> list[Episode]:
        """Each episode's revisions, oldest first; confirmed episodes, then suspected, then recovered."""
        return ordered(tuple(revisions[at] for at in sorted(revisions)) for revisions in self._episodes.values())

    def latest(self) -> list[Finding]:
        """Each episode's newest revision, in no order."""
        return [revisions[max(revisions)] for revisions in self._episodes.values()]

    def _forget(self, gone: Iterable[tuple[str, int]]) -> None:
        for key, revision in gone:
            del self._episodes[key][revision]
            if not self._episodes[key]:
                del self._episodes[key], self._reported_s[key]

    def _least(self) -> str:
        """The episode to forget: the oldest of those least worth seeing."""
        return self.episodes()[-1][-1].id
