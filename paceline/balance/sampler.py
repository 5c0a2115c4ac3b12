"""BalancedSampler: batches of one global order, of which every rank takes as many samples as a plan gives it.

Rule of this file: what PyTorch's ``DataLoader`` takes as ``batch_sampler``. All ranks make the same order of an epoch
out of its number and the seed, and cut it at the same places, so that each sample of each batch is on one rank.
"""

from __future__ import annotations

import os
import random
from collections.abc import Iterator, Sequence, Sized
from typing import Any

import torch
import torch.distributed as dist
from torch.utils.data import Sampler

from .errors import BalanceError
from .handout import Handed, Handout
from .parts import part_of
from .plan import MOST_RESUMED, Plan, Standing, refusal
from .sampler_input import refuse, size_of, weights_of, whole
from .split import split
from .worker import Worker

#: What a checkpoint counts.
_COUNTED = ("epoch", "samples", "batch")


def place() -> tuple[int, int]:
    """This process's rank, and how many there are.

    Raises:
        BalanceError: it is one of several, and they have not met yet.
    """
    if dist.is_available() and dist.is_initialized():
        return dist.get_rank(), dist.get_world_size()
    world = os.environ.get("WORLD_SIZE", "1")
    if world not in ("", "1"):
        raise BalanceError(
            f"this is one of {world} processes (WORLD_SIZE), and they have no process group yet. Call "
            "torch.distributed.init_process_group before you make a BalancedSampler"
        )
    return 0, 1


class BalancedSampler(Sampler[list[int]]):
    """Batches of indices for one rank, in place of ``DistributedSampler`` and ``batch_size``.

    Args:
        dataset: what has a length; every rank has the same.
        global_batch: samples of a batch over all ranks.
        seed: with the epoch's number, what the order of an epoch is made of.
        shuffle: False: the dataset's own order in every epoch.
        drop_last: leave out what is short of a batch at the end of an epoch; False: it is shared out, and a rank that
            has none of it takes one sample that counts nothing.
        weights: how fast each rank is, in any unit; None: all are alike.

    Raises:
        BalanceError: these make no batches; the message says what to change.
    """

    _place = staticmethod(place)

    def __init__(
        self,
        dataset: Sized,
        global_batch: int,
        *,
        seed: int = 0,
        shuffle: bool = True,
        drop_last: bool = True,
        weights: Sequence[float] | None = None,
    ) -> None:
        self.rank, self.world = self._place()
        self.size = size_of(dataset)
        self.global_batch = whole("global_batch", global_batch)
        self.seed, self.shuffle, self.drop_last = seed, bool(shuffle), bool(drop_last)
        refuse(self.size, self.global_batch, self.world, drop_last=self.drop_last)
        self.weights = weights_of(weights, self.world)
        #: Whether the script says how fast ranks are, and whether a checkpoint says how batches are cut.
        self.weighted, self.resumed = weights is not None, False
        self.epoch = 0
        #: Where a checkpoint left off, as an epoch and samples of it: it holds until a batch has been trained on.
        self._resume = (0, 0)
        self.handout = Handout(Plan(0, 0, tuple(self.starting_shares([None] * self.world))))

    @property
    def alike(self) -> tuple[object, ...]:
        """What is the same on every rank."""
        return (self.size, self.global_batch, self.seed, self.shuffle, self.drop_last, self.weights)

    def starting_shares(
        self, most: Sequence[int | None], tile: int = 1, weights: Sequence[float] | None = None
    ) -> list[int]:
        """Shares in proportion to ``weights``, or to the sampler's own, as far as each rank can hold them.

        Raises:
            SplitError: the global batch does not fit.
        """
        return self._shared_out(weights or self.weights, most, tile)

    def even_shares(self, most: Sequence[int | None]) -> list[int]:
        """Shares that are alike, as far as each rank can hold them.

        Raises:
            SplitError: the global batch does not fit.
        """
        return self._shared_out([1.0] * self.world, most, 1)

    def _shared_out(self, weights: Sequence[float], most: Sequence[int | None], tile: int) -> list[int]:
        rows = [Worker(0.0, 1 / weight, tile, cap) for weight, cap in zip(weights, most)]
        return split(rows, self.global_batch, tile=tile)

    def set_epoch(self, epoch: int) -> None:
        """The next pass is over epoch ``epoch``; as in ``DistributedSampler``, call it before each."""
        self.epoch = whole("epoch", epoch, least=0)

    def __len__(self) -> int:
        """Batches of a whole epoch; where the global batch may shrink (``flex``), there can be some more."""
        whole, rest = divmod(self.size, self.global_batch)
        return whole + (rest > 0 and not self.drop_last)

    def __iter__(self) -> Iterator[list[int]]:
        """This rank's batches of the epoch, from its start, or from where a checkpoint left it."""
        handout, epoch = self.handout, self.epoch
        turn, number = handout.begin()
        order = self._order(epoch)
        start = self._resume[1] if handout.trained is None and self._resume[0] == epoch else 0
        while True:
            with handout.lock:
                plan = handout.plan_at(number)
                part = part_of(self.rank, plan.shares, start, self.size, drop_last=self.drop_last)
                if part is None:
                    handout.ended(turn, number)
                    return
                handout.add(turn, Handed(number, epoch, part, plan))
            taken = order[part.start : part.start + 1] if part.filler else order[part.first : part.last]
            yield taken.tolist()
            number, start = number + 1, part.end

    def _order(self, epoch: int) -> torch.Tensor:
        if not self.shuffle:
            return torch.arange(self.size)
        generator = torch.Generator()
        generator.manual_seed(random.Random(f"{self.seed} {epoch}").getrandbits(63))
        return torch.randperm(self.size, generator=generator)

    def state_dict(self) -> dict[str, Any]:
        """Where training has come to: the same on every rank, and for any number of ranks to go on from.

        It counts batches that ``Balancer.backward`` was called for. With no balancer it counts those handed out, which
        is further where a loader fetches ahead.
        """
        handout = self.handout
        with handout.lock:
            at = handout.trained
            resumed = self._resume if self._resume[0] == self.epoch else (self.epoch, 0)
            epoch, samples = (at.epoch, at.part.end) if at is not None else resumed
            plan = handout.plan_at(handout.next)
            return {
                "epoch": epoch,
                "samples": samples,
                "batch": handout.next,
                "seed": self.seed,
                "shuffle": self.shuffle,
                "size": self.size,
                "global_batch": self.global_batch,
                "version": handout.plan.version,
                "shares": list(plan.shares),
            }

    def load_state_dict(self, state: dict[str, Any]) -> None:
        """Go on behind the batch that was trained on last; ``set_epoch`` with its epoch keeps that.

        With as many ranks and the same global batch as before, shares go on as they were, where they follow the ranks'
        speeds. Otherwise they start again. All ranks load it at the same place of the script.

        Raises:
            BalanceError: the checkpoint is of other data, or its numbers are none.
        """
        if state["size"] != self.size:
            raise BalanceError(
                f"the checkpoint is of a dataset of {state['size']} samples, and this one has {self.size}: which of "
                "them were seen is not known. Train on the same dataset, or start without the sampler's state"
            )
        at = {name: whole(f"the checkpoint's {name}", state[name], 0, MOST_RESUMED) for name in _COUNTED}
        version = whole("the checkpoint's version", state["version"], 0)
        self.seed, self.shuffle = state["seed"], state["shuffle"]
        self.epoch = at["epoch"]
        self._resume = (self.epoch, at["samples"])
        shares = tuple(state["shares"])
        fits = refusal(Standing(self.world, total=self.global_batch, flex=1.0), 0, shares) is None
        self.resumed = fits and state["global_batch"] == self.global_batch
        self.handout.resume(at["batch"], version, shares if self.resumed else None)
