import pytest

from collectors import kernel


def put(root, path, text):
    target = root / path
    target.parent.mkdir(parents=True, exist_ok=True)
    target.write_text(text)


def test_retransmits_are_found_by_name(tmp_path):
    """The column of /proc/net/snmp is found by its heading, wherever it stands."""
    put(tmp_path, "snmp", "Ip: A B\nIp: 1 2\nTcp: MaxConn RetransSegs InErrs\nTcp: -1 42 7\nUdp: A\nUdp: 1\n")

    assert kernel.tcp_retransmits(tmp_path / "snmp") == 42


@pytest.mark.parametrize("text", ["", "Tcp: A RetransSegs\n", "Tcp: RetransSegs\nTcp: 1 2\n", "Tcp: A\nTcp: 1\n"])
def test_odd_snmp_is_no_value(tmp_path, text):
    """A truncated or foreign file is no value."""
    put(tmp_path, "snmp", text)

    assert kernel.tcp_retransmits(tmp_path / "snmp") is None


def test_only_hardware_counts_as_an_interface(tmp_path):
    """Bridges, bonds and loopback have no device behind them and would count traffic twice."""
    for name in ("eth0/device", "bond0", "docker0", "lo"):
        (tmp_path / name).mkdir(parents=True)

    assert kernel.physical(tmp_path) == ["eth0"]


def test_a_container_sees_its_own_interface(tmp_path):
    """Where nothing has hardware behind it, all but loopback counts."""
    for name in ("eth0", "lo"):
        (tmp_path / name).mkdir()

    assert kernel.physical(tmp_path) == ["eth0"]


def test_a_card_below_another_is_in_the_others_traffic(tmp_path):
    """Azure's eth0 counts what its virtual function carries; a bond is no card, so those below it count."""
    net = tmp_path / "class/net"
    for name in ("eth0/device", "enP1s1/device", "eth2/device", "eth3/device", "bond0"):
        (net / name).mkdir(parents=True)
    for name, master in (("enP1s1", "eth0"), ("eth2", "bond0"), ("eth3", "bond0")):
        (net / name / "master").symlink_to(f"../{master}")

    assert kernel.cards(tmp_path) == ["eth0", "eth2", "eth3"]


def test_errors_of_a_card_below_another_are_its_own(tmp_path):
    """The card above adds up the traffic of the one below, not its errors."""
    for name in ("eth0", "enP1s1"):
        (tmp_path / "class/net" / name / "device").mkdir(parents=True)
        put(tmp_path, f"class/net/{name}/statistics/rx_crc_errors", "3\n")
    (tmp_path / "class/net/enP1s1/master").symlink_to("../eth0")

    assert [errors.interface for errors in kernel.network_errors(tmp_path)] == ["enP1s1", "eth0"]


def test_an_nvme_disk_counts_by_its_paths(tmp_path):
    """The head of several paths has their traffic once more; a disk without paths counts itself."""
    for name in ("nvme0n1", "nvme0c0n1", "nvme0c1n1", "nvme0n2", "nvme1n1", "sda"):
        (tmp_path / "block" / name / "device").mkdir(parents=True)

    assert kernel.disks(tmp_path) == ["nvme0c0n1", "nvme0c1n1", "nvme0n2", "nvme1n1", "sda"]


def test_errors_of_cards_and_infiniband_ports(tmp_path):
    """Network cards and each InfiniBand port give the counters that they have, and no others."""
    (tmp_path / "class/net/eth0/device").mkdir(parents=True)
    put(tmp_path, "class/net/eth0/statistics/rx_errors", "3\n")
    put(tmp_path, "class/net/eth0/statistics/rx_bytes", "999\n")
    put(tmp_path, "class/infiniband/mlx5_0/ports/1/counters/symbol_error", "5\n")
    put(tmp_path, "class/infiniband/mlx5_0/ports/1/hw_counters/out_of_sequence", "7\n")
    put(tmp_path, "class/infiniband/mlx5_0/ports/2/counters/link_downed", "1\n")

    found = {(errors.interface, errors.kind): errors.counters for errors in kernel.network_errors(tmp_path)}

    assert found == {
        ("eth0", "ethernet"): {"rx_errors": 3},
        ("mlx5_0/1", "infiniband"): {"symbol_error": 5, "out_of_sequence": 7},
        ("mlx5_0/2", "infiniband"): {"link_downed": 1},
    }


def test_an_unreadable_counter_is_left_out(tmp_path):
    """A counter that says "N/A (no PMA)", as ports without counters do, is left out and not 0."""
    put(tmp_path, "class/infiniband/mlx4_0/ports/1/counters/symbol_error", "N/A (no PMA)\n")
    put(tmp_path, "class/infiniband/mlx4_0/ports/1/counters/link_downed", "2\n")

    assert [errors.counters for errors in kernel.network_errors(tmp_path)] == [{"link_downed": 2}]


def test_a_machine_without_sys_has_no_interfaces(tmp_path):
    """A missing /sys is an empty list."""
    assert kernel.network_errors(tmp_path / "nothing") == []
