"""Sets of GPUs and CPUs that are worth a trial: the nearest together, and the farthest apart.

Rule of this file: pure. Sets between which the topology sees no difference are one.
"""

from itertools import combinations, islice
from math import comb

from .topology import Topology

#: Beyond so many sets of one size, they are grown one GPU at a time instead of all compared.
MOST_COMPARED = 20_000


def gpu_sets(topology: Topology, size: int) -> list[tuple[int, ...]]:
    """Sets of ``size`` GPUs: the nearest, and where that differs the most spread; none where there are not so many.

    Among equally near ones that with the fewest memory nodes, then the lowest numbers. GPUs with MIG are left out.
    """
    usable = [gpu.index for gpu in topology.gpus if not gpu.mig]
    if not 1 <= size <= len(usable):
        return []
    near = _best(topology, usable, size, 1)
    spread = _best(topology, usable, size, -1)
    return [near] if _spread(topology, near) == _spread(topology, spread) else [near, spread]


def _best(topology: Topology, usable: list[int], size: int, sign: int) -> tuple[int, ...]:
    """The set with the least ``sign`` x spread."""
    if comb(len(usable), size) <= MOST_COMPARED:
        return min(
            islice(combinations(usable, size), MOST_COMPARED),
            key=lambda chosen: (tuple(sign * part for part in _spread(topology, chosen)), chosen),
        )
    grown = [_grown(topology, usable, size, sign, first) for first in usable]
    return min(grown, key=lambda chosen: (tuple(sign * part for part in _spread(topology, chosen)), chosen))


def _grown(topology: Topology, usable: list[int], size: int, sign: int, first: int) -> tuple[int, ...]:
    chosen = [first]
    while len(chosen) < size:
        rest = [gpu for gpu in usable if gpu not in chosen]
        chosen.append(min(rest, key=lambda gpu: (sign * sum(topology.apart(gpu, one) for one in chosen), gpu)))
    return tuple(sorted(chosen))


def _spread(topology: Topology, chosen: tuple[int, ...]) -> tuple[int, int]:
    """The sum of distances, and the memory nodes that it touches."""
    numa = {gpu.index: gpu.numa for gpu in topology.gpus}
    total = sum(topology.apart(one, other) for one, other in combinations(chosen, 2))
    return total, len({numa.get(gpu) for gpu in chosen})


def cpu_sets(topology: Topology) -> list[tuple[int, ...]]:
    """Sets of CPUs: all, those of each memory node where there are several, one of each core where cores have two."""
    allowed = set(topology.cpus)
    sets = [tuple(sorted(allowed))]
    if len(topology.numa) > 1:
        sets += [tuple(cpu for cpu in cpus if cpu in allowed) for _, cpus in sorted(topology.numa.items())]
    firsts = tuple(sorted({min(set(core) & allowed) for core in topology.siblings if set(core) & allowed}))
    if firsts and len(firsts) < len(allowed):
        sets.append(firsts)
    return list(dict.fromkeys(filter(None, sets)))


def numa_nodes(topology: Topology) -> list[int]:
    """The memory nodes with CPUs that we may use."""
    return sorted(node for node, cpus in topology.numa.items() if set(cpus) & set(topology.cpus))
