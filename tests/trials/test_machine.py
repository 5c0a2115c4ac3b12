"""What a machine has, read from a made-up /sys and a made-up NVML with the names of NVIDIA's binding."""

from itertools import combinations
from types import SimpleNamespace

import pytest

from paceline import rated as rated_file
from paceline.gpu.driver import AbsentError
from paceline.gpu.nvml import Nvml
from paceline.settings import RATED_FILE
from trials import machine
from trials.topology import DISTANCES


class NVMLError(Exception):
    def __init__(self, value):
        super().__init__(value)
        self.value = value


class FakeNvml:
    """GPUs by number; ``links`` says where each one's NVLinks lead, ``level`` NVML's ancestor of a pair."""

    NVMLError = NVMLError
    NVMLLibraryMismatchError = type("NVMLLibraryMismatchError", (Exception,), {})
    NVML_ERROR_NOT_SUPPORTED, NVML_ERROR_GPU_IS_LOST = 3, 15
    NVML_TOPOLOGY_INTERNAL, NVML_TOPOLOGY_SINGLE, NVML_TOPOLOGY_MULTIPLE = 0, 10, 20
    NVML_TOPOLOGY_HOSTBRIDGE, NVML_TOPOLOGY_NODE, NVML_TOPOLOGY_SYSTEM = 30, 40, 50

    def __init__(self, count, links=None, level=None, mig=(), lost=()):
        self.count, self.links, self.level = count, links or {}, level or (lambda one, other: 50)
        self.mig, self.lost, self.closed = mig, lost, False

    def __getattr__(self, name):
        if name.startswith("NVML_ERROR_"):
            return -1
        raise AttributeError(name)

    def nvmlInit(self):  # noqa: N802 - its names
        pass

    def nvmlShutdown(self):  # noqa: N802
        self.closed = True

    def nvmlDeviceGetCount(self):  # noqa: N802
        return self.count

    def nvmlDeviceGetHandleByIndex(self, index):  # noqa: N802
        if index in self.lost:
            raise NVMLError(self.NVML_ERROR_GPU_IS_LOST)
        return index

    def nvmlDeviceGetUUID(self, gpu):  # noqa: N802
        return f"GPU-{gpu}a"

    def nvmlDeviceGetName(self, gpu):  # noqa: N802
        return "made-up"

    def nvmlDeviceGetPciInfo(self, gpu):  # noqa: N802
        return SimpleNamespace(busId=f"00000000:{gpu:02X}:00.0")

    def nvmlDeviceGetMigMode(self, gpu):  # noqa: N802
        if not self.mig:
            raise NVMLError(self.NVML_ERROR_NOT_SUPPORTED)
        return [int(gpu in self.mig), 0]

    def nvmlDeviceGetNvLinkState(self, gpu, link):  # noqa: N802
        ends = self.links.get(gpu, ())
        if link >= len(ends) or ends[link] is None:
            raise NVMLError(self.NVML_ERROR_NOT_SUPPORTED)
        return 1

    def nvmlDeviceGetNvLinkRemotePciInfo(self, gpu, link):  # noqa: N802
        return SimpleNamespace(busId=self.links[gpu][link])

    def nvmlDeviceGetTopologyCommonAncestor(self, one, other):  # noqa: N802
        return self.level(one, other)


@pytest.fixture
def sys(tmp_path):
    """Two memory nodes of two cores with two threads each, and a file that is no list."""
    for node, cpus in ((0, "0-1,4-5"), (1, "2-3,6-7"), (2, "")):
        folder = tmp_path / f"devices/system/node/node{node}"
        folder.mkdir(parents=True)
        (folder / "cpulist").write_text(f"{cpus}\n")
    for cpu in range(8):
        folder = tmp_path / f"devices/system/cpu/cpu{cpu}/topology"
        folder.mkdir(parents=True)
        (folder / "thread_siblings_list").write_text(f"{cpu % 4},{cpu % 4 + 4}\n" if cpu != 3 else "\xff nonsense")
    for gpu in range(8):
        folder = tmp_path / f"bus/pci/devices/0000:{gpu:02x}:00.0"
        folder.mkdir(parents=True)
        (folder / "numa_node").write_text(f"{gpu // 4 if gpu else -1}\n")
    return tmp_path


def absent():
    raise AbsentError("no binding")


def read(sys, library=None, environ=None):
    load = absent if library is None else lambda: Nvml(library)
    return machine.topology(sys, tuple(range(8)), load, environ or {})


def word(topology, one, other):
    return DISTANCES[topology.apart(one, other)]


def test_processors_and_memory_nodes(sys):
    """A node without CPUs and a damaged list are left out; without a driver there is a reason."""
    found = read(sys)

    assert found.numa == {0: (0, 1, 4, 5), 1: (2, 3, 6, 7)}
    assert found.siblings == ((0, 4), (1, 5), (2, 6), (3, 7))
    assert (found.gpus, found.why) == ((), ("no binding",))


def test_a_machine_that_tells_nothing(tmp_path):
    """It has the CPUs that we may use."""
    assert read(tmp_path / "none").cpus == tuple(range(8))


def test_switches_make_all_near(sys):
    """GPUs whose links lead to the same NVSwitches are one NVLink apart."""
    library = FakeNvml(8, {gpu: ["00000000:C0:00.0", None, "00000000:C1:00.0"] for gpu in range(8)})
    found = read(sys, library)

    assert {word(found, *pair) for pair in combinations(range(8), 2)} == {"nvlink"}
    assert library.closed


def test_bridges_and_pcie(sys):
    """A direct link counts for its pair alone; else NVML's ancestor, and the farthest where it is none that we know."""
    levels = {(0, 1): 10, (0, 2): 40, (1, 2): 77}
    library = FakeNvml(4, {2: ["00000000:03:00.0"]}, lambda one, other: levels.get((one, other), 50))
    found = read(sys, library)

    assert [word(found, *pair) for pair in ((2, 3), (0, 1), (0, 2), (1, 2), (0, 3))] == [
        "nvlink",
        "single",
        "node",
        "system",
        "system",
    ]


def test_gpus_by_memory_node(sys):
    """-1 of the kernel is unknown; the others bring their CPUs along."""
    found = read(sys, FakeNvml(8))

    assert [gpu.numa for gpu in found.gpus] == [None, 0, 0, 0, 1, 1, 1, 1]
    assert found.gpus[5].cpus == (2, 3, 6, 7)


def test_one_that_is_lost_is_told(sys):
    """The others stay."""
    found = read(sys, FakeNvml(3, lost=(1,)))

    assert [gpu.index for gpu in found.gpus] == [0, 2]
    assert found.why == ("GPU 1: GPU is lost",)


def test_mig_is_seen(sys):
    """A GPU that is cut into instances bears the mark."""
    assert [gpu.mig for gpu in read(sys, FakeNvml(2, mig=(1,))).gpus] == [False, True]


@pytest.mark.parametrize(
    ("visible", "left"), [("2,1", [1, 2]), ("GPU-3a", [3]), ("", []), ("GPU-", [0, 1, 2, 3]), ("-1", [])]
)
def test_gpus_that_are_not_ours_are_left_alone(sys, visible, left):
    """CUDA_VISIBLE_DEVICES that we were started with is obeyed, and said."""
    found = read(sys, FakeNvml(4), {"CUDA_VISIBLE_DEVICES": visible})

    assert [gpu.index for gpu in found.gpus] == left
    assert (f"CUDA_VISIBLE_DEVICES leaves {len(left)} of 4 GPUs" in found.why) == (len(left) < 4)


def test_without_a_rating_no_split_follows_one(sys, tmp_path, monkeypatch):
    """The file of the node is asked for; there is none."""
    monkeypatch.setenv(RATED_FILE.name, str(tmp_path / "x"))

    assert machine.rated(read(sys, FakeNvml(2))) is None


def test_a_split_follows_a_speed_that_all_gpus_have(sys, tmp_path, monkeypatch):
    """The first of the names that none lacks."""
    monkeypatch.setenv(RATED_FILE.name, str(tmp_path / "x"))
    monkeypatch.setenv("PACELINE_NODE", "n")
    speeds = [("GPU-0a", "gemm_bfloat16", 9.0), ("GPU-0a", "gemm_float32", 2.0), ("GPU-1a", "gemm_float32", 1.0)]
    kept = [rated_file.Speed(gpu, name, "FLOP/s", value, value, value, 5, 1.0) for gpu, name, value in speeds]
    rated_file.write(tmp_path / "x", rated_file.Rated("n", 1.0, tuple(kept)))

    assert machine.rated(read(sys, FakeNvml(2))) == {0: 2.0, 1: 1.0}
    assert machine.rated(read(sys, FakeNvml(3))) is None
