"""Setting up: what ranks agree on before the first batch, and the parts that are needed for it.

Rule of this file: everything that can be wrong with how ``balance`` is called is told here.
"""

from __future__ import annotations

import math
import os
import zlib
from dataclasses import dataclass

from .caps import Caps, folder, name_of
from .controller import Controller
from .errors import BalanceError
from .exchange import Exchange
from .link import Link
from .plan import Plan
from .replan import ControllerConfig
from .sampler import BalancedSampler
from .switching import Switching
from .tiles import for_compiled
from .worker import SplitError
from .wrapping import Wrapping

MODES = ("adaptive", "static", "uniform")
SOURCES = ("inband", "kafka")


@dataclass(frozen=True)
class Options:
    """How ``balance`` was called.

    Raises:
        BalanceError: it cannot be called so.
    """

    mode: str
    conserve: bool
    flex: float
    max_batch: int | None
    source: str

    @property
    def alike(self) -> tuple[object, ...]:
        """What is the same on every rank."""
        return (self.mode, self.conserve, self.flex, self.source)

    def __post_init__(self) -> None:
        if self.mode not in MODES:
            raise BalanceError(f"mode is {self.mode!r}: it takes {', '.join(MODES)}")
        if self.source not in SOURCES:
            raise BalanceError(f"source is {self.source!r}: it takes {', '.join(SOURCES)}")
        if not 0 <= self.flex < 1:
            raise BalanceError(
                f"flex is {self.flex!r}: it takes the part of the global batch that may be left out, 0 to 1"
            )
        if self.flex and self.conserve:
            raise BalanceError(
                f"flex={self.flex} lets the global batch shrink, and conserve=True keeps it: give one of them"
            )
        most = self.max_batch
        if most is not None and (isinstance(most, bool) or not isinstance(most, int) or most < 1):
            raise BalanceError(
                f"max_batch is {most!r}: it takes the samples that fit into this rank's memory, 1 or more"
            )


def set_up(options: Options, sampler: BalancedSampler, wrapping: Wrapping, exchange: Exchange) -> Switching | None:
    """Give every rank its starting share; what switches plans, None where they stay as they are.

    Raises:
        BalanceError: the global batch does not fit into what all ranks can hold.
    """
    if sampler.world == 1:
        return None
    try:
        return _set_up(options, sampler, wrapping, exchange)
    except SplitError as error:
        raise BalanceError(
            f"{error}. What fits is what max_batch says, or else what earlier starts found out, which is kept in "
            f"{folder(os.environ)}"
        ) from error


def _set_up(options: Options, sampler: BalancedSampler, wrapping: Wrapping, exchange: Exchange) -> Switching | None:
    adaptive = options.mode == "adaptive"
    tile = for_compiled(sampler.global_batch, sampler.world) if adaptive and wrapping.compiled else 1
    most = _caps(options, sampler, wrapping, exchange)
    _start(options, sampler, most, tile, exchange)
    if not adaptive:
        return None
    plan = sampler.handout.plan
    config = ControllerConfig(sampler.global_batch, tile=tile, conserve=options.conserve, flex=options.flex)
    controller = Controller(config, plan.shares, most)
    controller.adopt(plan)
    return Switching(exchange, sampler.handout, controller, most, _link(options, sampler, config))


def _caps(options: Options, sampler: BalancedSampler, wrapping: Wrapping, exchange: Exchange) -> list[int | None]:
    """What fits into each rank's memory, as far as it was said or an earlier start found out."""
    kept = Caps(folder(os.environ) / name_of(wrapping.model, sampler.world, sampler.rank)).read()
    own = options.max_batch if options.max_batch is not None else kept
    rows = exchange.gather([math.inf if own is None else float(own)])
    return [None if math.isinf(row[0]) else int(row[0]) for row in rows]


def _start(options: Options, sampler: BalancedSampler, most: list[int | None], tile: int, exchange: Exchange) -> None:
    """Cut the first batches as ``options`` has it: as a checkpoint did where that fits, else anew.

    Raises:
        BalanceError: ranks were given different things.
    """
    handout = sampler.handout
    rows = exchange.gather([handout.highest, zlib.crc32(repr((options.alike, sampler.alike)).encode())])
    if any(row[1] != rows[0][1] for row in rows):
        raise BalanceError(
            "ranks were given different data or arguments. A dataset of one length, and the same global_batch, seed, "
            "shuffle, drop_last, weights, mode, conserve, flex and source belong to all; max_batch alone is each rank's"
        )
    shares = handout.plan.shares
    if options.mode == "uniform":
        shares = tuple(sampler.even_shares(most))
    elif options.mode == "static" or not _kept(options, sampler, most, tile):
        shares = tuple(sampler.starting_shares(most, tile))
    handout.resumes = options.mode == "adaptive"
    if shares != handout.plan.shares:
        handout.install(Plan(handout.plan.version + 1, int(max(row[0] for row in rows)) + 1, shares))


def _kept(options: Options, sampler: BalancedSampler, most: list[int | None], tile: int) -> bool:
    """Whether the shares that the sampler has can stay."""
    shares = sampler.handout.plan.shares
    if options.conserve and sum(shares) != sampler.global_batch:
        return False
    return all((cap is None or share <= cap) and share % tile == 0 for share, cap in zip(shares, most))


def _link(options: Options, sampler: BalancedSampler, config: ControllerConfig) -> Link | None:
    """The way to a sidecar.

    Raises:
        BalanceError: plans should come from outside, and there is no way for them.
    """
    from paceline.training.balance_link import connected

    channel = connected()
    if channel is None:
        if options.source == "kafka":
            raise BalanceError(
                "source='kafka' takes plans from the stream processors, and no sidecar is around this process to bring "
                "them. Start the script by `paceline run`, or take source='inband'"
            )
        return None
    return Link(channel, sampler.rank, config, options.mode, options.source)
