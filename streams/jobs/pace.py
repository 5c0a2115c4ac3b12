"""Has the job as a whole turned slow: a change point in its pace, where no rank stands out.

Rule of this file: pure. The pace of a tick is what the step would take if nobody had to wait for a processor: the
longest own work of any rank that is not accused, and the shortest wait for others, which is the transfer itself.
Evaluations and checkpoints are not training. A change counts when the median of the newest ticks stands off the median
of those before by a share and by the noise of both, and nearly all of them are beyond half of it (Greyhound, ATC'25:
changes above 10 % that are 10 samples apart; robust here, because a heavy tail moves a mean). Longer looks find what is
too small to stand out of the noise of a few ticks: a median of n errs by 1/sqrt(n).
"""

import math
from typing import Any

import msgspec
import numpy as np

from paceline.events import Cause

from ..episodes.episode import Episode
from ..episodes.lifecycle import FINAL, Signal, follow
from ..robust import MAD_SIGMA, Array, nanmedian
from ..row_arrays import OP_INDEX, OPS
from .config import Config
from .ticks import WORK, Tick

_NO_TRAINING = ("evaluation", "checkpoint")
_OWN = [OP_INDEX[name] for name in WORK if name not in _NO_TRAINING]
_WAIT, _STARVED = OP_INDEX["communication"], OP_INDEX["cpu_wait"]
#: Ticks that are remembered, newest last.
_KEPT = 120
#: Share of the ticks that must be beyond half the bar, in the shortest look and in longer ones.
_NEARLY_ALL, _MOST = 0.9, 0.7
#: What grew -> the cause that it speaks for.
_CAUSES: dict[str, Cause] = {"data": "input_pipeline", "prepare": "input_pipeline", "gc": "garbage_collection"}


class Pace:
    """The pace of one job."""

    def __init__(self, config: Config) -> None:
        self.config = config
        #: Per tick: pace, first step, last step, span, then the median rank's seconds by op.
        self.history = np.empty((0, 4 + len(OPS)))
        self.usual: float = 0.0
        self.before: Array = np.zeros(len(OPS))
        self.episode: Episode | None = None
        self.quiet = 0

    def update(self, tick: Tick, accused: set[int], *, staged: bool) -> Episode | None:
        """Take in one tick; the episode where it has something new to tell."""
        row = _row(tick, accused, staged)
        if row is None:
            return None
        self.history = np.concatenate([self.history, row[None]])[-_KEPT:]
        if self.episode is not None:
            return self._follow(tick)
        ticks = self.config.pace_ticks
        if accused:
            self.quiet = ticks  # while a rank is slow, and until it is out of the newest ticks, its verdict speaks
        elif self.quiet:
            self.quiet -= 1
        elif len(self.history) >= 3 * ticks:
            looks = (ticks, *self.config.pace_longer)
            told = (self._look(look, math.sqrt(ticks / look)) for look in looks if 2 * look <= len(self.history))
            return next((episode for episode in told if episode), None)
        return None

    def _look(self, ticks: int, error: float) -> Episode | None:
        """Compare the newest ``ticks`` with those before; their median errs by ``error`` times that of the shortest."""
        new, old = self.history[-ticks:], self.history[:-ticks]
        usual = float(nanmedian(old[:, 0]))
        if usual <= 0 or float(new[:, 3].sum()) < self.config.pace_s:
            return None
        change = float(nanmedian(new[:, 0])) / usual - 1
        if change < self.config.least_slowdown:
            return None  # the common case, and a cheap one
        noise = max(_noise(old[:, 0]), _noise(new[:, 0])) / usual
        bar = max(self.config.least_slowdown, self.config.pace_sigmas * noise * error)
        beyond = float((new[:, 0] > usual * (1 + bar / 2)).mean())
        if change < bar or beyond < (_NEARLY_ALL if error == 1.0 else _MOST):
            return None
        self.usual, self.before = usual, np.median(old[:, 4:], axis=0)
        run = ticks
        while run < len(self.history) and self.history[-run - 1, 0] > usual * (1 + change / 2):
            run += 1
        began = self.history[-run:]
        self.episode = Episode(rank=-1, first_step=int(began[0, 1]), last_step=int(began[-1, 2]), state="suspected")
        for one in began:
            self.episode.lasts(int(one[2]), float(one[3]), float(one[0]) / usual - 1)
        self.episode.next_update = 2 * self.episode.ticks
        return self._tell(change, change / bar)

    def _follow(self, tick: Tick) -> Episode | None:
        episode = self.episode
        assert episode is not None
        ticks = self.config.pace_ticks
        now = float(np.median(self.history[-ticks:, 0])) / self.usual - 1
        episode.lasts(tick.last_step, tick.span_s, float(self.history[-1, 0]) / self.usual - 1)
        least = self.config.least_slowdown
        signal: Signal | None = "calm" if now < least / 2 else None
        if now >= least and episode.ticks >= 2 * ticks:
            signal = "persistent"
        before = episode.state
        episode.state = follow(before, signal) if signal else before
        if episode.state == before and not (signal == "persistent" and episode.due()):
            return None
        return self._tell(now, now / least)

    def _tell(self, change: float, margin: float) -> Episode:
        episode = self.episode
        assert episode is not None
        grown = np.median(self.history[-self.config.pace_ticks :, 4:], axis=0) - self.before
        grown[OP_INDEX["step"]] = grown[_STARVED] = 0.0
        most = OPS[int(np.argmax(grown))]
        if episode.state not in FINAL:
            episode.cause = _CAUSES.get(most, "unknown")
            now = self.usual * (1 + change)
            parts = {f"part:{most}": float(max(grown.max(), 0.0))}
            episode.evidence = {"pace": now, "usual": self.usual, "change": change, "margin": margin, **parts}
        episode.revision += 1
        told = msgspec.structs.replace(episode, evidence=dict(episode.evidence))
        if episode.state in FINAL:
            self.episode, self.history = None, self.history[-self.config.pace_ticks :]
        return told

    def snapshot(self) -> dict[str, Any]:
        """The state as plain data and arrays."""
        found = {name: getattr(self, name) for name in ("history", "usual", "before", "quiet")}
        return {**found, "episode": msgspec.to_builtins(self.episode)}

    def load(self, data: dict[str, Any]) -> None:
        """Take the state that ``snapshot`` described."""
        for name in ("history", "usual", "before", "quiet"):
            setattr(self, name, data[name])
        self.episode = msgspec.convert(data["episode"], Episode | None)


def _row(tick: Tick, accused: set[int], staged: bool) -> Array | None:
    """What is remembered of a tick; None where no rank can be counted."""
    seconds = tick.seconds
    heard = ~np.isnan(seconds[-1])
    heard[[rank for rank in accused if rank < heard.size]] = False
    if not heard.any():
        return None
    mine = seconds[:, heard]
    if staged:
        skipped = sum(mine[OP_INDEX[name]] for name in _NO_TRAINING)
        pace = float(np.median(mine[-1] - skipped))
    else:
        pace = float((mine[_OWN].sum(axis=0) - mine[_STARVED]).max() + mine[_WAIT].min())
    middle = nanmedian(mine, axis=1)
    return np.array([pace, tick.first_step, tick.last_step, tick.span_s, *middle.tolist()])


def _noise(values: Array) -> float:
    return MAD_SIGMA * float(np.median(np.abs(values - np.median(values))))
