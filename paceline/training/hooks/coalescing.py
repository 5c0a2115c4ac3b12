"""Collectives issued together: ``batch_isend_irecv`` and ``_coalescing_manager`` answer with one work for all of them.

The works that the calls inside return are nobody's: they are dropped at once, and their ids used again.
"""

import contextlib
import functools
from collections.abc import Iterator
from typing import Any

from paceline.training import marks
from paceline.training.probe import Probe, skip_frame


def install(probe: Probe, torch: Any, replace: Any) -> None:
    """Write down where a batch of collectives begins and ends, and the work that it answers to."""
    original = getattr(torch.distributed.distributed_c10d, "_coalescing_manager", None)
    if original is None:
        return

    def batch(*args: Any, **kwargs: Any) -> Iterator[Any]:
        ours = not probe.foreign()
        works: list[Any] = []
        with contextlib.ExitStack() as ends:
            if ours:
                probe.host_mark(marks.BATCH)
                ends.callback(lambda: probe.host_mark(marks.BATCHED, id(works[-1]) if works else None))
            with original(*args, **kwargs) as manager:
                works = getattr(manager, "works", works)
                yield manager

    skip_frame(batch)
    replace("_coalescing_manager", original, functools.wraps(original)(contextlib.contextmanager(batch)))
