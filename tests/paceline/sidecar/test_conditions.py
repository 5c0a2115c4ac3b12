"""What a rank's process and node went through, from a /proc made up in a folder and from this machine's own."""

import os
import subprocess
import sys

import pytest

from paceline.sidecar.conditions import Conditions
from paceline.sidecar.gpu_readings import GpuReadings

PRESSURE = "some avg10={} avg60=0.00 avg300=0.00 total=1\n"


class Kernel:
    """A /proc in a folder."""

    def __init__(self, root):
        self.root = root
        self.mount = root.parent / "cgroup"
        self.put("self/mounts", f"proc /proc proc rw 0 0\ncgroup2 {self.mount} cgroup2 rw 0 0\n")
        for kind, share in (("cpu", "50.00"), ("memory", "20.00"), ("io", "10.00")):
            self.put(f"pressure/{kind}", PRESSURE.format(share))

    def put(self, path, text):
        target = self.root / path
        target.parent.mkdir(parents=True, exist_ok=True)
        target.write_text(text)

    def process(self, pid, faults, *, born=100, children=(), swap_kib=0, group="/", name="train) x"):
        fields = ["S", *("1",) * 8, str(faults), *("0",) * 9, str(born), "0"]
        self.put(f"{pid}/stat", f"{pid} ({name}) {' '.join(fields)}\n")
        self.put(f"{pid}/status", f"Name:\tx\nVmSwap:\t{swap_kib:8d} kB\n")
        self.put(f"{pid}/cgroup", f"9:cpu:/\n0::{group}\n")
        self.put(f"{pid}/task/{pid}/children", "".join(f"{child} " for child in children))

    def pressure(self, group, kind, share):
        (self.mount / group).mkdir(parents=True, exist_ok=True)
        (self.mount / group / f"{kind}.pressure").write_text(PRESSURE.format(share))


@pytest.fixture
def kernel(tmp_path):
    (tmp_path / "proc").mkdir()
    return Kernel(tmp_path / "proc")


@pytest.fixture
def conditions(kernel):
    made = Conditions(GpuReadings([]), kernel.root)
    yield made
    made.close()


def test_major_faults_of_the_whole_tree_are_counted_since_the_sample_before(kernel, conditions):
    """The first sample has no count; the next has what the process and its loader workers added."""
    kernel.process(10, 100, children=[11])
    kernel.process(11, 40)
    first = conditions.sample({0: (10, "cpu")}, 1000.0, 1000.0)
    kernel.process(10, 103, children=[11])
    kernel.process(11, 42)
    second = conditions.sample({0: (10, "cpu")}, 1001.5, 1001.5)

    assert (first[0].major_faults, first[0].span_s) == (None, 0.0)
    assert (second[0].major_faults, second[0].span_s) == (5, 1.5)


def test_a_new_worker_counts_from_its_first_sample_on(kernel, conditions):
    """What a child read from disk before anybody looked at it is not the span's."""
    kernel.process(10, 0)
    conditions.sample({0: (10, "cpu")}, 1000.0, 1000.0)
    kernel.process(10, 0, children=[12])
    kernel.process(12, 5000)
    appeared = conditions.sample({0: (10, "cpu")}, 1001.0, 1001.0)
    kernel.process(12, 5007)

    assert appeared[0].major_faults == 0
    assert conditions.sample({0: (10, "cpu")}, 1002.0, 1002.0)[0].major_faults == 7


def test_children_of_another_thread_are_found_in_time(kernel, conditions):
    """A worker that another thread started is found when it is this rank's turn to be looked at closely."""
    kernel.process(10, 0)
    kernel.put("10/task/77/children", "13 ")
    kernel.process(13, 1)
    for second in range(3):
        conditions.sample({0: (10, "cpu"), 1: (10, "cpu")}, 1000.0 + second, 1000.0 + second)
    kernel.process(13, 4)

    assert conditions.sample({0: (10, "cpu"), 1: (10, "cpu")}, 1003.0, 1003.0)[0].major_faults == 3


def test_a_reused_process_id_begins_anew(kernel, conditions):
    """Another process under the same number is not compared with the one before."""
    kernel.process(10, 900)
    conditions.sample({0: (10, "cpu")}, 1000.0, 1000.0)
    kernel.process(10, 2000, born=500)

    assert conditions.sample({0: (10, "cpu")}, 1001.0, 1001.0)[0].major_faults is None


def test_a_process_that_has_gone_is_not_measured(kernel, conditions):
    """No process: no faults and no swap, and the machine's pressure all the same."""
    found = conditions.sample({3: (99, "cpu")}, 1000.0, 1000.0)[0]

    assert (found.rank, found.major_faults, found.swap_used_bytes) == (3, None, None)
    assert found.pressure_cpu_ratio == 0.5


def test_swap_is_the_process_own(kernel, conditions):
    """VmSwap in bytes."""
    kernel.process(10, 0, swap_kib=2048)

    assert conditions.sample({0: (10, "cpu")}, 1000.0, 1000.0)[0].swap_used_bytes == 2048 * 1024


def test_pressure_is_that_of_the_ranks_own_group(kernel, conditions):
    """In a container the group's pressure counts; a kind that the group does not tell is the machine's."""
    kernel.process(10, 0, group="/job/a")
    kernel.process(11, 0, group="/job/b")
    kernel.pressure("job/a", "cpu", "90.00")
    found = conditions.sample({0: (10, "cpu"), 1: (11, "cpu")}, 1000.0, 1000.0)

    assert [one.pressure_cpu_ratio for one in found] == [0.9, 0.5]
    assert [one.pressure_memory_ratio for one in found] == [0.2, 0.2]


def test_a_quota_is_that_of_the_ranks_own_group_and_counts_between_looks(kernel, conditions):
    """Two ranks in two containers, one without a limit; a rank whose process is another begins again."""
    for pid, group, limit in ((10, "a", "400000 100000"), (11, "b", "max 100000")):
        kernel.process(pid, 0, group=f"/{group}")
        (kernel.mount / group).mkdir(parents=True)
        (kernel.mount / group / "cpu.max").write_text(limit + "\n")
    stat = kernel.mount / "a" / "cpu.stat"
    told = []
    for second, (periods, throttled) in enumerate(((100, 10), (200, 48), (200, 48))):
        stat.write_text(f"nr_periods {periods}\nnr_throttled {throttled}\n")
        found = conditions.sample({0: (10, "cpu"), 1: (11, "cpu")}, 1000.0 + second, 1000.0 + second)
        told += [(found[0].cpu_quota_count, found[0].cpu_throttled_ratio)]
        assert (found[1].cpu_quota_count, found[1].cpu_throttled_ratio) == (None, None)
    assert told == [(4.0, None), (4.0, 0.38), (4.0, 0.0)]
    kernel.process(10, 0, group="/a", born=500)
    stat.write_text("nr_periods 300\nnr_throttled 148\n")
    assert conditions.sample({0: (10, "cpu")}, 1004.0, 1004.0)[0].cpu_throttled_ratio is None


@pytest.mark.parametrize("text", ["", "garbage", "10 (x) S 1", "\x00" * 50, "10 (x) " + "a " * 40])
def test_odd_files_are_not_measured(kernel, conditions, text):
    """Truncated and foreign files cost their values and nothing else."""
    for name in ("stat", "status", "cgroup", "task/10/children"):
        kernel.put(f"10/{name}", text)
    for _ in range(3):
        found = conditions.sample({0: (10, "cpu")}, 1000.0, 1000.0)[0]

    assert (found.major_faults, found.swap_used_bytes) == (None, None)


@pytest.mark.parametrize("step_s", [-28_800.0, 28_800.0])
def test_a_clock_that_is_set_changes_no_span(kernel, conditions, step_s):
    """Faults and the like are told by the second: of a span that is measured, not of two dates."""
    kernel.process(10, 0)
    conditions.sample({0: (10, "cpu")}, 1e9, 50.0)

    assert conditions.sample({0: (10, "cpu")}, 1e9 + step_s, 51.0)[0].span_s == 1.0


def test_without_a_binding_gpu_columns_are_not_measured(kernel, conditions):
    """A GPU job in an environment without nvidia-ml-py: no GPU columns, no error."""
    kernel.process(10, 0)
    for second in range(3):
        found = conditions.sample({0: (10, "GPU-1")}, 1000.0 + second, 1000.0 + second)[0]

    assert (found.throttle_reasons, found.sm_clock_mhz, found.fb_used_bytes) == (None, None, None)


def test_nobody_to_sample(conditions):
    """No ranks: no conditions."""
    assert conditions.sample({}, 1000.0, 1000.0) == []


@pytest.mark.slow
def test_a_real_process_and_its_child():
    """On this machine: the process itself is measured, and one that ends in between stops being so."""
    child = subprocess.Popen([sys.executable, "-c", "input()"], stdin=subprocess.PIPE)
    conditions = Conditions()
    conditions.sample({0: (os.getpid(), "cpu"), 1: (child.pid, "cpu")}, 1000.0, 1000.0)
    alive = conditions.sample({0: (os.getpid(), "cpu"), 1: (child.pid, "cpu")}, 1001.0, 1001.0)
    child.communicate(b"\n")
    gone = conditions.sample({0: (os.getpid(), "cpu"), 1: (child.pid, "cpu")}, 1002.0, 1002.0)

    assert [one.major_faults is None for one in alive] == [False, False]
    assert [one.major_faults is None for one in gone] == [False, True]
