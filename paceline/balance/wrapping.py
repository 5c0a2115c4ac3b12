"""Wrapping: what makes one gradient of all ranks', and what the balancer must know of it.

Rule of this file: it asks PyTorch's wrappers and changes nothing of theirs. What is private in a wrapper is read here
alone, and where it is not there the answer is what holds in the simplest use.
"""

from __future__ import annotations

from typing import Any

import torch
import torch.distributed as dist
from torch import nn
from torch.nn.parallel import DistributedDataParallel

from .errors import BalanceError


class Wrapping:
    """``model`` as it was wrapped for ``world`` ranks.

    Raises:
        BalanceError: nothing in it averages gradients over all ranks.
    """

    def __init__(self, model: nn.Module, world: int) -> None:
        self.model = model
        self._root = getattr(model, "_orig_mod", model)
        self.ddp = self._root if isinstance(self._root, DistributedDataParallel) else None
        self.groups = _sharded_groups(self._root)
        self._first_fsdp = _fsdp_in(self._root)
        if world > 1:
            self._refuse(world)

    @property
    def entered(self) -> nn.Module:
        """The module whose call is this rank's own work: behind what DDP exchanges before a forward pass."""
        if self.ddp is not None and self.model is self.ddp:
            return self.ddp.module  # type: ignore[no-any-return]
        return self.model

    @property
    def compiled(self) -> bool:
        """Whether torch.compile has made the model, or a part of it."""
        return any(hasattr(m, "_orig_mod") or m._compiled_call_impl is not None for m in self.model.modules())

    @property
    def device(self) -> torch.device:
        """Where the model is."""
        found = next(self.model.parameters(), None)
        return found.device if found is not None else torch.device("cpu")

    def parameters(self) -> list[nn.Parameter]:
        """What DDP exchanges gradients of."""
        ddp = self.ddp
        if ddp is None:
            return []
        ignored: set[str] = getattr(ddp, "parameters_to_ignore", set())
        return [p for name, p in ddp.module.named_parameters() if p.requires_grad and name not in ignored]

    def buffers(self) -> list[torch.Tensor]:
        """What DDP makes alike on all ranks."""
        ddp = self.ddp
        if ddp is None:
            return []
        ignored: set[str] = getattr(ddp, "parameters_to_ignore", set())
        return [one for name, one in ddp.module.named_buffers() if name not in ignored]

    def syncs(self) -> bool:
        """Whether a pass back exchanges gradients now: not under ``no_sync``, or what is as that in ``fully_shard``."""
        if self.ddp is not None:
            return bool(self.ddp.require_backward_grad_sync)
        if self.groups:
            return all(getattr(group, "reduce_grads", True) for group in self.groups)
        return bool(getattr(self._first_fsdp, "_sync_gradients", True))

    def _refuse(self, world: int) -> None:
        if self.ddp is None and not self.groups and self._first_fsdp is None:
            raise BalanceError(
                f"nothing in this {type(self._root).__name__} averages gradients over {world} ranks. Wrap it in "
                "DistributedDataParallel, fully_shard or FullyShardedDataParallel, and give balance() what that returns"
            )
        averaged = self._averaged_over()
        if averaged not in (None, world):
            raise BalanceError(
                f"the model's gradients are averaged over {averaged} of {world} ranks. The balancer shares batches out "
                "over all of them: it takes a model that all ranks train together"
            )

    def _averaged_over(self) -> int | None:
        if self.ddp is not None:
            return dist.get_world_size(self.ddp.process_group)
        if self.groups:
            return int(self.groups[0].mesh_info.mesh.size())
        return None


def _fsdp_in(model: nn.Module) -> nn.Module | None:
    try:
        from torch.distributed.fsdp import FullyShardedDataParallel
    except ImportError:
        return None
    return next((module for module in model.modules() if isinstance(module, FullyShardedDataParallel)), None)


def _sharded_groups(model: nn.Module) -> list[Any]:
    """The parameter groups of ``fully_shard``, by what each module of it keeps of itself."""
    found: list[Any] = []
    for module in model.modules():
        state = getattr(module, "_get_fsdp_state", None)
        if state is None:
            continue
        told = state()
        groups = getattr(told, "_fsdp_param_groups", None) or [getattr(told, "_fsdp_param_group", None)]
        found += [group for group in groups if group is not None]
    return found
