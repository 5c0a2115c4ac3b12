"""The balancer: exact gradients from uneven batches, and shares that follow how fast each rank is.

Rule of this file: what a training script calls, and in which order the parts of it come. A loss is the mean over this
rank's samples, and gradients are averaged over ranks; so a loss is weighted by ranks x its samples / those of the
global batch, and what comes out is the mean over the global batch, whoever has which sample.
"""

from __future__ import annotations

import contextlib
import warnings
from collections.abc import Iterator
from typing import Any

import torch
from torch import nn

from .averaging import Averaging
from .errors import BalanceError
from .exchange import Exchange
from .handout import Handed, Piece
from .input_shape import InputShape
from .out_of_memory import OUT_OF_MEMORY, Memory
from .preserved import INEXACT, unpreserved
from .ready_time import ReadyTime
from .sampler import BalancedSampler
from .setting_up import BOUNDED, Options, set_up
from .staleness import Staleness
from .switching import Switching
from .token_round import TokenRound
from .wrapping import Wrapping


def balance(
    model: nn.Module,
    optimizer: torch.optim.Optimizer,
    sampler: BalancedSampler,
    *,
    mode: str = "adaptive",
    conserve: bool = True,
    flex: float = 0.0,
    max_batch: int | None = None,
    source: str = "inband",
    staleness: int | None = None,
    warm_up: int = 0,
    start: str = "rated",
) -> Balancer:
    """Balance the training of ``model`` on the batches of ``sampler``; all ranks call it, before the first batch.

    Args:
        model: as it is trained: wrapped in DistributedDataParallel or FSDP, or sharded by fully_shard.
        optimizer: whose steps the batches end in.
        sampler: whose batches the loader gives.
        mode: ``adaptive``: shares follow the ranks' speeds; ``static``: they stay as the sampler's weights have them;
            ``uniform``: all are alike, and nothing is measured or exchanged; ``bounded_staleness``: ranks step by
            themselves and average their weights from time to time, which changes what is learned.
        conserve: the global batch stays as it is.
        flex: with ``conserve=False``, the part of it that a plan may leave out.
        max_batch: samples that fit into this rank's memory; None: as many as it is given.
        source: ``inband``: ranks decide among themselves; ``kafka``: plans come from the stream processors.
        staleness: with ``bounded_staleness``, steps that a rank takes without hearing of the others (default: 1).
        warm_up: with it, synchronous steps before the first of these.
        start: with ``adaptive`` and no weights, the first shares: ``rated``: as ``paceline benchmark`` has measured the
            nodes, where it has measured all; ``even``: all are alike.

    Raises:
        BalanceError: these do not fit together; the message says what to change.
    """
    if mode == BOUNDED and staleness is None:
        staleness = 1
    options = Options(mode, conserve, flex, max_batch, source, staleness, warm_up, start)
    return Balancer(model, optimizer, sampler, options)


class Round:
    """From one exchange of gradients to the next: passes, batches that ended, and plans that these were cut by."""

    def __init__(self) -> None:
        self.passes, self.batches, self.samples = 0, 0, 0
        self.versions: set[int] = set()

    def count(self, piece: Piece) -> None:
        """A pass of ``piece``."""
        self.passes += 1
        self.batches += piece.whole
        self.samples += piece.counted
        self.versions.add(piece.batch.plan.version)


class Balancer:
    """What ``balance`` returns: call ``backward`` in place of ``loss.backward()``, once for each batch, in order."""

    def __init__(
        self, model: nn.Module, optimizer: torch.optim.Optimizer, sampler: BalancedSampler, options: Options
    ) -> None:
        self._world, self._handout = sampler.world, sampler.handout
        self._wrapping = Wrapping(model, sampler.world)
        self._exchange = Exchange(sampler.world)
        self._tokens = TokenRound(self._exchange, sampler.world)
        self._switching: Switching | None = set_up(options, sampler, self._wrapping, self._exchange)
        self._averaging: Averaging | None = None
        if options.mode == BOUNDED and sampler.world > 1:
            self._averaging = Averaging(self._wrapping, Staleness(options.staleness or 0, options.warm_up))
        self._ready = ReadyTime(self._wrapping) if self._switching is not None else None
        self._memory = Memory(self._wrapping, sampler.rank, sampler.world)
        self._shape = InputShape()
        self._syncs: bool | None = None
        self._round = Round()
        self._rounds, self._passes = 0, 0
        #: Whether some passes exchange no gradients.
        self._accumulates = False
        self._failed, self._skips = False, False
        self._last: Handed | None = None
        self._handout.followed = True
        self._wrapping.entered.register_forward_pre_hook(self._called, with_kwargs=True)
        optimizer.register_step_pre_hook(self._before_step)
        told = unpreserved(model) if options.mode != "uniform" and sampler.world > 1 else None
        if told is not None:
            warnings.warn(told, UserWarning, stacklevel=3)
        if options.staleness and sampler.world > 1 and sampler.rank == 0:
            warnings.warn(INEXACT, UserWarning, stacklevel=3)

    def backward(
        self, loss: torch.Tensor, tokens: float | torch.Tensor | None = None, samples: int | None = None
    ) -> None:
        """The pass back from the loss of this rank's next batch, weighted for the gradients of the global one.

        Args:
            loss: the mean over this rank's samples, or with ``tokens`` over its tokens.
            tokens: how many tokens the mean is over. Gradients are then the mean over all tokens of the round, of all
                ranks and of every pass accumulated under ``no_sync``: do not divide the loss by the number of passes.
            samples: where a batch is taken in several passes, how many of its samples this one is of.

        Raises:
            BalanceError: the loss is of no batch that was handed out; the message says what to change.
        """
        if tokens is not None and self._averaging is not None:
            raise BalanceError(
                "in mode='bounded_staleness' there is no mean over the tokens of all ranks: give backward the mean "
                "over this rank's, without tokens"
            )
        piece = self._handout.take(samples)
        self._shape.check(piece, guess=samples is None and tokens is None)
        self._last, syncs = piece.batch, self._exchanges()
        self._begin_round()
        weighted = self._weighted(loss, piece, tokens)
        if syncs and self._tokens.used:
            self._tokens.exchange()
        if self._ready is not None:
            self._ready.backward(weighted)
        self._count(piece, syncs)
        self._pass_back(loss, weighted, syncs)
        if self._ready is not None:
            self._ready.end()
        if syncs:
            self._close()

    def synchronize(self) -> None:
        """Before weights are saved or evaluated: with ``bounded_staleness`` they become the mean over ranks now.

        All ranks call it, after the same batch. In every other mode weights are the same everywhere, and it does
        nothing.
        """
        if self._averaging is not None:
            self._averaging.average()

    @contextlib.contextmanager
    def guard(self) -> Iterator[None]:
        """Around the way from a batch to ``backward``: where memory runs out in it, all ranks skip that step.

        The rank that ran out gets fewer samples from then on, and training goes on. What can be skipped is a step of
        a DDP model in ``adaptive`` mode, from the second on; else the error says so, and the next start begins lower.
        Where a batch is taken in several passes, it goes around all of them.
        """
        before = self._passes
        try:
            yield
        except OUT_OF_MEMORY as error:
            if isinstance(error.__cause__, OUT_OF_MEMORY):  # ``backward`` has told it
                raise
            if self._passes != before or not self._may_fail():
                raise self._memory.fatal(error, self._share()) from error
            self._memory.release(error)
        else:
            return
        batch = self._handout.drop()
        self._shape.forget()
        if self._ready is not None:
            self._ready.forget()
        entered, syncs = self._syncs is not None, self._exchanges()
        self._failed, self._last = True, batch or self._last
        if entered:
            self._memory.left_forward(syncs=syncs)
        elif self._accumulates:
            return  # whether this pass would have exchanged gradients cannot be told: a later one does, or the step
        if syncs:
            self._finish_failed(entered=entered)

    def _called(self, module: nn.Module, args: tuple[Any, ...], kwargs: dict[str, Any]) -> None:
        """The model is called; passes of evaluation are none of the balancer's."""
        if not (module.training and torch.is_grad_enabled()):
            return
        if self._averaging is not None:
            self._averaging.before_training_pass()
        self._syncs = self._wrapping.syncs()
        self._shape.see(args, kwargs)
        if self._ready is not None:
            self._ready.begin()

    def _exchanges(self) -> bool:
        """Whether this pass exchanges gradients; DDP decides that when the model is called, FSDP in the pass back."""
        called, self._syncs = self._syncs, None
        return self._wrapping.syncs() if called is None or self._wrapping.ddp is None else called

    def _begin_round(self) -> None:
        """Gradients exchanged before that are gone were thrown away without a step: they count no more.

        GradScaler leaves a step out so, and scripts do. After an exchange every rank has gradients, so ranks agree.
        """
        if not self._round.passes and all(p.grad is None for p in self._wrapping.model.parameters()):
            self._tokens.step()
            self._skips = False

    def _weighted(self, loss: torch.Tensor, piece: Piece, tokens: float | torch.Tensor | None) -> torch.Tensor:
        if self._averaging is not None and self._averaging.local:
            weight = piece.counted / max(piece.batch.part.counted, 1)
        elif tokens is not None:
            weight = self._tokens.weight(tokens if piece.counted else 0.0)
        else:
            weight = self._world * piece.counted / (piece.batch.part.end - piece.batch.part.start)
        return loss if weight == 1.0 else loss * weight

    def _count(self, piece: Piece, syncs: bool) -> None:
        self._passes += 1
        self._accumulates |= not syncs
        self._round.count(piece)
        if self._switching is not None and piece.samples < piece.batch.samples:
            self._switching.micro_batch = max(self._switching.micro_batch, piece.samples)

    def _pass_back(self, loss: torch.Tensor, weighted: torch.Tensor, syncs: bool) -> None:
        marked = self._memory.mark() if syncs and self._may_fail() else None
        try:
            weighted.backward()  # type: ignore[no-untyped-call]
        except OUT_OF_MEMORY as error:
            if not self._may_fail() or (syncs and marked is None):
                raise self._memory.fatal(error, self._share()) from error
            self._memory.release(error, loss)
        else:
            return
        self._failed = True
        if marked is not None:
            self._memory.finish_backward(marked)

    def _may_fail(self) -> bool:
        """Whether a step can be skipped by all: DDP's buckets must have been filled once, and ranks must be asked."""
        return self._switching is not None and self._wrapping.ddp is not None and self._rounds > 0

    def _share(self) -> int:
        return self._handout.plan_at(self._handout.next).shares[self._memory.rank]

    def _finish_failed(self, *, entered: bool) -> None:
        if self._tokens.used:
            self._tokens.exchange()
        self._memory.finish_forward(entered=entered)
        self._close()

    def _close(self) -> None:
        """A round is over: gradients of all ranks are there."""
        self._tokens.scale(self._wrapping.model.parameters())
        ended, self._round = self._round, Round()
        failed, self._failed = self._failed, False
        self._rounds += 1
        if self._averaging is not None:
            self._averaging.ended(ended.samples)
        if self._switching is None or self._ready is None or self._last is None:
            return
        if failed:
            self._memory.keep(self._last.plan.shares[self._memory.rank])
        if failed or len(ended.versions) != 1:
            self._ready.forget()
        self._ready.close(self._last.plan.version, self._last.number, ended.passes, ended.batches)
        outcome = self._switching.round(self._last, self._ready.read(), failed=failed)
        self._skips |= bool(outcome.failed)
        rank = self._memory.rank
        if rank in outcome.capped:
            most, share = self._switching.most[rank], self._last.plan.shares[rank]
            self._memory.tell(most, share, skipped=rank in outcome.failed)

    def _before_step(self, optimizer: torch.optim.Optimizer, *_: Any) -> None:
        """A step that some rank had no memory for changes nothing: optimizers pass over weights without a gradient."""
        if self._failed and self._wrapping.syncs():
            self._finish_failed(entered=False)
        self._tokens.step()
        if self._skips:
            self._skips = False
            for group in optimizer.param_groups:
                for parameter in group["params"]:
                    parameter.grad = None
