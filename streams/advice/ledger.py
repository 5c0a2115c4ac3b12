"""All suggestions of a cluster, by case: when one is reported, revised, decided on and over.

Rule of this file: the only place where a suggestion changes its state or gets a revision.
"""

import msgspec

from paceline.events.suggestions import OPEN_SUGGESTIONS, Effect, Gain, Suggestion

from ..stored import Kept, Stored
from .clock import ClusterClock
from .config import AdviceConfig
from .entry import Entry, moved, suggestion, updated
from .lifecycle import FINAL, Signal, follow
from .precedence import STRONGER, speaks_for
from .proposal import Case, Proposal
from .trial import Trial

HOUR_S = 3600.0
#: Cases that are remembered at a time, and rests after them.
MOST_CASES, MOST_RESTS = 1000, 5000
#: A moment is told again once it has moved by more than this.
_MOVED_S = 600.0


class Ledger(Stored):
    """The suggestions of one cluster."""

    cluster: Kept[str]
    entries: Kept[dict[Case, Entry]]
    rests: Kept[dict[Case, tuple[float, int]]]
    news: Kept[list[tuple[float, str]]]
    order: Kept[int]
    due_s: Kept[float]

    def __init__(self, config: AdviceConfig, clock: ClusterClock) -> None:
        self.config = config
        self.clock = clock
        self.cluster = ""
        self.entries = {}
        #: Case -> until when it is not told again, and how often it was told.
        self.rests = {}
        #: When, and for which target, something new was told in the last hour.
        self.news = []
        self.order = 0
        self.due_s = 0.0

    def propose(self, proposal: Proposal) -> list[Suggestion]:
        """Take in what a source asks for; what is told of it."""
        case = proposal.case
        entry = self.entries.get(case)
        if entry is None:
            if len(self.entries) >= MOST_CASES:
                return []
            serial = self.rests.get(case, (0.0, 0))[1]
            entry = Entry(action=case.action, target=case.target, order=self.order, serial=serial, sources={})
            entry.since_s = self.clock.passed_s
            self.order += 1
            self.entries[case] = entry
        fresh = entry.add(proposal)
        if entry.state is None:
            return self._displace(entry) + self._tell([entry])
        if entry.state not in ("new", "accepted"):
            return []
        told = entry.told
        assert told is not None, "what has a state was told"
        now_s, lasts_s = self.clock.now_s(), self._lasts_s(entry)
        moved = entry.state == "new" and entry.has_moment
        moved = moved and self._has_moved(entry.until_s - self.clock.passed_s, lasts_s)
        now = updated(entry, now_s, now_s + lasts_s if moved else told.expires_s)
        # The last revision of a finding has its whole cost, and may follow the end of its job.
        last = proposal.ended and told.reason != now.reason
        if not (fresh or last or moved or told.severity != now.severity or self._has_changed(told.gain, now.gain)):
            return []
        entry.told = now
        if moved:
            entry.until_s = self.clock.passed_s + lasts_s
        return [now]

    def _lasts_s(self, entry: Entry) -> float:
        """For how long what is new can be followed: as long as each of its sources says."""
        return min([self.config.new_s, *(one.lasts_s for one in entry.sources.values() if one.lasts_s is not None)])

    def _has_moved(self, left_s: float, lasts_s: float) -> bool:
        """Whether the moment until which it can be followed is another one now; far ahead, minutes do not matter."""
        return abs(lasts_s - left_s) > max(_MOVED_S, self.config.news_ratio * lasts_s)

    def _has_changed(self, told: Gain, now: Gain) -> bool:
        """Whether the estimate or an end of its interval moved: early on, the interval is far too wide."""
        names = ("gpu_hours_per_day", "gpu_hours_low", "gpu_hours_high")
        pairs = [(getattr(told, name) or 0.0, getattr(now, name) or 0.0) for name in names]
        most = max(map(abs, pairs[0]))
        return any(abs(after - before) > self.config.news_ratio * most for before, after in pairs)

    def retract(self, source: str) -> list[Suggestion]:
        """``source`` speaks no more, nor do those that it replaced: of what was accepted it shows that it was done."""
        said: list[Suggestion] = []
        for entry in list(self.entries.values()):
            gone = [name for name, one in entry.sources.items() if source in (name, one.replaced_by)]
            if not gone:
                continue
            if len(entry.sources) > len(gone):
                for name in gone:
                    del entry.sources[name]
                continue
            if entry.state in ("new", None):
                said += self.move(entry, "gone")
                self.entries.pop(entry.case, None)
                continue
            entry.recovered = True
            if entry.state == "accepted":
                said += self.move(entry, "seen")
        return said + self.settle()

    def replace(self, source: str, by: str) -> None:
        """``by`` speaks for what ``source`` spoke for: nothing was done, and what ``source`` asks for stays."""
        for entry in self.entries.values():
            for name, one in list(entry.sources.items()):
                if source not in (name, one.replaced_by):
                    continue
                if by in entry.sources:
                    del entry.sources[name]
                else:
                    entry.sources[name] = msgspec.structs.replace(one, replaced_by=by)

    def outlive(self, entry: Entry) -> list[Suggestion]:
        """The job that ``entry`` is about has ended, and the advice has not: it is for the next run."""
        if all(one.ended for one in entry.sources.values()):
            return []
        entry.sources = {name: msgspec.structs.replace(one, ended=True) for name, one in entry.sources.items()}
        if entry.told is None or entry.state not in ("new", "accepted"):
            return []
        entry.told = updated(entry, self.clock.now_s(), entry.told.expires_s)
        return [entry.told]

    def decide(self, suggestion_id: str, signal: Signal, by: str, because: str) -> list[Suggestion]:
        """Somebody accepts or dismisses; nothing is told where that cannot be done to it (any more)."""
        entry = self.find(suggestion_id)
        return [] if entry is None else self.move(entry, signal, by=by, because=because)

    def find(self, suggestion_id: str) -> Entry | None:
        """The entry that is told under this id."""
        told = (entry for entry in self.entries.values() if entry.told is not None and entry.state is not None)
        return next((entry for entry in told if entry.told and entry.told.id == suggestion_id), None)

    def move(
        self,
        entry: Entry,
        signal: Signal,
        *,
        by: str | None = None,
        because: str | None = None,
        effect: Effect | None = None,
    ) -> list[Suggestion]:
        """Follow ``signal``; the suggestion in its next state, where it has one."""
        state = follow(entry.state, signal)
        if state == entry.state or state is None:
            return []
        config, passed_s = self.config, self.clock.passed_s
        entry.state, entry.since_s = state, passed_s
        waits = {"new": self._lasts_s(entry), "accepted": config.accepted_s, "applied": config.measured_s}
        lasts_s = waits.get(state, 0.0)
        entry.until_s = passed_s + lasts_s
        now_s = self.clock.now_s()
        if entry.told is None or state == "new":
            entry.told = suggestion(entry, self.cluster, now_s, now_s + lasts_s)
        else:
            expires_s = now_s + lasts_s if state in OPEN_SUGGESTIONS else None
            entry.told = moved(entry.told, state, now_s, by=by, because=because, effect=effect, expires_s=expires_s)
        if state == "applied":
            entry.trial.skip = 1
        said = entry.told
        if state in FINAL:
            self._close(entry)
        return [said]

    def _close(self, entry: Entry) -> None:
        """It is over: what still speaks for it is held back while it rests."""
        config = self.config
        # What was for a moment expires with it, whether or not anybody liked it.
        short = entry.state in ("withdrawn", "verified") or (entry.state == "expired" and entry.has_moment)
        rest_s = config.rest_s if short else config.dismissed_rest_s
        self.rests.pop(entry.case, None)
        self.rests[entry.case] = (self.clock.passed_s + rest_s, entry.serial + 1)
        while len(self.rests) > MOST_RESTS:
            del self.rests[next(iter(self.rests))]
        if entry.recovered:
            self.entries.pop(entry.case, None)
        entry.state, entry.told, entry.trial, entry.serial = None, None, Trial(), entry.serial + 1

    def _displace(self, entry: Entry) -> list[Suggestion]:
        """Withdraw what is new and says what ``entry``, which is not told yet, says better."""
        if self._rests(entry.case):
            return []
        about = entry.about
        weaker = [one for one in self.entries.values() if one.state == "new" and speaks_for(about, one.about)]
        return [said for one in weaker for said in self.move(one, "gone")]

    def settle(self) -> list[Suggestion]:
        """Tell what was held back and may be told by now, the gravest first."""
        held = [one for one in self.entries.values() if one.state is None and not self._rests(one.case)]
        return self._tell(sorted(held, key=lambda one: (*(-value for value in one.worth()), one.order)))

    def _tell(self, held: list[Entry]) -> list[Suggestion]:
        """Tell those of ``held`` that nothing stronger speaks for, as long as there is room."""
        said: list[Suggestion] = []
        for entry in held:
            if self._has_room(entry.target) and not self._rests(entry.case) and not self._is_spoken_for(entry):
                self.news.append((self.clock.passed_s, entry.target))
                said += self.move(entry, "tell")
        return said

    def _is_spoken_for(self, entry: Entry) -> bool:
        """Whether something stronger that lasts, or would be told, says what to do about the same."""
        about = entry.about
        return any(
            speaks_for(other.about, about)
            for other in self.entries.values()
            if other.action in STRONGER.get(entry.action, ()) and not (other.state is None and self._rests(other.case))
        )

    def _rests(self, case: Case) -> bool:
        return self.clock.passed_s < self.rests.get(case, (0.0, 0))[0]

    def _has_room(self, target: str) -> bool:
        """Whether something new may be told, of late."""
        self.news = [one for one in self.news if self.clock.passed_s - one[0] < HOUR_S]
        mine = sum(told == target for _, told in self.news)
        return len(self.news) < self.config.new_an_hour and mine < self.config.new_an_hour_job

    def expire(self) -> list[Suggestion]:
        """End what nobody decided on, or nobody could measure; forget what was held back for too long."""
        passed_s = self.clock.passed_s
        if passed_s < self.due_s:
            return []
        self.due_s = passed_s + 10.0
        said: list[Suggestion] = []
        for entry in list(self.entries.values()):
            if entry.state in OPEN_SUGGESTIONS and passed_s >= entry.until_s:
                said += self.move(entry, "late")
            elif entry.state is None and passed_s >= entry.since_s + self.config.new_s:
                del self.entries[entry.case]
        return said + self.settle()

    def loaded(self) -> None:
        """Each entry under its own case, whatever a damaged state says."""
        self.entries = {entry.case: entry for entry in self.entries.values()}
