"""Exchange: what ranks tell one another beside gradients, over a gloo group of the balancer's own.

Rule of this file: small numbers by the host alone; no device is waited for. A rank that has died ends the others with
gloo's own error, at once where its connection is closed. One that hangs ends them after the timeout of the default
group: a pause that the job allows its own collectives never ends it here.
"""

from __future__ import annotations

from collections.abc import Sequence
from datetime import timedelta
from typing import Any

import torch
import torch.distributed as dist

#: Where the default group does not say how long it waits: longer than any job does, whose own collectives end first.
UNKNOWN_TIMEOUT = timedelta(hours=24)


def timeout_of(group: Any) -> timedelta:
    """How long collectives of ``group`` wait: what the script passed to ``init_process_group``, or PyTorch's default.

    Of several backends the longest: none of the job's collectives waits longer. PyTorch has no public way to ask.
    """
    found = []
    for device in getattr(group, "_device_types", ()):
        try:
            found.append(group._get_backend(device).options._timeout)
        except (AttributeError, RuntimeError):
            continue
    return max((one for one in found if isinstance(one, timedelta)), default=UNKNOWN_TIMEOUT)


class Exchange:
    """All ranks make one, at the same place of the script; in a world of one it answers with its own value."""

    def __init__(self, world: int) -> None:
        self._world = world
        self._group: Any = None
        if world > 1:
            self._group = dist.new_group(backend="gloo", timeout=timeout_of(dist.group.WORLD))

    def gather(self, numbers: Sequence[float]) -> list[list[float]]:
        """What each rank tells, in order of rank; all tell as many numbers."""
        return self.gather_later(numbers).wait()

    def gather_later(self, numbers: Sequence[float]) -> Gathering:
        """The same, on its way while this rank goes on."""
        own = torch.tensor(numbers, dtype=torch.float64)
        if self._group is None:
            return Gathering([own], None)
        found = [torch.empty_like(own) for _ in range(self._world)]
        return Gathering(found, dist.all_gather(found, own, group=self._group, async_op=True))

    def sum(self, number: float) -> Sum:
        """The sum over all ranks, on its way."""
        own = torch.tensor(number, dtype=torch.float64)
        work = dist.all_reduce(own, group=self._group, async_op=True) if self._group is not None else None
        return Sum(own, work)


class Gathering:
    """What other ranks still tell."""

    def __init__(self, rows: Sequence[torch.Tensor], work: Any) -> None:
        self._rows, self._work = rows, work

    def wait(self) -> list[list[float]]:
        """A row a rank, once all have told theirs."""
        if self._work is not None:
            self._work.wait()
        return [row.tolist() for row in self._rows]


class Sum:
    """A sum that other ranks still add to."""

    def __init__(self, own: torch.Tensor, work: Any) -> None:
        self._own, self._work = own, work

    def wait(self) -> float:
        """The sum, once all have told theirs."""
        if self._work is not None:
            self._work.wait()
        return float(self._own)
