"""What no weighting of gradients preserves: layers that look at the batch of their own rank alone.

Rule of this file: a warning names the layers, says what is different, and what to do.
"""

from __future__ import annotations

from torch import nn
from torch.nn.modules.batchnorm import _BatchNorm

#: Names told at most.
_TOLD = 3
#: What is told of a mode in which the gradients themselves are others.
INEXACT = (
    "mode='bounded_staleness' changes what is learned: ranks take steps of their own and average their weights after "
    "them. Compare the loss with that of a synchronous run, call synchronize() on all ranks before you save or "
    "evaluate, and expect nothing of it where one rank is always slow: that is what mode='adaptive' is for"
)


def unpreserved(model: nn.Module) -> str | None:
    """One sentence or two on layers whose result depends on how samples are shared out; None where there are none."""
    found = [
        name
        for name, module in model.named_modules()
        if isinstance(module, _BatchNorm) and not isinstance(module, nn.SyncBatchNorm) and not _fixed(module)
    ]
    if not found:
        return None
    more = f" and {len(found) - _TOLD} more" if len(found) > _TOLD else ""
    return (
        f"{', '.join(found[:_TOLD])}{more}: BatchNorm takes its statistics from the samples of its own rank, so the "
        "model that comes out depends on how a batch is shared out. On an accelerator "
        "torch.nn.SyncBatchNorm.convert_sync_batchnorm(model), before the model is wrapped, takes them from the whole "
        "batch (PyTorch has none for CPUs); GroupNorm and LayerNorm have no such statistics"
    )


def _fixed(module: _BatchNorm) -> bool:
    """Whether the layer does not learn and keeps its statistics: it is evaluated even while the model trains."""
    return not module.training and module.track_running_stats
