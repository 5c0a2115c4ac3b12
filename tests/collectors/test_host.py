import json
import os
import subprocess
import sys
from pathlib import Path
from types import SimpleNamespace

import psutil
import pytest

from collectors.host import Host
from collectors.kernel import physical
from collectors.sample_columns import HOST_COLUMNS


@pytest.fixture
def tree(tmp_path):
    """Trees like /proc and /sys, in which this machine's own disks and cards are hardware."""
    for kind, names in (("block", psutil.disk_io_counters(perdisk=True)), ("class/net", psutil.net_io_counters(True))):
        for name in names:
            (tmp_path / "sys" / kind / name / "device").mkdir(parents=True)
    for name in ("cpu", "memory", "io"):
        (tmp_path / "proc" / "pressure").mkdir(parents=True, exist_ok=True)
        (tmp_path / "proc" / "pressure" / name).write_text("some avg10=25.00 avg60=0 avg300=0 total=0\n")
    (tmp_path / "proc" / "net").mkdir()
    (tmp_path / "proc" / "net" / "snmp").write_text("Tcp: RetransSegs\nTcp: 9\n")
    return tmp_path


def test_a_row_has_every_column(until):
    """A row of this very machine holds every column of the event, and what is not measured has a reason."""
    host, seconds, rows = Host(), iter(range(10_000)), []

    def measured():
        # The kernel counts processor time in ticks: two readings within one have no interval.
        rows.append(host.sample(float(next(seconds))))
        return rows[-1]["cpu_ratio"] is not None

    until(measured)

    assert tuple(rows[-1]) == HOST_COLUMNS
    assert {column for column, value in rows[-1].items() if value is None} <= set(host.not_measured())


def test_this_machine_is_measured():
    """Memory is the machine's; cores are as many as it has."""
    host = Host()
    host.sample(1.0)
    row = host.sample(2.0)

    assert 0 < row["memory_used_bytes"] < row["memory_total_bytes"] == psutil.virtual_memory().total
    assert len(row["cpu_ratio_per_core"]) in (0, len(psutil.cpu_times(percpu=True)))


def test_rates_come_with_the_second_row(tree):
    """Rates need an interval: None first, a number then."""
    host = Host(tree / "proc", tree / "sys")
    first, second = host.sample(1.0), host.sample(2.0)

    assert first["network_rx_bytes_per_s"] is None
    assert second["network_rx_bytes_per_s"] >= 0.0


def test_the_kernels_files_are_read_where_they_are_said_to_be(tree):
    """Pressure and retransmits come from the given /proc."""
    row = Host(tree / "proc", tree / "sys").sample(1.0)

    assert (row["pressure_io_ratio"], row["tcp_retransmits"]) == (0.25, 9)


def test_an_empty_proc_and_sys_is_not_measured(tmp_path):
    """What the kernel does not show is None, with a reason that says what would help."""
    host = Host(tmp_path, tmp_path)
    host.sample(1.0)
    row = host.sample(2.0)

    assert (row["pressure_cpu_ratio"], row["tcp_retransmits"], row["disk_read_bytes_per_s"]) == (None, None, None)
    assert "PSI" in host.not_measured()["pressure_cpu_ratio"]
    assert "disk_read_bytes_per_s" in host.not_measured()


def test_a_failing_reader_costs_its_own_columns(monkeypatch):
    """A reader that fails leaves its columns None with the failure as the reason; the others go on."""

    def hidden():
        raise PermissionError(13, "Permission denied", "/proc/meminfo")

    monkeypatch.setattr(psutil, "virtual_memory", hidden)
    host = Host()
    row = host.sample(1.0)

    assert row["memory_used_bytes"] is None
    assert row["load1"] is not None
    assert host.not_measured()["memory_used_bytes"].startswith("PermissionError")


def test_a_disk_that_comes_later_makes_no_spike(tree, monkeypatch):
    """A disk plugged in with terabytes on its counter does not count them as this second's traffic."""
    disk = type("Disk", (), {"read_bytes": 0, "write_bytes": 0})
    late = type("Late", (), {"read_bytes": 10**13, "write_bytes": 10**13})
    for name in ("sda", "sdb"):
        (tree / "sys" / "block" / name / "device").mkdir(parents=True)
    host = Host(tree / "proc", tree / "sys")
    rates = []
    for disks in ({"sda": disk}, {"sda": disk, "sdb": late}, {"sda": disk, "sdb": late}):
        monkeypatch.setattr(psutil, "disk_io_counters", lambda perdisk, disks=disks: disks)
        rates.append(host.sample(float(len(rates)))["disk_read_bytes_per_s"])

    assert physical(tree / "sys" / "block")
    assert rates == [None, 0.0, 0.0]


def limited(tree, limit, periods=0, throttled=0):
    """The tree of a kernel with version 2 of control groups, in which this process has the quota ``limit``."""
    for name, text in {
        "proc/self/mounts": f"cgroup2 {tree}/v2 cgroup2 rw 0 0\n",
        f"proc/{os.getpid()}/cgroup": "0::/pod\n",
        "v2/pod/cpu.max": f"{limit} 100000\n",
        "v2/pod/cpu.stat": f"nr_periods {periods}\nnr_throttled {throttled}\n",
    }.items():
        (tree / name).parent.mkdir(parents=True, exist_ok=True)
        (tree / name).write_text(text)


def test_the_quota_of_the_collectors_own_group_is_read_with_how_often_it_was_used_up(tree):
    """Of the periods since the row before: the first has none, and says why."""
    host = Host(tree / "proc", tree / "sys")
    rows = []
    for second, (periods, throttled) in enumerate(((100, 10), (200, 48), (200, 48))):
        limited(tree, 400_000, periods, throttled)
        row = host.sample(float(second))
        why = host.not_measured().get("cpu_throttled_ratio")
        rows.append((row["cpu_quota_count"], row["cpu_throttled_ratio"], why))

    assert [(quota, ratio) for quota, ratio, _ in rows] == [(4.0, None), (4.0, 0.38), (4.0, 0.0)]
    assert "two samples" in rows[0][2]
    assert [why for _, _, why in rows[1:]] == [None, None]


def test_no_quota_is_not_measured_and_one_that_comes_counts_from_then_on(tree):
    """`docker update --cpus` while it runs."""
    host = Host(tree / "proc", tree / "sys")
    limited(tree, "max", 100, 10)
    row = host.sample(1.0)
    assert (row["cpu_quota_count"], row["cpu_throttled_ratio"]) == (None, None)
    assert "quota" in host.not_measured()["cpu_quota_count"]

    limited(tree, 50_000, 500, 400)
    assert host.sample(2.0)["cpu_throttled_ratio"] is None
    limited(tree, 50_000, 510, 405)
    row = host.sample(3.0)
    assert (row["cpu_quota_count"], row["cpu_throttled_ratio"]) == (0.5, 0.5)


@pytest.mark.slow
def test_a_collector_that_shares_its_group_with_others_tells_of_the_kernels_quota(until):
    """`paceline collect` and a process that wants a whole processor, in a group that may use half of one."""
    folder = Path("/sys/fs/cgroup/cpu") / f"paceline-host-{os.getpid()}"
    try:
        folder.mkdir()
        (folder / "cpu.cfs_period_us").write_text("10000")
        (folder / "cpu.cfs_quota_us").write_text("5000")
    except OSError as error:
        pytest.skip(f"no control group can be made here: {error}")
    collect = [sys.executable, "-m", "collectors", "--stdout", "--interval", "0.2"]
    busy = subprocess.Popen([sys.executable, "-c", "while True: pass"])
    collector = subprocess.Popen(collect, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL)
    try:
        for process in (busy, collector):
            (folder / "tasks").write_text(str(process.pid))
        quotas, ratios = set(), []
        for line in collector.stdout:
            value = json.loads(line)["value"]
            quotas |= set(value.get("cpu_quota_count", []))
            ratios += [ratio for ratio in value.get("cpu_throttled_ratio", []) if ratio]
            if ratios:
                break
        assert 0.5 in quotas
        assert 0.0 < ratios[0] <= 1.0
    finally:
        for process in (collector, busy):
            process.kill()
            process.wait()
        collector.stdout.close()
        until(lambda: not (folder / "tasks").read_text().strip())
        folder.rmdir()


def test_what_two_names_carry_together_counts_once(tree, monkeypatch):
    """A card and its virtual function, and an NVMe disk with its path, count the same bytes."""
    for name in ("class/net/eth0", "class/net/enP1s1", "block/nvme0n1", "block/nvme0c0n1"):
        (tree / "sys" / name / "device").mkdir(parents=True, exist_ok=True)
    (tree / "sys/class/net/enP1s1/master").symlink_to("../eth0")
    host, rows = Host(tree / "proc", tree / "sys"), []
    for now_s in (1.0, 2.0):
        counters = SimpleNamespace(
            bytes_recv=500 * now_s, bytes_sent=500 * now_s, read_bytes=500 * now_s, write_bytes=500 * now_s
        )
        both = dict.fromkeys(("eth0", "enP1s1", "nvme0n1", "nvme0c0n1"), counters)
        monkeypatch.setattr(psutil, "net_io_counters", lambda pernic, both=both: both)
        monkeypatch.setattr(psutil, "disk_io_counters", lambda perdisk, both=both: both)
        rows.append(host.sample(now_s))

    assert (rows[1]["network_rx_bytes_per_s"], rows[1]["disk_read_bytes_per_s"]) == (500.0, 500.0)
