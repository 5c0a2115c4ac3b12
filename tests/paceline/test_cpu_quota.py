"""CPU quotas of control groups, from files as kernels write them."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

from paceline.cpu_quota import Quota, quota_of, throttled_ratio

V2 = "cgroup2 {root}/v2 cgroup2 rw,nosuid 0 0\n"
V1 = "cgroup {root}/cpu cgroup rw,cpu,cpuacct 0 0\ncgroup {root}/memory cgroup rw,memory 0 0\n"
STAT_V2 = "usage_usec 9\nuser_usec 5\nsystem_usec 4\nnr_periods 200\nnr_throttled 76\nthrottled_usec 912\n"
STAT_V1 = "nr_periods 200\nnr_throttled 76\nthrottled_time 912000\n"


def kernel(root: Path, mounts: str, cgroup: str, files: dict[str, str]) -> Path:
    """A /proc with process 10 in the groups of ``cgroup``."""
    proc = root / "proc"
    told = {"proc/self/mounts": mounts.format(root=root), "proc/10/cgroup": cgroup, **files}
    for name, text in told.items():
        (root / name).parent.mkdir(parents=True, exist_ok=True)
        (root / name).write_text(text)
    return proc


@pytest.mark.parametrize(
    ("mounts", "cgroup", "files", "cpus"),
    [
        (V2, "0::/pod/c\n", {"v2/pod/c/cpu.max": "400000 100000\n", "v2/pod/c/cpu.stat": STAT_V2}, 4.0),
        (V2, "0::/pod/c\n", {"v2/pod/c/cpu.max": "max 100000\n", "v2/pod/cpu.max": "50000 100000\n"}, 0.5),
        (V2, "0::/pod/c\n", {"v2/pod/c/cpu.max": "400000 100000\n", "v2/pod/cpu.max": "200000 100000\n"}, 2.0),
        (V2, "0::/pod/c\n", {"v2/pod/c/cpu.max": "max 100000\n"}, None),
        (V2, "0::/../../outside\n", {"v2/cpu.max": "150000 100000\n"}, 1.5),
        (V2, "0::/gone\n", {}, None),
        (
            V1,
            "4:memory:/m\n3:cpu,cpuacct:/d/c\n",
            {"cpu/d/c/cpu.cfs_quota_us": "400000\n", "cpu/d/c/cpu.cfs_period_us": "100000\n"},
            4.0,
        ),
        (V1, "3:cpu:/d\n", {"cpu/d/cpu.cfs_quota_us": "-1\n", "cpu/d/cpu.cfs_period_us": "100000\n"}, None),
        (V1, "3:cpu:/d\n", {"cpu/cpu.cfs_quota_us": "60000\n", "cpu/cpu.cfs_period_us": "20000\n"}, 3.0),
        (
            V1 + V2,
            "3:cpu:/d\n0::/\n",
            {"cpu/d/cpu.cfs_quota_us": "40000\n", "cpu/d/cpu.cfs_period_us": "20000\n", "v2/cgroup.procs": "10\n"},
            2.0,
        ),
        ("", "0::/a\n", {}, None),
        (V2, "garbage\n::\n0\n", {"v2/cpu.max": "100000 100000\n"}, None),
        *(
            (V2, "0::/\n", {"v2/cpu.max": text}, None)
            for text in ("", "x y\n", "400000\n", "1 0\n", "-5 9\n", "9" * 40)
        ),
        *((V2, "0::/\n", {"v2/cpu.max": text}, None) for text in ("٣ ٣\n", "1 100000\n", "9999999999999 1\n")),
    ],
)
def test_the_tightest_quota_around_a_process_counts(tmp_path, mounts, cgroup, files, cpus):
    """Version 1, version 2, both, nested groups, no limit, missing files and garbage."""
    told = quota_of(10, kernel(tmp_path, mounts, cgroup, files))
    assert (None if told is None else told.cpus) == cpus


@pytest.mark.parametrize("stat", [STAT_V1, STAT_V2])
def test_periods_are_counted_by_both_versions(tmp_path, stat):
    proc = kernel(tmp_path, V2, "0::/\n", {"v2/cpu.max": "400000 100000\n", "v2/cpu.stat": stat})
    assert quota_of(10, proc) == Quota(4.0, tmp_path / "v2", 200, 76)


@pytest.mark.parametrize("stat", ["", "nr_periods\n", "nr_periods x\nnr_throttled -4\n", "usage_usec 5\n"])
def test_a_quota_without_counts_has_no_share(tmp_path, stat):
    """The limit is reported, how often it was hit is not."""
    proc = kernel(tmp_path, V2, "0::/\n", {"v2/cpu.max": "400000 100000\n", "v2/cpu.stat": stat})
    told = quota_of(10, proc)
    assert told is not None
    assert (told.cpus, throttled_ratio(told, told)) == (4.0, None)


@pytest.mark.parametrize(
    ("before", "now", "ratio"),
    [
        ((100, 10), (200, 48), 0.38),
        ((100, 10), (100, 10), 0.0),
        ((100, 10), (110, 40), 1.0),
        ((100, 10), (5, 0), None),
        ((None, None), (5, 0), None),
    ],
)
def test_the_share_is_of_the_periods_between_two_looks(before, now, ratio):
    """Never more than all of them; nothing is known where the group was made again."""
    looks = (Quota(4.0, Path("g"), *before), Quota(4.0, Path("g"), *now))
    assert throttled_ratio(*looks) == ratio
    assert throttled_ratio(None, looks[1]) is None
    assert throttled_ratio(looks[0]._replace(folder=Path("h")), looks[1]) is None


@pytest.mark.slow
def test_the_kernels_own_quota_is_read(until):
    """A process that may use a tenth of a processor, and wants all of one, in a group of version 1."""
    folder = Path("/sys/fs/cgroup/cpu") / f"paceline-test-{os.getpid()}"
    try:
        folder.mkdir()
        (folder / "cpu.cfs_period_us").write_text("10000")
        (folder / "cpu.cfs_quota_us").write_text("1000")
    except OSError as error:
        pytest.skip(f"no control group can be made here: {error}")
    busy = subprocess.Popen([sys.executable, "-c", "while True: pass"])
    try:
        (folder / "tasks").write_text(str(busy.pid))
        before = quota_of(busy.pid)
        assert before is not None
        assert (before.cpus, before.folder) == (0.1, folder)
        until(lambda: (throttled_ratio(before, quota_of(busy.pid)) or 0.0) > 0.0)
    finally:
        busy.kill()
        busy.wait()
        folder.rmdir()
