"""What goes to one destination, and when: news gathered by job, not too often, again after a failure.

Rule of this file: pure and bounded; time and chance are arguments. One message is on its way at a time. What was told
is known only once ``sent`` says so, hence at least once; a message that a destination refuses for good is counted and
not tried again, for what follows it must not wait for it.
"""

from collections import defaultdict
from dataclasses import dataclass
from random import Random
from typing import Any, NamedTuple

from paceline.backoff import Backoff

from .alert import SEVERITIES, Alert, Severity
from .book import AlertBook, Standing
from .lifecycle import UNTOLD, News, Told, news
from .message import Entry, Message
from .rate import TokenBucket

#: The first and the longest wait before a message is tried again; the longest that a destination may ask for.
RETRY_FIRST_S, RETRY_CAP_S, RETRY_ASKED_S = 1.0, 300.0, 3600.0
#: Alerts whose last word is kept: twice as many as the book holds.
MOST_TOLD = 10_000
GATHER_S = 10.0


@dataclass(frozen=True)
class Profile:
    """How a destination wants to be told.

    News waits ``gather_s`` for others of its job. Of one message at most ``most`` alerts are listed; those beyond go
    with the next message where ``lists_all``, and are only counted where it is for people. Where ``repeat_s`` is set,
    what holds is told again after it, counts as over after five times that, and needs neither groups nor a rate.
    """

    most: int
    lists_all: bool
    gather_s: float = GATHER_S
    repeat_s: float | None = None


class _Due(NamedTuple):
    alert: Alert
    standing: Standing
    news: News
    told: Told


class Destination:
    """The decision for one destination; ``rate`` is how many messages a minute it may get."""

    def __init__(self, profile: Profile, least: Severity, rate: int, random: Random) -> None:
        self.profile, self.least = profile, least
        self._bucket = TokenBucket(rate, 60.0)
        self._backoff = Backoff(RETRY_FIRST_S, RETRY_CAP_S, random)
        self._told: dict[str, Told] = {}
        #: Since when each piece of news has waited.
        self._since: dict[str, float] = {}
        self._flying = False
        self._retry_s = 0.0
        #: Messages that arrived, that did not, and that were refused for good.
        self.arrived, self.failures, self.refusals = 0, 0, 0

    def next(self, book: AlertBook, now_s: float, gather: bool = True) -> Message | None:
        """What is to be sent now, if anything; without ``gather`` at once, and however often."""
        if self._flying or now_s < self._retry_s:
            return None
        due = self._due(book, now_s)
        self._since = {one.alert.id: self._since.get(one.alert.id, now_s) for one in due}
        if self.profile.repeat_s is not None:
            chosen, group = self._with_repeats(due, book, now_s), None
        else:
            chosen, group = self._ripe(due, now_s if gather else float("inf"), self._bucket.tokens(now_s), gather)
        if not chosen:
            return None
        self._flying = True
        return self._message(chosen, group, now_s)

    def sent(self, message: Message, now_s: float) -> None:
        """``message`` has arrived."""
        self.arrived += 1
        self._over(message, now_s)

    def refused(self, message: Message, now_s: float) -> None:
        """``message`` will never be taken."""
        self.refusals += 1
        self._over(message, now_s)

    def failed(self, now_s: float, asked_s: float = 0.0) -> float:
        """The message has not arrived; when the next is tried, at the earliest ``asked_s`` from now."""
        self.failures += 1
        self._flying = False
        self._retry_s = now_s + max(self._backoff.next_s(), min(asked_s, RETRY_ASKED_S))
        return self._retry_s

    def waits(self, book: AlertBook, now_s: float) -> bool:
        """Whether something is on its way or still to be told."""
        return self._flying or bool(self._due(book, now_s))

    def waiting(self, book: AlertBook, now_s: float) -> int:
        """How many alerts are still to be told, those on their way included."""
        return len(self._due(book, now_s))

    def snapshot(self) -> dict[str, Any]:
        """What was told, as plain data."""
        return {"told": {key: list(told) for key, told in self._told.items()}}

    def restore(self, data: dict[str, Any]) -> None:
        """Take the state that ``snapshot`` described.

        Raises:
            KeyError, TypeError, ValueError: it is no such state; nothing has changed then.
        """
        told = {}
        for key, (state, severity, at_s) in data["told"].items():
            if state not in ("firing", "resolved") or severity not in SEVERITIES:
                raise ValueError(f"no such state: {state!r}, {severity!r}")
            told[str(key)] = Told(state, severity, float(at_s))
        self._told = told

    def _due(self, book: AlertBook, now_s: float) -> list[_Due]:
        due = []
        for alert in book.alerts.values():
            told, standing = self._told.get(alert.id, UNTOLD), book.standing(alert, now_s)
            said = news(told, standing.fires, alert.severity, self.least)
            if said is not None:
                due.append(_Due(alert, standing, said, told))
        return due

    def _with_repeats(self, due: list[_Due], book: AlertBook, now_s: float) -> list[_Due]:
        """All that is due; and what is to be told again, oldest first, with what soon would be."""
        repeat_s = self.profile.repeat_s or 0.0
        fresh = {one.alert.id for one in due}
        held = [
            _Due(alert, Standing(True), "firing", told)
            for alert in book.alerts.values()
            if alert.id not in fresh
            and (told := self._told.get(alert.id, UNTOLD)).state == "firing"
            and book.standing(alert, now_s).fires
        ]
        held.sort(key=lambda one: one.told.at_s)
        # A clock that was set back must not silence it until it has caught up.
        if not held or 0 <= now_s - held[0].told.at_s < repeat_s:
            return due
        return [*due, *(one for one in held if not 0 <= now_s - one.told.at_s < repeat_s / 2)]

    def _ripe(
        self, due: list[_Due], now_s: float, tokens: float, gather: bool
    ) -> tuple[list[_Due], tuple[str, str] | None]:
        """The job whose news has waited longest, or all at once where hardly any message is allowed any more."""
        if gather and tokens < 1.0:
            return [], None
        groups: dict[tuple[str, str], list[_Due]] = defaultdict(list)
        for one in due:
            groups[one.alert.group].append(one)
        waited = {key: min(self._since[one.alert.id] for one in group) for key, group in groups.items()}
        ripe = [key for key in groups if now_s - waited[key] >= self.profile.gather_s]
        if not ripe:
            return [], None
        if len(ripe) == 1 or (gather and tokens >= 2.0):
            first = min(ripe, key=lambda key: (waited[key], key))
            return groups[first], first
        return [one for key in ripe for one in groups[key]], None

    def _message(self, chosen: list[_Due], group: tuple[str, str] | None, now_s: float) -> Message:
        if self.profile.repeat_s is None:
            chosen = sorted(chosen, key=_worst_first)
        listed = chosen[: self.profile.most]
        marked = listed if self.profile.lists_all else chosen
        return Message(
            group=group,
            entries=tuple(self._entry(one, now_s) for one in listed),
            more=0 if self.profile.lists_all else len(chosen) - len(listed),
            marks={one.alert.id: Told(one.news, one.alert.severity, now_s) for one in marked},
        )

    def _entry(self, one: _Due, now_s: float) -> Entry:
        told, alert = one.told, one.alert
        former = told.severity if told.state == "firing" and told.severity != alert.severity else None
        if one.news == "resolved":
            return Entry(alert, "resolved", one.standing.ending, one.standing.ended_s, former)
        repeat_s = self.profile.repeat_s
        return Entry(alert, "firing", "", None if repeat_s is None else now_s + 5 * repeat_s, former)

    def _over(self, message: Message, now_s: float) -> None:
        self._flying, self._retry_s = False, 0.0
        self._backoff.reset()
        self._bucket.take(now_s)
        for key, told in message.marks.items():
            self._told.pop(key, None)
            self._told[key] = told
        while len(self._told) > MOST_TOLD:
            del self._told[next(iter(self._told))]


def _worst_first(one: _Due) -> tuple[bool, int, float, str]:
    alert = one.alert
    return one.news == "resolved", -SEVERITIES.index(alert.severity), alert.starts_s, alert.id
