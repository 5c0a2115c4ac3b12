"""What may be written now: so many requests a second in all, each object seldom, and what went wrong later again.

Rule of this file: pure; time is an argument, and a clock set back waits no longer than it must. The table is the whole
rule of what follows an outcome. Nothing is queued: what may not be written now is asked for again at the next look.
"""

from collections import Counter, OrderedDict
from collections.abc import Callable, Iterable
from random import Random
from typing import Literal, NamedTuple

from paceline.alerts.rate import TokenBucket
from paceline.backoff import Backoff

from .plan import Want

Outcome = Literal["written", "conflict", "gone", "refused", "invalid", "busy"]
#: Seconds between two writes to one object.
EVERY_S = 30.0
#: What the object waits for after each outcome; None: it is forgotten, for it is another one or none, for ``GONE_S``
#: at least: a kind of object may be missing for a while alone.
GONE_S = 600.0
WAITS_S: dict[Outcome, float | None] = {
    "written": EVERY_S,
    "conflict": 1.0,
    "gone": None,
    "refused": 600.0,
    "invalid": 3600.0,
    "busy": 1.0,
}
#: Conflicts in a row after which an object waits as if it had been written.
MOST_CONFLICTS = 5
#: How long nothing is written at all while the API is busy or away, at first and at most.
BUSY_FIRST_S, BUSY_CAP_S = 1.0, 60.0
LONGEST_ASKED_S = 300.0
MOST_OBJECTS = 200_000


class _Turn(NamedTuple):
    """When an object may be written again, and its conflicts in a row; ``outcome`` came at ``at_s``."""

    again_s: float
    at_s: float
    outcome: Outcome
    conflicts: int = 0


class Budget:
    """Of at most ``per_second`` writes a second on average, and as many at once."""

    def __init__(self, per_second: float, random: Random, every_s: float = EVERY_S) -> None:
        self._every_s = every_s
        self._bucket = TokenBucket(max(1, round(per_second)), max(1, round(per_second)) / per_second)
        self._backoff = Backoff(BUSY_FIRST_S, BUSY_CAP_S, random)
        self._turns: OrderedDict[str, _Turn] = OrderedDict()
        self._gone: OrderedDict[str, float] = OrderedDict()
        self._paused: tuple[float, float] = (0.0, 0.0)
        self.outcomes: Counter[Outcome] = Counter()

    def tokens(self, now_s: float) -> bool:
        """Whether a request may be made now."""
        until_s, since_s = self._paused
        return not since_s <= now_s < until_s and self._bucket.tokens(now_s) >= 1.0

    def paused_s(self, now_s: float) -> float:
        """How long nothing is written because the API is busy or away."""
        until_s, since_s = self._paused
        return max(0.0, until_s - now_s) if since_s <= now_s else 0.0

    def due(self, wants: Iterable[Want], now_s: float) -> list[Want]:
        """Those that may be written, in the order in which they should be: findings, then who waits longest."""
        may = [want for want in wants if self._may(want.ref.uid, now_s)]
        return sorted(may, key=self._order())

    def spend(self, now_s: float) -> None:
        """A request is made."""
        self._bucket.take(now_s)

    def done(self, uid: str, outcome: Outcome, now_s: float, asked_s: float | None = None) -> None:
        """What came of a write; ``asked_s`` is how long the API asks to be left alone."""
        self.outcomes[outcome] += 1
        if outcome == "busy":
            wait_s = self._backoff.next_s()
            self._paused = now_s + max(wait_s, min(asked_s or 0.0, LONGEST_ASKED_S)), now_s
        else:
            self._backoff.reset()
        held = self._turns.pop(uid, None)
        self._gone.pop(uid, None)
        wait_s_or_none = WAITS_S[outcome]
        if wait_s_or_none is None:
            self._gone[uid] = now_s
            if len(self._gone) > MOST_OBJECTS:
                self._gone.popitem(last=False)
            return
        conflicts = (held.conflicts if held else 0) + 1 if outcome == "conflict" else 0
        slow = outcome == "written" or conflicts >= MOST_CONFLICTS
        wait_s = self._every_s if slow else wait_s_or_none
        self._turns[uid] = _Turn(now_s + wait_s, now_s, outcome, 0 if slow else conflicts)
        if len(self._turns) > MOST_OBJECTS:
            self._turns.popitem(last=False)

    def is_gone(self, uid: str) -> bool:
        """Whether the object of that uid was told not to be there any more."""
        return uid in self._gone

    def waits(self, wants: Iterable[Want]) -> bool:
        """Whether any object of ``wants`` was not written yet and may be; what has changed since does not count."""
        turns = self._turns
        return any(
            want.ref.uid not in self._gone
            and (want.ref.uid not in turns or turns[want.ref.uid].outcome in ("conflict", "busy"))
            for want in wants
        )

    def _may(self, uid: str, now_s: float) -> bool:
        turn = self._turns.get(uid)
        gone_s = self._gone.get(uid)
        if gone_s is not None and gone_s <= now_s < gone_s + GONE_S:
            return False
        return turn is None or not turn.at_s <= now_s < turn.again_s

    def _order(self) -> Callable[[Want], tuple[bool, float, str]]:
        turns = self._turns
        return lambda want: (
            not want.urgent,
            turns[want.ref.uid].again_s if want.ref.uid in turns else 0.0,
            want.ref.uid,
        )
