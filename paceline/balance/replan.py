"""Whether other shares than today's are needed, or worth it, by what is measured.

Rule of this file: pure functions, and only +, -, * and / on floats, whose bits are the same on every machine.
"""

from __future__ import annotations

import math
import statistics
from collections.abc import Sequence
from dataclasses import dataclass

from .measured import Measured
from .split import split, step_s
from .worker import LEAST_SAMPLE_S, Worker

Caps = Sequence["int | None"]


@dataclass(frozen=True)
class ControllerConfig:
    """The batch, and thresholds.

    Args:
        total: samples of the global batch.
        tile: shares are multiples of it.
        conserve: the global batch stays as it is; otherwise it may shrink by ``flex``.
        flex: the part of the global batch that may be left out.
        settle: observations at the start of a plan that do not count: new shapes are slow at first.
        reach: a share becomes at most so many times larger or smaller at once.
        least_gain: the part of a step that a new plan must save, beyond what noise can pretend.
        certainty: in units of what noise alone is expected to make the slowest rank look slower by.
        stale: observations without a time after which a rank's share stays as it is.
    """

    total: int
    tile: int = 1
    conserve: bool = True
    flex: float = 0.0
    settle: int = 1
    reach: int = 6
    least_gain: float = 0.03
    certainty: float = 1.8
    stale: int = 20

    @property
    def shrinks(self) -> float:
        """The part of the global batch that may be left out."""
        return 0.0 if self.conserve else self.flex


@dataclass(frozen=True)
class Replan:
    """Shares that should be taken from now on.

    Args:
        shares: samples a rank.
        reason: an English clause.
        predicted_s: how long the slowest rank will compute with them.
        measured_s: how long it does now, by the same speeds.
    """

    shares: tuple[int, ...]
    reason: str
    predicted_s: float
    measured_s: float


def fitting(config: ControllerConfig, measured: Measured, shares: Sequence[int], caps: Caps) -> Replan | None:
    """Shares that fit into memory, however far they are from today's; None where today's do.

    Args:
        config: the global batch.
        measured: ranks' speeds; one that is not known is taken for a typical one.
        shares: today's, shape (ranks,).
        caps: samples that a rank can hold, shape (ranks,); None: as many as there are.

    Raises:
        SplitError: the global batch does not fit into what all can hold.
    """
    over = [rank for rank, cap in enumerate(caps) if cap is not None and shares[rank] > cap]
    if not over:
        return None
    levels = measured.levels()
    typical = statistics.median([level for level in levels if level is not None] or [1.0])
    paces = [typical if level is None else level for level in levels]
    rows = [Worker(measured.fixed * pace, pace, config.tile, cap) for pace, cap in zip(paces, caps)]
    new = _split(config, rows)
    reason = f"rank {over[0]} can hold {caps[over[0]]} samples"
    return Replan(tuple(new), reason, step_s(rows, new), step_s(rows, shares))


def better(config: ControllerConfig, measured: Measured, shares: Sequence[int], caps: Caps) -> Replan | None:
    """Shares within reach of today's that are worth a change; None where there are none.

    Args:
        config: the global batch and the thresholds.
        measured: ranks' speeds; one that is not known keeps its share.
        shares: today's, shape (ranks,), none above its cap.
        caps: samples that a rank can hold, shape (ranks,); None: as many as there are.
    """
    levels, fixed = measured.levels(), measured.fixed
    known = [(level * (fixed + shares[rank]), rank) for rank, level in enumerate(levels) if level is not None]
    if not known:
        return None
    measured_s, slowest = max(known)
    unsure = measured.uncertainty([slowest])
    if measured_s * config.total <= _worth(config, unsure) * _bound_s(config.total, levels, fixed, shares) * sum(
        shares
    ):
        return None
    rows = [_within_reach(config, fixed, *each) for each in zip(levels, shares, caps)]
    new = _split(config, rows)
    # Who gets more must be as fast as it looks, too: two quick steps by chance are no reason to load a rank.
    growing = (rank for rank, level in enumerate(levels) if level is not None and new[rank] > shares[rank])
    worth = _worth(config, measured.uncertainty([slowest, *growing]))
    predicted_s = max(level * (fixed + new[rank]) for rank, level in enumerate(levels) if level is not None)
    if measured_s * sum(new) <= worth * predicted_s * sum(shares):
        return None
    return Replan(tuple(new), measured.reason(), predicted_s, measured_s)


def _worth(config: ControllerConfig, uncertainty: float) -> float:
    """How many times the new step today's must be."""
    return 1 + config.least_gain + config.certainty * uncertainty


def _bound_s(total: int, levels: Sequence[float | None], fixed: float, shares: Sequence[int]) -> float:
    """No shares of the whole batch take less, were samples divisible and memory endless: cheap, so asked first."""
    known = [level for level in levels if level is not None]
    held = sum(share for share, level in zip(shares, levels) if level is None)
    return (total - held + fixed * len(known)) / math.fsum(1 / level for level in known)


def _within_reach(config: ControllerConfig, fixed: float, level: float | None, share: int, cap: int | None) -> Worker:
    """A rank with the shares it may come to; one of which nothing is known keeps its own."""
    if level is None:
        return Worker(0.0, LEAST_SAMPLE_S, share, share)
    most = share * config.reach if cap is None else min(share * config.reach, cap)
    return Worker(level * fixed, level, max(share // config.reach, config.tile), most)


def _split(config: ControllerConfig, rows: Sequence[Worker]) -> list[int]:
    return split(rows, config.total, tile=config.tile, flex=config.shrinks)
