"""How many joules a device took between two of its samples.

Rule of this file: a decision on the samples of one device. The counter is believed as far as power and time allow; what
it cannot say is power x time, and is called so; what neither says is None. What it assumes of its input, and what it
does where that is not so:

- times are of one clock, in order. Who comes late, or twice, is left out; a clock that was set back for more than
  ``BACK_S`` is believed. One that was set back for less costs no joules of the counter: it has them once time goes on.
- the counter only grows, in joules. Where it falls, the driver was loaded again: that interval is power x time, without
  power what the counter says from 0 on (too little rather than too much).
- it grows no faster than ``MARGIN`` times the power limit. A jump beyond is not believed: power x time.
- it may stand still between two renewals. Power x time stands in for it, and is taken off once it moves, so that the
  sum is the counter's; from ``STILL_S`` on it counts as dead, and what is told as power's.
- samples come at least every ``GAP_S``. What the counter grew by over a longer silence is told apart, for nobody saw
  whose it was; power over such a time is not known.
"""

import math
from typing import Literal, NamedTuple

import msgspec

Source = Literal["counter", "power"]
#: Seconds without a sample that are bridged: two and a half of the longest interval between samples.
GAP_S = 150.0
#: A counter that has not moved for so long is dead; exporters renew theirs every half minute.
STILL_S = 60.0
#: A clock that runs behind what was seen for so long was set back.
BACK_S = 60.0
#: A counter may be ahead of its limit by so much, and its renewals late by so many seconds.
MARGIN, LAG_S = 1.5, 1.0
#: The most that a device takes whose limit nobody tells, and the highest limit that is believed; the largest counter.
USUAL_MOST_W, MOST_W, MOST_J = 3000.0, 50_000.0, 1e15


class Drawn(NamedTuple):
    """Joules from ``since_s`` to ``until_s``, and what tells them. ``gap``: nobody looked for longer than ``GAP_S``."""

    since_s: float
    until_s: float
    joules: float
    source: Source
    gap: bool = False


class EnergyMeter(msgspec.Struct):
    """One device's meter; its fields are its state.

    >>> meter = EnergyMeter()
    >>> meter.update(0.0, 1000.0, None), meter.update(1.0, 1300.0, None)
    (None, Drawn(since_s=0.0, until_s=1.0, joules=300.0, source='counter', gap=False))
    >>> meter.update(2.0, 40.0, 310.0)  # the driver was loaded anew
    Drawn(since_s=1.0, until_s=2.0, joules=310.0, source='power', gap=False)
    """

    #: Up to when all is told.
    at_s: float | None = None
    counter_j: float | None = None
    #: When the counter last moved.
    moved_s: float = 0.0
    power_w: float | None = None
    #: Joules that were told and that the counter has not shown yet.
    ahead_j: float = 0.0
    #: The first of a row of samples that are older than ``at_s``.
    early_s: float | None = None

    def update(
        self, at_s: float, energy_j: float | None, power_w: float | None, limit_w: float | None = None
    ) -> Drawn | None:
        """Take in a sample: the joules since the one before; None where nothing tells them.

        Args:
            at_s: when, in seconds of the device's node's clock.
            energy_j: its counter.
            power_w: its power.
            limit_w: the most power that it may take.
        """
        most_w = MARGIN * limit_w if limit_w is not None and 0 < limit_w <= MOST_W else USUAL_MOST_W
        energy_j, power_w = _sane(energy_j, MOST_J), _sane(power_w, most_w)
        if (energy_j is None and power_w is None) or not math.isfinite(at_s):
            return None
        if self.at_s is None or (at_s <= self.at_s and self._set_back(at_s, self.at_s)):
            self._begin(at_s, energy_j, power_w)
            return None
        if at_s <= self.at_s:
            return None
        since_s, gap = self.at_s, at_s - self.at_s > GAP_S
        # Time that has passed twice, if the clock was set back.
        again_s = 0.0 if self.early_s is None else min(since_s - self.early_s, BACK_S)
        self.early_s = None
        by_power_j = None if gap else self._by_power(at_s - since_s, power_w)
        told = self._told(at_s, energy_j, by_power_j, most_w, again_s)
        self.power_w = power_w
        if told is None:
            if gap and power_w is not None:
                self._anchor(at_s, energy_j)
            # Time of which nothing is told stays open, for the counter to tell; what was not believed is passed over.
            self.at_s = at_s if self.moved_s == at_s else since_s
            return None
        self.at_s = at_s
        joules, source = told
        return Drawn(since_s, at_s, min(joules, most_w * (at_s - since_s + STILL_S + LAG_S)), source, gap)

    def _begin(self, at_s: float, energy_j: float | None, power_w: float | None) -> None:
        self.at_s, self.power_w, self.early_s = at_s, power_w, None
        self._anchor(at_s, energy_j)

    def _anchor(self, at_s: float, energy_j: float | None) -> None:
        self.counter_j, self.moved_s, self.ahead_j = energy_j, at_s, 0.0

    def _set_back(self, at_s: float, told_s: float) -> bool:
        """Whether samples have been behind for so long that the clock must have been set back."""
        if at_s == told_s:
            return False
        self.early_s = at_s if self.early_s is None else min(at_s, self.early_s)
        return at_s - self.early_s > BACK_S

    def _by_power(self, seconds: float, power_w: float | None) -> float | None:
        """Power x time: the mean of both ends, or of the one that was measured."""
        ends = [one for one in (self.power_w, power_w) if one is not None]
        return seconds * sum(ends) / len(ends) if ends else None

    def _told(
        self, at_s: float, energy_j: float | None, by_power_j: float | None, most_w: float, again_s: float
    ) -> tuple[float, Source] | None:
        """The joules since ``self.at_s``, and what tells them; the counter had ``again_s`` longer for them."""
        if self.counter_j is None:
            self._anchor(at_s, energy_j)
            return None if by_power_j is None else (by_power_j, "power")
        if energy_j is None:
            if by_power_j is None:
                self._anchor(at_s, None)
            return self._stand_in(by_power_j, "power")
        grown_j, span_s = energy_j - self.counter_j, at_s - self.moved_s
        slack_j = most_w * LAG_S
        if grown_j < -slack_j or energy_j < 0.5 * self.counter_j:
            self._anchor(at_s, energy_j)
            if by_power_j is None:  # A counter that began in this time holds no more than the time allows.
                return (energy_j, "counter") if energy_j <= most_w * span_s + slack_j else None
            return by_power_j, "power"
        if grown_j <= 0:
            dead = span_s >= STILL_S
            return self._stand_in(by_power_j, "power" if dead else "counter") or (None if dead else (0.0, "counter"))
        if grown_j > most_w * (span_s + again_s) + slack_j:
            self._anchor(at_s, energy_j)
            return None if by_power_j is None else (by_power_j, "power")
        return self._moved(at_s, energy_j, grown_j, dead=span_s >= STILL_S), "counter"

    def _stand_in(self, by_power_j: float | None, source: Source) -> tuple[float, Source] | None:
        """Power x time in place of the counter, which will show it later."""
        if by_power_j is None:
            return None
        self.ahead_j += by_power_j
        return by_power_j, source

    def _moved(self, at_s: float, energy_j: float, grown_j: float, *, dead: bool) -> float:
        """What the counter shows beyond what was told; one that was dead may have lost that time."""
        ahead_j = self.ahead_j
        self._anchor(at_s, energy_j)
        if ahead_j <= grown_j:
            return grown_j - ahead_j
        if dead:
            return grown_j if grown_j < 0.5 * ahead_j else 0.0
        self.ahead_j = ahead_j - grown_j
        return 0.0


def _sane(value: float | None, most: float) -> float | None:
    """``value`` where it may be one."""
    return value if value is not None and 0.0 <= value <= most else None
