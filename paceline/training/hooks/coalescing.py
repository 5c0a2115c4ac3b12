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
    tracing = torch.compiler.is_dynamo_compiling

    @contextlib.contextmanager
    def told(batch: Any) -> Iterator[Any]:
        works: list[Any] = []
        probe.host_mark(marks.BATCH)
        try:
            with batch as manager:
                works = getattr(manager, "works", works)
                yield manager
        finally:
            probe.host_mark(marks.BATCHED, id(works[-1]) if works else None)

    @functools.wraps(original)
    def coalescing(*args: Any, **kwargs: Any) -> Any:
        batch = original(*args, **kwargs)
        return batch if tracing() or probe.foreign() else told(batch)

    for function in (told.__wrapped__, coalescing):  # type: ignore[attr-defined]
        skip_frame(function)
    replace("_coalescing_manager", original, coalescing)
