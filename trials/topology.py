"""What a node has: its GPUs, how near they are to one another, its processors and their memory.

Rule of this file: pure data. Who reads the machine is ``machine``; what sets of devices are worth a trial is ``sets``.
"""

from dataclasses import dataclass, field

#: How far two GPUs are from one another, nearest first: NVLink, then NVML's common ancestors on PCIe.
DISTANCES = ("nvlink", "internal", "single", "multiple", "hostbridge", "node", "system")


@dataclass(frozen=True)
class Gpu:
    """A GPU: its number, the memory node that it hangs from, the CPUs near it; ``mig``: it is cut into instances."""

    index: int
    uuid: str = ""
    name: str = ""
    numa: int | None = None
    cpus: tuple[int, ...] = ()
    mig: bool = False


@dataclass(frozen=True)
class Topology:
    """A node. ``distance`` is by the pair of numbers, the smaller first: an index of ``DISTANCES``. ``numa`` are the
    CPUs of each memory node, ``siblings`` those of each core; ``cpus`` those that we may use. ``why`` tells of what
    could not be read."""

    gpus: tuple[Gpu, ...] = ()
    distance: dict[tuple[int, int], int] = field(default_factory=dict)
    cpus: tuple[int, ...] = ()
    numa: dict[int, tuple[int, ...]] = field(default_factory=dict)
    siblings: tuple[tuple[int, ...], ...] = ()
    why: tuple[str, ...] = ()

    def apart(self, one: int, other: int) -> int:
        """How far two GPUs are apart; as far as can be where nobody knows."""
        return self.distance.get((min(one, other), max(one, other)), len(DISTANCES) - 1)
