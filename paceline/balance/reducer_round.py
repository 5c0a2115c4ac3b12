"""One round of DDP's reducer, finished for a rank that cannot: gradients of zero for what it has not come to.

Rule of this file: other ranks wait in the exchange of gradients until every rank has brought each of them once. After a
failure this rank brings what is missing, so that nobody hangs; what comes out is equal on all ranks.
"""

from __future__ import annotations

from typing import Any

import torch
from torch import nn
from torch.nn.parallel import DistributedDataParallel


def marks(parameters: list[nn.Parameter]) -> list[Any] | None:
    """What tells later whether a gradient has been added to since: cheap enough to be taken before each pass.

    None where that could not be reported: gradients that are views of one bucket count their changes together.
    """
    found = [None if p.grad is None else (p.grad, p.grad._version) for p in parameters]
    kept = [mark[0] for mark in found if mark is not None]
    return None if any(grad.untyped_storage().nbytes() > grad.nbytes for grad in kept) else found


def missing(parameters: list[nn.Parameter], before: list[Any]) -> list[nn.Parameter]:
    """Those whose gradient has not come since ``marks``."""
    return [p for p, old in zip(parameters, before) if not _came(p, old)]


def begin(ddp: DistributedDataParallel) -> None:
    """What the wrapper exchanges before a forward pass that this rank never came to."""
    ddp.reducer.prepare_for_forward()
    ddp.reducer._rebuild_buckets()
    if ddp._check_sync_bufs_pre_fwd():  # type: ignore[no-untyped-call]
        ddp._sync_buffers()  # type: ignore[no-untyped-call]


def finish(ddp: DistributedDataParallel, parameters: list[nn.Parameter], *, forward: bool) -> None:
    """Bring zeros for ``parameters``; ``forward``: the way to the loss failed, so the reducer expects nothing yet."""
    with torch.enable_grad():
        roots = [p.view_as(p) for p in parameters]
        if forward:
            ddp.reducer.prepare_for_backward(roots if ddp.find_unused_parameters else [])
        zeros = [torch.zeros((), dtype=p.dtype, device=p.device).expand_as(p) for p in parameters]
        torch.autograd.backward(roots, zeros)


def _came(parameter: nn.Parameter, before: Any) -> bool:
    if parameter.grad is None:
        return False
    return before is None or before[0] is not parameter.grad or before[1] != parameter.grad._version
