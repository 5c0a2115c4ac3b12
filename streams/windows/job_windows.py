"""Rank and job windows of one attempt of one job, from its OpTimings.

Rule of this file: windows follow one clock, that of the **reference rank** (the lowest heard): a second holds the steps
that the reference began in it, and every other rank is counted by step number. So ranks whose clocks are hours apart
stand in the same window, and no duration is ever taken between two clocks. A window closes when every rank has told its
last step; ranks that keep silent are waited for ``PATIENCE_S`` of the reference's time, then no longer.
"""

from typing import Any

import numpy as np

from paceline.events import JobWindow, OpTimings, RankWindow

from ..coverage import Ledger
from ..gather import Gather
from ..snapshots import pack, unpack
from .aggregate import Part, merge, part, windows
from .open_steps import Ring

LENGTHS_S = (1.0, 10.0, 60.0)
PATIENCE_S = 10.0
_LAYOUT = 2


class JobWindows:
    """Windows of one (cluster, job, attempt)."""

    def __init__(self) -> None:
        self.ledger = Ledger()
        self.gather = Gather(OpTimings)
        self.ring = Ring()
        self.reference = -1
        self.waived: set[int] = set()
        self.unheard_waived = False
        self.levels: list[tuple[int, Part] | None] = [None for _ in LENGTHS_S[1:]]

    def update(self, event: OpTimings) -> list[RankWindow | JobWindow]:
        """Take in one batch; the windows that it completes."""
        if not self.ledger.admit(event.producer, event.sequence):
            return []
        self.ledger.hear(event.ranks, event.world_sizes)
        ready = self.gather.add(event, len(self.ledger.last))
        return self._advance(ready) if ready else []

    def finish(self) -> list[RankWindow | JobWindow]:
        """The windows that the messages that still wait complete."""
        return self._advance(ready) if (ready := self.gather.take()) else []

    def _advance(self, batches: list[OpTimings]) -> list[RankWindow | JobWindow]:
        known = len(self.ring.slot)
        slots = self.ring.update(batches)
        self.waived.difference_update(slots.tolist())
        if len(self.ring.slot) > known:
            self.unheard_waived = False
        found: list[RankWindow | JobWindow] = []
        while closed := self._close():
            second, steps = closed
            found += self._emit(batches[-1], second, part(self.ring, steps))
            self.ring.drop(steps)
        return found

    def _close(self) -> tuple[int, int] | None:
        """The first second that is over, and how many steps it holds."""
        self._choose_reference()
        ring = self.ring
        starts = ring.start_s[: ring.used, self.reference] if self.reference >= 0 else np.zeros(0)
        told = np.flatnonzero(~np.isnan(starts))
        if not told.size:
            return None
        second = np.floor(starts)
        second[: told[0]] = second[told[0]]
        # A step that the reference did not tell belongs with the one before; a clock set back does not go back.
        second = np.fmax.accumulate(second)
        later = np.flatnonzero(second > second[0])
        if not later.size:
            return None
        steps = int(later[0])
        over_s = float(ring.newest_s[self.reference]) - float(second[0]) - LENGTHS_S[0]
        if not self._all_told(ring.base + steps - 1, over_s > PATIENCE_S):
            return None
        return int(second[0]), steps

    def _all_told(self, step: int, patience_over: bool) -> bool:
        behind = set(np.flatnonzero(self.ring.last_step < step).tolist()) - self.waived
        unheard = len(self.ring.slot) < self.ledger.expected and not self.unheard_waived
        if patience_over:
            self.waived |= behind
            self.unheard_waived |= unheard
            return True
        return not behind and not unheard

    def _choose_reference(self) -> None:
        """The lowest rank; once it keeps silent while others go on for ``PATIENCE_S``, the lowest of those."""
        ring = self.ring
        if not ring.slot:
            return
        if self.reference < 0 or ring.closed < 0:
            self.reference = ring.slot[min(ring.slot)]
        row = int(ring.last_step[self.reference]) + 1 - ring.base
        if row >= ring.used:
            return
        ahead = ring.newest_s - ring.start_s[max(row, 0)] > PATIENCE_S
        if ahead.any():
            ranks = ring.ranks
            self.reference = min(np.flatnonzero(ahead).tolist(), key=lambda slot: ranks[slot])

    def _emit(self, event: OpTimings, second: int, found: Part) -> list[RankWindow | JobWindow]:
        out = self._windows(event, LENGTHS_S[0], second, found)
        for at, length_s in enumerate(LENGTHS_S[1:]):
            number = int(second // length_s)
            open_ = self.levels[at]
            if open_ is not None and open_[0] != number:
                out += self._windows(event, length_s, open_[0] * length_s, open_[1])
                open_ = None
            self.levels[at] = (number, found if open_ is None else merge(open_[1], found))
        return out

    def _windows(self, event: OpTimings, length_s: float, start_s: float, found: Part) -> list[RankWindow | JobWindow]:
        common = {
            "cluster": event.cluster,
            "job": event.job,
            "attempt": event.attempt,
            "start_s": float(start_s),
            "length_s": length_s,
        }
        return windows(found, self.ring, common)

    def snapshot(self) -> bytes:
        """The whole state, compressed."""
        state: dict[str, Any] = {
            "layout": _LAYOUT,
            "ledger": self.ledger.snapshot(),
            "gather": self.gather.snapshot(),
            "ring": self.ring.snapshot(),
            "reference": self.reference,
            "waived": sorted(self.waived),
            "unheard_waived": self.unheard_waived,
            "levels": [level and [level[0], level[1].snapshot()] for level in self.levels],
        }
        return pack(state)

    @classmethod
    def restore(cls, data: bytes) -> "JobWindows":
        """The decision that ``snapshot`` described.

        Raises:
            ValueError: ``data`` is no snapshot of this version.
        """
        state = unpack(data)
        if state.get("layout") != _LAYOUT:
            raise ValueError(f"not a snapshot: layout {state.get('layout')!r}, this version reads {_LAYOUT}")
        made = cls()
        made.ledger = Ledger.restore(state["ledger"])
        made.gather.load(state["gather"])
        made.ring = Ring.restore(state["ring"])
        made.reference = state["reference"]
        made.waived = set(state["waived"])
        made.unheard_waived = state["unheard_waived"]
        made.levels = [level and (level[0], Part(**level[1])) for level in state["levels"]]
        return made
