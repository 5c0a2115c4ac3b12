"""Ranks of a comparison: processes by ``torch.multiprocessing``, started and ended.

Rule of this file: none outlives the call, for one that is left behind takes part of the machine from the next.
"""

from collections.abc import Callable
from typing import Any

import torch.multiprocessing


def run_ranks(function: Callable[..., None], arguments: tuple[Any, ...], world: int) -> None:
    """Run ``function(rank, *arguments)`` in ``world`` processes until all have ended.

    Raises:
        ProcessRaisedException, ProcessExitedException: one failed; the others have ended.
    """
    running: Any = torch.multiprocessing.spawn(function, arguments, nprocs=world, join=False)  # type: ignore[attr-defined,no-untyped-call]
    try:
        while not running.join():
            pass
    finally:
        for process in running.processes:
            process.kill()
            process.join()
