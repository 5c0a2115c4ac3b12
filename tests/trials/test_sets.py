"""Sets of devices on made-up machines: the nearest together, the most spread, and one where there is no difference."""

from itertools import combinations

import pytest

from trials.sets import cpu_sets, gpu_sets, numa_nodes
from trials.topology import DISTANCES, Gpu, Topology

NVLINK, SINGLE, NODE, SYSTEM = (DISTANCES.index(word) for word in ("nvlink", "single", "node", "system"))


def machine(count, apart):
    gpus = tuple(Gpu(index, numa=index * 2 // count) for index in range(count))
    return Topology(gpus, {pair: apart(*pair) for pair in combinations(range(count), 2)})


SWITCHED = machine(8, lambda one, other: NVLINK)
#: Two sockets of four GPUs, two of which share a switch each.
PCIE = machine(8, lambda one, other: SINGLE if one // 2 == other // 2 else NODE if one // 4 == other // 4 else SYSTEM)
#: Pairs by an NVLink bridge that are not neighbours by number.
BRIDGED = machine(4, lambda one, other: NVLINK if (one, other) in ((0, 2), (1, 3)) else SYSTEM)


@pytest.mark.parametrize(
    ("topology", "size", "sets"),
    [
        (SWITCHED, 8, [(0, 1, 2, 3, 4, 5, 6, 7)]),
        (SWITCHED, 2, [(0, 1), (0, 4)]),
        (PCIE, 2, [(0, 1), (0, 4)]),
        (PCIE, 4, [(0, 1, 2, 3), (0, 2, 4, 6)]),
        (PCIE, 8, [(0, 1, 2, 3, 4, 5, 6, 7)]),
        (PCIE, 9, []),
        (PCIE, 0, []),
        (BRIDGED, 2, [(0, 2), (0, 3)]),
        (Topology(), 1, []),
        (Topology(gpus=(Gpu(0), Gpu(1))), 2, [(0, 1)]),
    ],
)
def test_sets_of_gpus(topology, size, sets):
    """Unknown distances are the farthest; a set of all is one."""
    assert gpu_sets(topology, size) == sets


def test_instances_are_no_devices():
    """GPUs with MIG are left out."""
    assert gpu_sets(Topology(gpus=(Gpu(0, mig=True), Gpu(1), Gpu(2))), 2) == [(1, 2)]
    assert gpu_sets(Topology(gpus=(Gpu(0, mig=True),)), 1) == []


@pytest.mark.long
def test_many_gpus_are_grown_instead_of_compared():
    """The nearest of 64 are found without looking at all sets."""
    near, spread = gpu_sets(machine(64, lambda one, other: NVLINK if one // 8 == other // 8 else SYSTEM), 8)

    assert near == tuple(range(8))
    assert len({gpu // 8 for gpu in spread}) == 8


def test_sets_of_cpus():
    """All, those of each memory node, one a core; only what is allowed to us."""
    two = Topology(cpus=(0, 1, 2, 3), numa={0: (0, 1), 1: (2, 3)}, siblings=((0, 1), (2, 3)))

    assert cpu_sets(two) == [(0, 1, 2, 3), (0, 1), (2, 3), (0, 2)]
    assert cpu_sets(Topology(cpus=(1, 3), numa={0: (0, 1), 1: (2, 3)}, siblings=((0, 1), (2, 3)))) == [
        (1, 3),
        (1,),
        (3,),
    ]
    assert cpu_sets(Topology(cpus=(0, 1), numa={0: (0, 1)})) == [(0, 1)]
    assert cpu_sets(Topology()) == []


def test_memory_nodes_with_cpus_of_ours():
    """One whose CPUs are others' is none."""
    assert numa_nodes(Topology(cpus=(0,), numa={0: (0, 1), 1: (2, 3), 2: ()})) == [0]
