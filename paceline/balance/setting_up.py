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
from .plan import Plan, Standing, refusal
from .rated_start import doubt, told, weights
from .replan import ControllerConfig
from .sampler import BalancedSampler
from .staleness import MOST_STALENESS
from .switching import Switching
from .tiles import for_compiled
from .worker import SplitError
from .wrapping import Wrapping

BOUNDED = "bounded_staleness"
MODES = ("adaptive", "static", "uniform", BOUNDED)
SOURCES = ("inband", "kafka")
STARTS = ("rated", "even")
_MOST = {"staleness": MOST_STALENESS, "warm_up": 2**31}


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
    staleness: int | None = None
    warm_up: int = 0
    start: str = "rated"

    @property
    def alike(self) -> tuple[object, ...]:
        """What is the same on every rank."""
        asked = (self.mode, self.conserve, self.flex, self.source, self.start)
        return (*asked, self.staleness, self.warm_up)

    def __post_init__(self) -> None:
        if self.mode not in MODES:
            raise BalanceError(f"mode is {self.mode!r}: it takes {', '.join(MODES)}")
        if self.source not in SOURCES:
            raise BalanceError(f"source is {self.source!r}: it takes {', '.join(SOURCES)}")
        if self.start not in STARTS:
            raise BalanceError(f"start is {self.start!r}: it takes {', '.join(STARTS)}")
        if not 0 <= self.flex < 1:
            raise BalanceError(
                f"flex is {self.flex!r}: it takes the part of the global batch that may be left out, 0 to 1"
            )
        if self.flex and self.conserve:
            raise BalanceError(
                f"flex={self.flex} lets the global batch shrink, and conserve=True keeps it: give one of them"
            )
        self._check_staleness()
        most = self.max_batch
        if most is not None and (isinstance(most, bool) or not isinstance(most, int) or most < 1):
            raise BalanceError(
                f"max_batch is {most!r}: it takes the samples that fit into this rank's memory, 1 or more"
            )

    def _check_staleness(self) -> None:
        if self.mode != BOUNDED:
            if self.staleness is not None or self.warm_up:
                raise BalanceError(f"staleness and warm_up are for mode={BOUNDED!r}, and mode is {self.mode!r}")
            return
        for name, value in (("staleness", self.staleness), ("warm_up", self.warm_up)):
            if isinstance(value, bool) or not isinstance(value, int) or not 0 <= value <= _MOST[name]:
                raise BalanceError(f"{name} is {value!r}: it takes a whole number of steps, 0 to {_MOST[name]}")
        if self.source != "inband" or not self.conserve:
            raise BalanceError(
                f"in mode={BOUNDED!r} shares stay as they are: leave source and conserve as they are, too"
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
    _start(options, sampler, most, tile, exchange, told(wrapping.model, wrapping.device))
    if not adaptive:
        return None
    plan = sampler.handout.plan
    config = ControllerConfig(sampler.global_batch, tile=tile, conserve=options.conserve, flex=options.flex)
    controller = Controller(config, plan.shares, most)
    controller.adopt(plan)
    return Switching(exchange, sampler.handout, controller, most, _link(options, sampler, config, _drawn(exchange)))


def _drawn(exchange: Exchange) -> int:
    """The number of this run: rank 0 draws it, not from the script's own random stream."""
    return int(exchange.gather([1.0 + int.from_bytes(os.urandom(6), "big")])[0][0])


def _caps(options: Options, sampler: BalancedSampler, wrapping: Wrapping, exchange: Exchange) -> list[int | None]:
    """What fits into each rank's memory, as far as it was said or an earlier start found out."""
    kept = Caps(folder(os.environ) / name_of(wrapping.model, sampler.world, sampler.rank)).read()
    own = options.max_batch if options.max_batch is not None else kept
    rows = exchange.gather([math.inf if own is None else float(own)])
    return [None if math.isinf(row[0]) else int(row[0]) for row in rows]


def _start(
    options: Options,
    sampler: BalancedSampler,
    most: list[int | None],
    tile: int,
    exchange: Exchange,
    rated: list[float],
) -> None:
    """Cut the first batches as ``options`` has it: as a checkpoint did where that fits, else anew.

    Raises:
        BalanceError: ranks were given different things.
    """
    handout = sampler.handout
    rows = exchange.gather([handout.highest, zlib.crc32(repr((options.alike, sampler.alike)).encode()), *rated])
    if any(row[1] != rows[0][1] for row in rows):
        raise BalanceError(
            "ranks were given different data or arguments. A dataset of one length, and the same global_batch, seed, "
            "shuffle, drop_last, weights, mode, conserve, flex, source, start, staleness and warm_up belong to all; "
            "max_batch alone is each rank's"
        )
    shares = handout.plan.shares
    if options.mode == "uniform":
        shares = tuple(sampler.even_shares(most))
    elif options.mode in ("static", BOUNDED) or not _kept(options, sampler, most, tile):
        guesses, ranks = _guesses(options, sampler), [row[2:] for row in rows]
        ratings = weights(ranks) if guesses else None
        shares = tuple(sampler.starting_shares(most, tile, ratings))
        if guesses and sampler.rank == 0:
            _say(shares, doubt(ranks), uneven=ratings is not None)
    handout.resumes = options.mode == "adaptive"
    if shares != handout.plan.shares:
        handout.install(Plan(handout.plan.version + 1, int(max(row[0] for row in rows)) + 1, shares))


def _kept(options: Options, sampler: BalancedSampler, most: list[int | None], tile: int) -> bool:
    """Whether the shares that the sampler has can stay."""
    if _guesses(options, sampler):
        return False
    plan = sampler.handout.plan
    now = Standing(sampler.world, total=sampler.global_batch, flex=options.flex, tile=tile, most=most)
    return refusal(now, plan.version, plan.shares) is None


def _guesses(options: Options, sampler: BalancedSampler) -> bool:
    """Whether nobody knows better than the ratings: no weights, no checkpoint, and nothing trained on yet."""
    knows = sampler.weighted or sampler.resumed or sampler.handout.plan.version > 0
    return options.mode == "adaptive" and options.start == "rated" and not knows


def _say(shares: tuple[int, ...], doubted: str, *, uneven: bool) -> None:
    """Tell of an uneven start, or of ratings that do not count, in one line."""
    from paceline.training.telling import tell

    least, most = min(shares), max(shares)
    if uneven:
        tell(f"ranks start with {least} to {most} samples each, as their nodes were rated (start='even': all alike)")
    elif doubted:
        tell(f"ranks start alike: {doubted}; fix: run `paceline benchmark` on each node while nothing else runs")


def _link(options: Options, sampler: BalancedSampler, config: ControllerConfig, run: int) -> Link | None:
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
    return Link(channel, sampler.rank, config, options.mode, options.source, run)
