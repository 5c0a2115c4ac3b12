"""What goes to one destination, and when: news gathered by job, not too often, again after a failure.

Rule of this file: pure and bounded; time and chance are arguments. ``now_s`` is the clock that alerts are dated by,
``steady_s`` one that nobody sets: every wait is by that. One message is on its way at a time. What was told is known
only once ``sent`` says so, hence at least once. What a destination does not take, for now or for good, is tried in
ever smaller messages in turn with all else, and holds nothing else up.
"""

from collections import defaultdict
from dataclasses import dataclass
from random import Random
from typing import Any, NamedTuple

from paceline.backoff import Backoff
from paceline.events import SEVERITIES, Severity

from .alert import Alert
from .book import LAST_REVISION_S, AlertBook, Standing
from .lifecycle import UNTOLD, News, Told, news
from .message import Entry, Message
from .rate import TokenBucket
from .retries import Retries

#: The first and the longest wait before a message is tried again; the longest that a destination may ask for.
RETRY_FIRST_S, RETRY_CAP_S, RETRY_ASKED_S = 1.0, 300.0, 3600.0
#: Where so many messages in a row are not taken, it is hardly for what they say: only every so-manyth is halved then.
IN_A_ROW = 8
#: Alerts whose last word is kept: twice as many as the book holds.
MOST_TOLD = 10_000
GATHER_S = 10.0


@dataclass(frozen=True)
class Profile:
    """How alerts are put for a destination.

    News waits ``gather_s`` for others of its job. Of one message at most ``most`` alerts are listed; those beyond go
    with the next message where ``lists_all``, and are only counted where it is for people. Where ``repeat_s`` is set,
    what holds is reported again after it, counts as over after five times that, and needs neither groups nor a rate.
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
        #: Between messages that are not taken: at last as far apart as those that are.
        self._pace = Backoff(RETRY_FIRST_S, 60.0 / rate, random)
        self._in_a_row = 0
        self._retries = Retries(Backoff(RETRY_FIRST_S, RETRY_CAP_S, random))
        self._retried_last = False
        self._told: dict[str, Told] = {}
        #: Since when each piece of news has waited, and when each alert was told last; on the steady clock.
        self._since: dict[str, float] = {}
        self._told_s: dict[str, float] = {}
        self._flying = False
        self._retry_s = float("-inf")
        #: Messages that arrived, that did not, and alerts that were refused for good.
        self.arrived, self.failures, self.refusals = 0, 0, 0

    @property
    def failing(self) -> bool:
        """Whether anything that failed is still to be tried again."""
        return bool(self._retries.ids)

    def next(self, book: AlertBook, now_s: float, steady_s: float, gather: bool = True) -> Message | None:
        """What is to be sent now, if anything; without ``gather`` at once, and however often."""
        if self._flying or steady_s < self._retry_s:
            return None
        due = [one for one in self._due(book, now_s) if not (gather and _may_grow(one.standing, now_s))]
        held = self._held(due, book, now_s)
        self._retries.drop(self._retries.ids - {one.alert.id for one in (*due, *held)})
        self._since = {one.alert.id: self._since.get(one.alert.id, steady_s) for one in due}
        chosen = self._chosen(due, held, steady_s, gather)
        if not chosen:
            return None
        self._flying = True
        return self._message(chosen, now_s)

    def sent(self, message: Message, steady_s: float) -> None:
        """``message`` has arrived."""
        self.arrived += 1
        self._backoff.reset()
        self._over(message, steady_s)
        self._retries.drop(tuple(message.marks))

    def refused(self, message: Message, steady_s: float) -> bool:
        """``message`` is not taken as it is: its halves are tried; whether it was one alert, which is dropped."""
        ids = _listed(message)
        if len(ids) > 1:
            self._flying = False
            self._retries.failed(ids, steady_s)
            self._retry_s = steady_s + self._pace.next_s()
            return False
        self.refusals += 1
        self._over(message, steady_s)
        self._retries.drop(ids)
        if self.profile.repeat_s is not None:  # It would be repeated, and with it whatever is in one message with it.
            self._retries.put_off(ids, steady_s + RETRY_ASKED_S)
        return True

    def failed(self, message: Message, steady_s: float, asked_s: float = 0.0, reached: bool = False) -> float:
        """The message has not arrived; when the next is tried, at the earliest ``asked_s`` from now.

        ``reached`` says that it got there: then it may be this message alone that is not taken, and others go on.
        """
        self.failures += 1
        self._flying = False
        if reached:
            self._in_a_row += 1
            halve = self._in_a_row < IN_A_ROW or self._in_a_row % IN_A_ROW == 0
            self._retries.failed(_listed(message), steady_s, halve)
        wait_s = (self._pace if reached else self._backoff).next_s()
        self._retry_s = steady_s + max(wait_s, min(asked_s, RETRY_ASKED_S))
        return self._retry_s

    def waits(self, book: AlertBook, now_s: float) -> bool:
        """Whether something is on its way or still to be reported."""
        return self._flying or bool(self._due(book, now_s))

    def waiting(self, book: AlertBook, now_s: float) -> int:
        """How many alerts are still to be reported, those on their way included."""
        return len(self._due(book, now_s))

    def snapshot(self) -> dict[str, Any]:
        """What was reported, as plain data."""
        return {"told": {key: list(told) for key, told in self._told.items()}}

    def restore(self, data: dict[str, Any]) -> None:
        """Take the state that ``snapshot`` described.

        Raises:
            KeyError, TypeError, ValueError: it is no such state; nothing has changed then.
        """
        told = {}
        for key, (state, severity, *_) in data["told"].items():
            if state not in ("firing", "resolved") or severity not in SEVERITIES:
                raise ValueError(f"no such state: {state!r}, {severity!r}")
            told[str(key)] = Told(state, severity)
        self._told = told

    def _due(self, book: AlertBook, now_s: float) -> list[_Due]:
        due = []
        for alert in book.alerts.values():
            told, standing = self._told.get(alert.id, UNTOLD), book.standing(alert, now_s)
            said = news(told, standing.fires, alert.severity, self.least)
            if said is not None:
                due.append(_Due(alert, standing, said, told))
        return due

    def _held(self, due: list[_Due], book: AlertBook, now_s: float) -> list[_Due]:
        """What was told and still holds, the longest ago first; only where that is told again."""
        if self.profile.repeat_s is None:
            return []
        fresh = {one.alert.id for one in due}
        held = [
            _Due(alert, Standing(True), "firing", told)
            for alert in book.alerts.values()
            if alert.id not in fresh
            and (told := self._told.get(alert.id, UNTOLD)).state == "firing"
            and book.standing(alert, now_s).fires
        ]
        return sorted(held, key=lambda one: self._told_s.get(one.alert.id, float("-inf")))

    def _chosen(self, due: list[_Due], held: list[_Due], steady_s: float, gather: bool) -> list[_Due]:
        """What the next message tells: in turn what has not failed, and the batch of what has that waited longest."""
        tokens = self._bucket.tokens(steady_s) if gather and self.profile.repeat_s is None else float("inf")
        if tokens < 1.0:
            return []
        failed, batch = self._retries.ids, self._retries.first(steady_s)
        fresh, calm = ([one for one in part if one.alert.id not in failed] for part in (due, held))
        again = [one for one in (*due, *held) if batch is not None and one.alert.id in batch.ids]
        if again and not self._retried_last:
            self._retried_last = True
            return again
        self._retried_last = False
        if self.profile.repeat_s is None:
            chosen = self._ripe(fresh, steady_s if gather else float("inf"), tokens)
        else:
            chosen = self._with_repeats(fresh, calm, steady_s)
        return chosen or again

    def _with_repeats(self, due: list[_Due], held: list[_Due], steady_s: float) -> list[_Due]:
        """All that is due; and what is to be told again, oldest first, with what soon would be."""
        repeat_s = self.profile.repeat_s or 0.0
        ages = {one.alert.id: steady_s - self._told_s.get(one.alert.id, float("-inf")) for one in held}
        if not held or ages[held[0].alert.id] < repeat_s:
            return due
        return [*due, *(one for one in held if ages[one.alert.id] >= repeat_s / 2)]

    def _ripe(self, due: list[_Due], steady_s: float, tokens: float) -> list[_Due]:
        """The job whose news has waited longest, or all at once where hardly any message is allowed any more."""
        groups: dict[tuple[str, str], list[_Due]] = defaultdict(list)
        for one in due:
            groups[one.alert.group].append(one)
        waited = {key: min(self._since[one.alert.id] for one in group) for key, group in groups.items()}
        ripe = [key for key in groups if steady_s - waited[key] >= self.profile.gather_s]
        if ripe and (len(ripe) == 1 or tokens >= 2.0):
            return groups[min(ripe, key=lambda key: (waited[key], key))]
        return [one for key in ripe for one in groups[key]]

    def _message(self, chosen: list[_Due], now_s: float) -> Message:
        if self.profile.repeat_s is None:
            chosen = sorted(chosen, key=_worst_first)
        groups = {one.alert.group for one in chosen}
        listed = chosen[: self.profile.most]
        marked = listed if self.profile.lists_all else chosen
        return Message(
            group=groups.pop() if len(groups) == 1 and self.profile.repeat_s is None else None,
            entries=tuple(self._entry(one, now_s) for one in listed),
            more=0 if self.profile.lists_all else len(chosen) - len(listed),
            marks={one.alert.id: Told(one.news, one.alert.severity) for one in marked},
        )

    def _entry(self, one: _Due, now_s: float) -> Entry:
        told, alert = one.told, one.alert
        former = told.severity if told.state == "firing" and told.severity != alert.severity else None
        if one.news == "resolved":
            return Entry(alert, "resolved", one.standing.ending, one.standing.ended_s, former)
        repeat_s = self.profile.repeat_s
        return Entry(alert, "firing", "", None if repeat_s is None else now_s + 5 * repeat_s, former)

    def _over(self, message: Message, steady_s: float) -> None:
        self._flying, self._retry_s = False, float("-inf")
        self._in_a_row = 0
        self._pace.reset()
        self._bucket.take(steady_s)
        for key, told in message.marks.items():
            self._told.pop(key, None)
            self._told_s.pop(key, None)
            self._told[key], self._told_s[key] = told, steady_s
        while len(self._told) > MOST_TOLD:
            oldest = next(iter(self._told))
            del self._told[oldest]
            self._told_s.pop(oldest, None)


def _listed(message: Message) -> tuple[str, ...]:
    return tuple(entry.alert.id for entry in message.entries)


def _may_grow(standing: Standing, now_s: float) -> bool:
    """Whether what an alert is resolved with may still change; a clock that was set back makes nothing wait longer."""
    return standing.settled_s is not None and 0.0 < standing.settled_s - now_s <= LAST_REVISION_S


def _worst_first(one: _Due) -> tuple[bool, int, float, str]:
    alert = one.alert
    return one.news == "resolved", -SEVERITIES.index(alert.severity), alert.starts_s, alert.id
