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
