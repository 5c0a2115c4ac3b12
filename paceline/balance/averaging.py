"""Averaging: steps that every rank takes alone, and the mean of all ranks' weights from time to time.

Rule of this file: what ``mode="bounded_staleness"`` changes of DDP is changed here. Its gradients stay on their rank by
a communication hook that hands them back, so ``no_sync`` goes on to mean what it means; its buffers are made
alike with the weights instead of being sent before each pass. Optimizers keep what they remember to themselves.

Weights are averaged before the next training pass begins, not right after the step: an optimizer whose step is left out
on one rank (``GradScaler``) still meets the others there.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import torch
import torch.distributed as dist
from torch.distributed.algorithms.ddp_comm_hooks.default_hooks import allreduce_hook
from torch.nn.modules.batchnorm import _BatchNorm
from torch.nn.parallel import DistributedDataParallel

from .errors import BalanceError
from .staleness import Staleness
from .wrapping import Wrapping

#: Bytes that are averaged at a time: as DDP's buckets, large enough for a link and small beside a model.
BUCKET_BYTES = 25 * 2**20
#: Types whose sums over ranks would lose what the ranks differ by.
_COARSE = (torch.float16, torch.bfloat16)


class Averaging:
    """One rank's side of it: all ranks make one, and call it in the same order.

    Args:
        wrapping: a model that DDP has wrapped.
        staleness: when ranks exchange what.

    Raises:
        BalanceError: the model is wrapped so that ranks meet in every step, or another hook has its gradients.
    """

    def __init__(self, wrapping: Wrapping, staleness: Staleness) -> None:
        self._ddp, self._wrapping = _own_steps(wrapping), wrapping
        #: Whether DDP would keep buffers alike, before that is switched off here.
        self._buffers_alike = bool(self._ddp.broadcast_buffers)
        self._staleness = staleness
        self._due = False
        #: Samples that this rank has trained on by itself since weights were averaged.
        self._samples = 0
        if staleness.staleness:
            # DDP looks at the names and annotations of a hook, which are text here.
            self._ddp.register_comm_hook(None, lambda state, bucket: self._exchanged(bucket))

    @property
    def local(self) -> bool:
        """Whether gradients stay on their rank now."""
        return self._staleness.local

    def ended(self, samples: int) -> None:
        """The pass back of a step of ``samples`` of this rank's has ended."""
        if self._staleness.local:
            self._samples += samples
        self._due |= self._staleness.step()
        if self._staleness.local:
            self._ddp.broadcast_buffers = False

    def before_training_pass(self) -> None:
        """Average where it is due."""
        if self._due:
            self.average()

    def average(self) -> None:
        """Weights become the mean over all ranks, each counted by the samples that it trained on by itself.

        So do the running statistics of BatchNorm; other buffers become those of the first rank, as DDP has it.
        """
        if not self._due and not self._staleness.own_steps:
            return
        group = self._ddp.process_group
        weight = torch.tensor(float(self._samples), dtype=torch.float64, device=next(self._ddp.parameters()).device)
        total = weight.clone()
        dist.all_reduce(total, group=group)
        part = float(weight / total) if float(total) > 0 else 1.0 / dist.get_world_size(group)
        statistics, others = self._buffers()
        with torch.no_grad():
            for bucket in _buckets([*self._wrapping.parameters(), *statistics]):
                _replace(bucket, lambda flat: _mean(flat, part, group))
            for bucket in _buckets(others):
                _replace(bucket, lambda flat: _of_first(flat, group))
        self._due, self._samples = False, 0
        self._staleness.averaged()

    def _exchanged(self, bucket: Any) -> torch.futures.Future[torch.Tensor]:
        """What DDP takes for a bucket's mean: that, or this rank's own."""
        if not self._staleness.local:
            return allreduce_hook(self._ddp.process_group, bucket)
        buffer = bucket.buffer()
        # A future must know of the device that its result is on; of a processor it needs none.
        devices = None if buffer.device.type == "cpu" else [buffer.device]
        own: torch.futures.Future[torch.Tensor] = torch.futures.Future(devices=devices)
        own.set_result(buffer)
        return own

    def _buffers(self) -> tuple[list[torch.Tensor], list[torch.Tensor]]:
        """Running statistics of BatchNorm, and all other buffers; none where DDP was told to leave them apart."""
        if not self._buffers_alike:
            return [], []
        normal = [one for one in self._ddp.module.modules() if isinstance(one, _BatchNorm)]
        running = {id(one) for norm in normal for one in (norm.running_mean, norm.running_var) if one is not None}
        held = self._wrapping.buffers()
        return [one for one in held if id(one) in running], [one for one in held if id(one) not in running]


def _buckets(held: list[torch.Tensor]) -> Iterator[list[torch.Tensor]]:
    """Tensors of one type at a time, ``BUCKET_BYTES`` or one tensor; all ranks come to the same."""
    for dtype in dict.fromkeys(one.dtype for one in held):
        bucket, size = list[torch.Tensor](), 0
        for one in (one for one in held if one.dtype == dtype):
            if bucket and size + _bytes(one) > BUCKET_BYTES:
                yield bucket
                bucket, size = [], 0
            bucket.append(one)
            size += _bytes(one)
        yield bucket


def _replace(bucket: list[torch.Tensor], exchange: Callable[[torch.Tensor], torch.Tensor]) -> None:
    """Put into the tensors what their values in one row become."""
    row, start = exchange(torch.cat([one.reshape(-1) for one in bucket])), 0
    for one in bucket:
        one.copy_(row[start : start + one.numel()].view_as(one))
        start += one.numel()


def _mean(row: torch.Tensor, part: float, group: Any) -> torch.Tensor:
    summed = (row.float() if row.dtype in _COARSE else row) * part
    dist.all_reduce(summed, group=group)
    return summed


def _of_first(row: torch.Tensor, group: Any) -> torch.Tensor:
    dist.broadcast(row, dist.get_global_rank(group, 0), group=group)
    return row


def _bytes(tensor: torch.Tensor) -> int:
    return tensor.numel() * tensor.element_size()


def _own_steps(wrapping: Wrapping) -> DistributedDataParallel:
    """The DDP model, where its ranks can take steps of their own.

    Raises:
        BalanceError: they cannot.
    """
    ddp = wrapping.ddp
    if ddp is None:
        raise BalanceError(
            "mode='bounded_staleness' takes a model that each rank has whole, wrapped in DistributedDataParallel: "
            "shards of one cannot be trained apart. Take mode='adaptive', or shard inside of a node alone (HSDP)"
        )
    if ddp.find_unused_parameters:
        raise BalanceError(
            "mode='bounded_staleness' and find_unused_parameters=True do not go together: DDP then asks all ranks in "
            "every step which parameters were used. Leave it out, or take another mode"
        )
    if getattr(ddp, "_comm_hooks", None):
        raise BalanceError(
            "the model has a communication hook of its own, and mode='bounded_staleness' needs its place: "
            "compressed gradients bring nothing where they are not sent. Leave register_comm_hook out"
        )
    return ddp
