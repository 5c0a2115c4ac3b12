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


def accept_originals(torch: Any) -> None:
    """Let a message be made of the ``isend`` that a script imported before the hooks: PyTorch refuses that one."""
    c10d = torch.distributed.distributed_c10d
    message, hooked = getattr(c10d, "P2POp", None), (c10d.isend, c10d.irecv)
    for name in ("__new__", "__init__") if message is not None else ():
        setattr(message, name, _accepting(vars(message)[name], hooked))


def _accepting(original: Any, hooked: tuple[Any, ...]) -> Any:
    make = getattr(original, "__func__", original)  # __new__ is a static method

    def ours(op: Any) -> Any:
        return next((one for one in hooked if getattr(one, "__wrapped__", None) is op), op)

    @functools.wraps(make)
    def accepting(self: Any, *args: Any, **kwargs: Any) -> Any:
        if args:
            args = (ours(args[0]), *args[1:])
        elif "op" in kwargs:
            kwargs["op"] = ours(kwargs["op"])
        return make(self, *args, **kwargs)

    for function in (ours, accepting):
        skip_frame(function)
    return staticmethod(accepting) if isinstance(original, staticmethod) else accepting
