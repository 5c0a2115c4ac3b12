"""Iterations found from the sequence of a group's collectives, where nothing marks the steps.

Rule of this file: pure. A call is known by its operation and size and by the pause before it; an iteration is the lag
at which both repeat. Sizes alone fail where every call is alike (plain DDP), pauses alone where they jitter, and either
alone takes a model's equal layers for iterations; together they do not. Calls that come every few iterations only
(evaluation, clipping) shift what follows, so boundaries are followed one by one, not counted off.
"""

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from ..robust import MAD_SIGMA, Array
from ..stored import Kept, Stored

Ints = NDArray[np.int64]

#: Calls looked at, at first and at most: three iterations of five thousand calls.
FIRST = 48
MOST = 16_384
#: For so long calls are kept until their iterations are clear; then the best that is known counts.
PATIENCE_S = 30.0
#: Distinct calls that are told apart; the rarest count as one.
_TOKENS = 24
#: A lag explains an iteration from this share of what repeats. The shortest that comes this near to the best is taken:
#: where calls are added every tenth iteration, ten iterations repeat better than one.
_LEAST = 0.45
_AS_GOOD = 0.72
#: A pause as long as this many others at least is the iteration's; a longer one is a stall.
_LONGEST = 3
#: Long pauses for each iteration: not much fewer, and not many more; a model's equal layers have none between them.
_FEWER = 0.6
#: Where so many calls come after a long pause, each is an iteration of its own, and what repeats is the odd extra call.
_ALL = 0.8
#: A change that comes once an iteration is seen as often as there are iterations, give or take this share.
_ONCE = 0.4
#: Weight of the newest iteration's pause in what is usual: pauses shrink when a job has warmed up.
_NEWEST = 0.2
#: Pauses that vary by less than this (log scale, robust) have no pattern: then every call is an iteration.
_STEADY = 0.35
#: Calls that follow each other faster than this may be a part of a long iteration.
_SLOW_S = 0.02


class Period(NamedTuple):
    """``calls`` an iteration, and how much of what repeats it explains (0-1).

    An iteration begins where one kind of call follows another: ``before`` and ``token``, after a pause of about
    ``pause_s`` where both are the same. The first one that was seen from its beginning starts at call ``begins``.
    ``certain``: as many long pauses were seen as iterations.
    """

    calls: int
    confidence: float
    before: int = 0
    token: int = 0
    pause_s: float = 0.0
    begins: int = 0
    certain: bool = True


def find_period(token: Ints, start_s: Array) -> Period | None:
    """The iteration of a sequence of calls; None where nothing repeats.

    Args:
        token: what each call is, shape (calls,).
        start_s: when it began, ascending, shape (calls,).
    """
    count = token.size
    if count < FIRST // 2:
        return None
    pause = np.maximum(np.diff(start_s, prepend=start_s[:1]), 1e-6)
    pause[0] = np.median(pause[1:])
    pause = np.minimum(pause, np.partition(pause, -_LONGEST)[-_LONGEST])
    kinds, code = np.unique(token, return_inverse=True)
    alike = kinds.size == 1
    similarity = (
        _repeats(pause[None]) if alike else (_repeats(_indicators(code, kinds.size)) + _repeats(pause[None])) / 2
    )
    most = count // 3
    if most < 2:
        return None
    lags = similarity[1 : most + 1]
    best = float(lags.max())
    if best < _LEAST:
        spread = MAD_SIGMA * float(np.median(np.abs(np.log(pause) - np.median(np.log(pause)))))
        if not (alike and spread < _STEADY):
            return None
        return Period(1, 1.0 - spread, certain=float(np.median(pause)) >= _SLOW_S)
    peak = lags >= np.maximum(np.append(lags[1:], -1.0), np.append(-1.0, lags[:-1]))
    peak[0] = False  # every series resembles its neighbour
    if not (peak & (lags >= _AS_GOOD * best)).any():
        return None
    lag = int(np.flatnonzero(peak & (lags >= _AS_GOOD * best))[0]) + 1
    long = np.flatnonzero(pause >= pause.max() / 2)
    if long.size >= _ALL * count:
        return Period(1, long.size / count, certain=float(np.median(pause)) >= _SLOW_S)
    at = _boundaries(token, pause, lag)
    at = long[long > 0] if at is None else at
    return Period(
        calls=lag,
        confidence=min(float(lags[lag - 1]), 1.0),
        before=int(token[at[0] - 1]),
        token=int(token[at[0]]),
        pause_s=float(np.median(pause[at])),
        begins=int(at[0]),
        certain=_FEWER <= long.size * lag / count <= 1 / _FEWER,
    )


def _boundaries(token: Ints, pause: Array, lag: int) -> Ints | None:
    """Where the change from one kind of call to another is that comes once an iteration, after the longest pause."""
    changes = 1 + np.flatnonzero(token[1:] != token[:-1])
    if not changes.size:
        return None
    _, which, counts = np.unique(
        np.stack([token[changes - 1], token[changes]]), axis=1, return_inverse=True, return_counts=True
    )
    once = np.flatnonzero(np.abs(counts * lag / token.size - 1) <= _ONCE)
    if not once.size:
        return None
    best = max(once.tolist(), key=lambda kind: float(np.median(pause[changes[which == kind]])))
    return np.asarray(changes[which == best])


def _indicators(code: Ints, kinds: int) -> Array:
    """One row a kind of call, 1 where it is; the rarest kinds share the last row."""
    counts = np.bincount(code, minlength=kinds)
    rows = np.full(kinds, min(kinds, _TOKENS) - 1)
    common = np.argsort(-counts, kind="stable")[:_TOKENS]
    rows[common] = np.arange(common.size)
    out = np.zeros((min(kinds, _TOKENS), code.size))
    out[rows[code], np.arange(code.size)] = 1.0
    return out


def _repeats(rows: Array) -> Array:
    """How much of the rows' variance repeats at each lag: their summed autocorrelation, unbiased, 1 at lag 0."""
    count = rows.shape[1]
    centred = rows - rows.mean(axis=1, keepdims=True)
    size = 1 << (2 * count - 1).bit_length()
    power = np.abs(np.fft.rfft(centred, size, axis=1)) ** 2
    summed = np.fft.irfft(power.sum(axis=0), size)[:count] / np.arange(count, 0, -1)
    return np.asarray(summed / summed[0]) if summed[0] > 1e-12 else np.zeros(count)


class Iterations(Stored):
    """Numbers the iterations of one group, from the calls of one of its members."""

    token: Kept[Ints]
    start_s: Kept[Array]
    look_at: Kept[int]
    decided: Kept[bool]
    number: Kept[int]
    since: Kept[int]
    last: Kept[int]
    last_s: Kept[float]
    usual_s: Kept[float]
    period: Kept[Period | None]

    def __init__(self) -> None:
        self.token = np.empty(0, dtype=np.int64)
        self.start_s = np.empty(0)
        self.look_at = FIRST
        self.period = None
        #: Whether it has been decided if there are iterations; until then nothing is numbered.
        self.decided = False
        self.number = 0
        self.since = 0
        #: The call before, when it began, and the pause before an iteration.
        self.last, self.last_s = 0, float("-inf")
        self.usual_s = 0.0

    def update(self, token: Ints, start_s: Array) -> Ints | None:
        """Take in calls; the iterations of all calls not yet numbered, or None while it is undecided."""
        if self.decided:
            return self._number(token, start_s)
        self.token = np.concatenate([self.token, token])
        self.start_s = np.concatenate([self.start_s, start_s])
        if self.token.size < self.look_at:
            return None
        period = find_period(self.token, self.start_s)
        waited = float(self.start_s[-1] - self.start_s[0]) >= PATIENCE_S
        if (period is None or not period.certain) and self.token.size < MOST and not waited:
            self.look_at *= 2
            return None
        return self.decide(period)

    def decide(self, period: Period | None) -> Ints:
        """Number what has been kept by ``period``; without one every call is an iteration of its own."""
        self.decided, self.period = True, period
        token, start_s = self.token, self.start_s
        self.token, self.start_s = np.empty(0, dtype=np.int64), np.empty(0)
        if period is not None:
            self.since = period.calls - min(period.begins, period.calls)
            self.usual_s = period.pause_s
        return self._number(token, start_s)

    def _number(self, token: Ints, start_s: Array) -> Ints:
        if self.period is None or self.period.calls == 1:
            out = self.number + np.arange(token.size)
            self.number += token.size
            return out
        calls = self.period.calls
        out = np.empty(token.size, dtype=np.int64)
        for at, (one, start) in enumerate(zip(token.tolist(), start_s.tolist(), strict=True)):
            # The first call of an iteration: about where it is due, of the right kind, after the right pause. One that
            # is long overdue (calls were lost) begins all the same.
            pause_s = start - self.last_s
            # An extra call may stand between the two.
            here = one == self.period.token and (self.last == self.period.before or self.since >= calls)
            due = self.since >= 0.6 * calls and here and (one != self.last or pause_s >= self.usual_s / 2)
            if due or self.since >= 2 * calls:
                self.number, self.since = self.number + 1, 0
                self.usual_s += _NEWEST * (min(pause_s, 2 * self.usual_s) - self.usual_s)
            out[at] = self.number
            self.since += 1
            self.last, self.last_s = one, start
        return out
