"""The straggler verdict: ticks in, episodes out.

Rule of this file: it joins lateness, cause and lifecycle for every rank of one cohort, and says when an episode has
something new to tell. What is told is written in wording.
"""

import math
from collections.abc import Iterator
from typing import Any

import msgspec
import numpy as np

from paceline.events import Cause

from ..episodes.episode import Episode
from ..episodes.lifecycle import FINAL, Signal, follow
from ..robust import Array, nanmedian
from .causes import Verdict, judge
from .cohorts import Cohorts
from .config import Config
from .lateness import COLUMNS, EXPLAINED, JUDGED, Look, Ring, calm, look
from .rank_conditions import Circumstances
from .ticks import PARTS, Tick

#: Weight of the newest tick in the running excess of each part: the last handful of ticks decide the cause.
_NEWEST = 0.25
#: Ticks on end after which another cause replaces the one that was named.
_DOUBT = 5
#: What a part of the work that stands out on its own speaks for.
_CAUSES: dict[str, Cause] = {
    "input": "input_pipeline",
    "gc": "garbage_collection",
    "starved": "cpu_contention",
}
#: Peers whose conditions are compared with the late rank's.
MOST_PEERS = 32


class Straggler:
    """Episodes of the ranks of one cohort."""

    def __init__(self, config: Config, cohorts: Cohorts, around: Circumstances | None = None) -> None:
        self.config = config
        self.cohorts = cohorts
        self.around = around or Circumstances()
        self.ring = Ring()
        self.parts = np.zeros((len(PARTS), 0))
        self.has_loader = False
        self.wary = False
        self.episodes: dict[int, Episode] = {}
        self.rests: dict[int, int] = {}
        #: Ranks that are late by a long look, and the ticks of the shortest such look.
        self.seen: dict[int, int] = {}

    def update(self, tick: Tick, has_loader: bool, *, wary: bool = False) -> list[Episode]:
        """Take in a tick; the episodes that have something new to tell.

        ``wary``: the work is known to be cut unevenly, so that a short look is no evidence.
        """
        self.wary = wary
        self.has_loader = self.has_loader or has_loader
        self.ring.push(tick)
        self._weigh(tick)
        for known in self.episodes.values():
            known.lasts(tick.last_step, tick.span_s, float(np.nan_to_num(tick.excess[known.rank])))
        told = [episode for rank, signal in self._signals() if (episode := self._move(rank, signal))]
        for rank in [rank for rank, known in self.episodes.items() if known.state in FINAL]:
            del self.episodes[rank]
            self.rests[rank] = self.config.cooldown_ticks
        self.rests = {rank: left - 1 for rank, left in self.rests.items() if left > 1}
        return told

    def _weigh(self, tick: Tick) -> None:
        ratios = np.nan_to_num(tick.parts / tick.base)
        if ratios.shape[1] > self.parts.shape[1]:
            self.parts = np.pad(self.parts, ((0, 0), (0, ratios.shape[1] - self.parts.shape[1])))
        self.parts += _NEWEST * (ratios - self.parts)

    def _signals(self) -> Iterator[tuple[int, Signal]]:
        """Every rank's signal of this tick, in rank order."""
        config = self.config
        suspect = self._look(self._suspect_ticks())
        looks = {ticks: self._look(ticks) for ticks in (config.confirm_ticks, *config.longer_looks)}
        self.seen = {
            int(rank): ticks for ticks, found in reversed(looks.items()) for rank in np.flatnonzero(found.late)
        }
        late = np.flatnonzero(suspect.late & (suspect.part == EXPLAINED) if self.wary else suspect.late).tolist()
        if not (self.seen or late or self.episodes):
            return
        quiet = calm(self.ring, config.recover_ticks, config)
        lasting = ~calm(self.ring, config.suspect_ticks, config)
        for rank in sorted({*late, *self.seen, *self.episodes}):
            if rank not in self.episodes and rank in self.rests:
                continue
            if rank in self.seen and (lasting[rank] or rank in self.episodes):
                yield rank, "persistent"
            elif rank in late:
                yield rank, "late"
            elif quiet[rank] and rank in self.episodes and self.episodes[rank].ticks >= config.recover_ticks:
                yield rank, "calm"

    def _look(self, ticks: int) -> Look:
        return look(self.ring, ticks, self.config, self._explained)

    def _explained(self, rank: int) -> bool:
        """Whether the rank's device or node is in trouble that its peers do not have."""
        return self.around.troubled(rank) and self.around.explains(rank, self._peers(rank), self._lasted(rank))

    def _suspect_ticks(self) -> int:
        """Ticks that a suspicion needs: fewer where they are long."""
        few = self.config.suspect_long_ticks
        long = len(self.ring.spans) >= few and min(self.ring.spans[-few:]) >= self.config.long_tick_s
        return few if long else self.config.suspect_ticks

    def _ticks(self, rank: int) -> int:
        """Ticks of the look that the rank's verdict rests on."""
        return self.seen.get(rank, self._suspect_ticks())

    def _move(self, rank: int, signal: Signal) -> Episode | None:
        episode = self.episodes.get(rank) or self._begin(rank)
        before = episode.state
        episode.state = follow(before, signal)
        moved = episode.state != before
        recast = self._cause(episode) if signal != "calm" else False
        if not (moved or recast or (signal == "persistent" and episode.due())):
            return None
        if moved:
            episode.next_update = 2 * max(episode.ticks, 1)
        if signal != "calm":
            self._measure(episode)
        episode.revision += 1
        return msgspec.structs.replace(episode, evidence=dict(episode.evidence))

    def _begin(self, rank: int) -> Episode:
        first = self.ring.onset(rank, self._ticks(rank))
        ticks = len(self.ring.first_steps) - self.ring.first_steps.index(first)
        episode = Episode(rank=rank, first_step=first, last_step=first)
        for back in range(ticks, 0, -1):
            excess = float(np.nan_to_num(self.ring.excess(rank, back)))
            episode.lasts(self.ring.last_steps[-back], self.ring.spans[-back], excess)
        self.episodes[rank] = episode
        return episode

    def _cause(self, episode: Episode) -> bool:
        """Judge the cause anew; whether the one that was told has changed."""
        if episode.revision and not self._still(episode):
            return False  # it is getting better: what is left says little of what it was
        verdict = self.verdict(episode.rank)
        if episode.revision == 0 or verdict.cause == episode.cause:
            episode.cause, episode.cause_share, episode.cause_doubt = verdict.cause, verdict.share, 0
            return False
        episode.cause_doubt += 1
        if episode.cause_doubt < _DOUBT or verdict.cause == "unknown":
            return False
        episode.cause, episode.cause_share, episode.cause_doubt = verdict.cause, verdict.share, 0
        return True

    def _still(self, episode: Episode) -> bool:
        """Whether the rank is still at least half as late as was told."""
        told = episode.evidence["work"] + episode.evidence["starved"]
        excess = [self.ring.excess(episode.rank, back) for back in range(1, 1 + self.config.suspect_long_ticks)]
        return float(np.nan_to_num(np.nanmedian(excess))) >= told / 2

    def verdict(self, rank: int) -> Verdict:
        """What explains the excess of ``rank`` over the last ticks."""
        parts = dict(zip(PARTS, self.parts[:, rank].tolist(), strict=True))
        verdict = judge(parts, self.has_loader, self.config.cause_share)
        # Where the whole drowns in the noise of uneven work, the part that stands out of it is the cause.
        if (at := int(self._look(self._ticks(rank)).part[rank])) > 0 and JUDGED[at] in _CAUSES:
            verdict = Verdict(_CAUSES[JUDGED[at]], max(verdict.share, self.config.cause_share), verdict.cleared)
        return self.around.refine(verdict, rank, self._peers(rank), self._lasted(rank))

    def _lasted(self, rank: int) -> float:
        """Seconds since the rank turned slow."""
        return self.episodes[rank].span_s if rank in self.episodes else 0.0

    def _peers(self, rank: int) -> list[int]:
        """Some ranks of the same cohort; where there are none, of the job."""
        groups = self.cohorts.groups(self.parts.shape[1])
        mine = next(group for group in groups if rank in group)
        found = mine if mine.size > 1 else np.arange(self.parts.shape[1])
        return [int(peer) for peer in found[: MOST_PEERS + 1] if peer != rank]

    def _measure(self, episode: Episode) -> None:
        """Take down the numbers that the verdict rests on."""
        rank = episode.rank
        ticks = self._ticks(rank)
        window = {name: self.ring.median(name, ticks) for name in COLUMNS}
        numbers = {name: float(column[rank]) for name, column in window.items()}
        base = _base(window["peers"], numbers)
        parts = {name: float(value) * base for name, value in zip(PARTS, self.parts[:, rank], strict=True)}
        margin = float(self._look(ticks).margin[rank])
        episode.evidence = {
            **numbers,
            "base": base,
            "margin": margin,
            "ticks": float(ticks),
            **{f"part:{name}": value for name, value in parts.items()},
            **{
                f"around:{name}": value
                for name, value in self.around.numbers(rank, self._peers(rank), self._lasted(rank)).items()
            },
        }

    def snapshot(self) -> dict[str, Any]:
        """The state as plain data and arrays."""
        return {
            "ring": self.ring.snapshot(),
            "parts": self.parts,
            "has_loader": self.has_loader,
            "episodes": [msgspec.to_builtins(episode) for episode in self.episodes.values()],
            "rests": [[rank, left] for rank, left in self.rests.items()],
        }

    def load(self, data: dict[str, Any]) -> None:
        """Take the state that ``snapshot`` described."""
        self.ring.load(data["ring"])
        self.parts = data["parts"]
        self.has_loader = bool(data["has_loader"])
        found = msgspec.convert(data["episodes"], list[Episode])
        self.episodes = {episode.rank: episode for episode in found}
        self.rests = dict(data["rests"])


def _base(peers: Array, numbers: dict[str, float]) -> float:
    """Seconds of a step without the excess, from the excess in seconds and as a share."""
    excess = numbers["own"] - numbers["peers"]
    ratio = numbers["work"] + numbers["starved"]
    if ratio > 0.0 and math.isfinite(excess) and excess > 0.0:
        return excess / ratio
    return float(np.nan_to_num(nanmedian(peers)))
