"""Means over a session, by GPU and by node, as gswarm sums frames up."""

from typing import Any

#: GPUs that are told apart; their names come from outside.
MOST_GPUS = 200_000


class _Sum:
    __slots__ = ("count", "total")

    def __init__(self) -> None:
        self.total, self.count = 0.0, 0

    def add(self, value: float | None) -> None:
        if value is not None:
            self.total += value
            self.count += 1

    @property
    def mean(self) -> float | None:
        return self.total / self.count if self.count else None


class Averages:
    """Mean utilisation and memory; what was not measured counts for neither.

    >>> averages = Averages()
    >>> averages.add("n:0:H100", "n", 0.5, None)
    >>> averages.add("n:1:H100", "n", 1.0, 0.25)
    >>> averages.told()["summary_by_client"]
    {'n': {'avg_gpu_util': 0.75, 'avg_gpu_memory': 0.25}}
    """

    def __init__(self) -> None:
        self._by_device: dict[str, tuple[_Sum, _Sum]] = {}
        self._by_client: dict[str, tuple[_Sum, _Sum]] = {}

    def add(self, device: str, client: str, utilization: float | None, memory: float | None) -> None:
        """A GPU said so at some time."""
        for held, name in ((self._by_device, device), (self._by_client, client)):
            if name in held or len(held) < MOST_GPUS:
                sums = held.setdefault(name, (_Sum(), _Sum()))
                sums[0].add(utilization)
                sums[1].add(memory)

    def told(self) -> dict[str, Any]:
        """By GPU and by node."""
        return {"summary_by_device": _told(self._by_device), "summary_by_client": _told(self._by_client)}


def _told(sums: dict[str, tuple[_Sum, _Sum]]) -> dict[str, Any]:
    return {
        name: {"avg_gpu_util": utilization.mean, "avg_gpu_memory": memory.mean}
        for name, (utilization, memory) in sorted(sums.items())
    }
