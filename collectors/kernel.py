"""What the kernel tells in small text files: TCP retransmits, InfiniBand and network-card errors.

Rule of this file: readers with the folder as an argument. A file that is missing or says something else is None or an
empty result, never 0. Everything under /sys/class is re-listed each time: interfaces come and go.
"""

import re
from pathlib import Path

from paceline.events import NetworkErrors

#: Counters of a network card that grow when something is wrong.
NIC_COUNTERS = (
    *("rx_errors", "tx_errors", "rx_dropped", "tx_dropped", "rx_crc_errors", "rx_missed_errors", "rx_fifo_errors"),
    "tx_carrier_errors",
)
#: The same of an InfiniBand or RoCE port: the port's own, and the ones that NVIDIA's driver adds beside them.
PORT_COUNTERS = (
    *("symbol_error", "link_error_recovery", "link_downed", "port_rcv_errors", "port_rcv_remote_physical_errors"),
    *("port_xmit_discards", "port_rcv_switch_relay_errors", "port_xmit_constraint_errors"),
    *("port_rcv_constraint_errors", "local_link_integrity_errors", "excessive_buffer_overrun_errors"),
    *("VL15_dropped", "port_xmit_wait"),
)
DRIVER_COUNTERS = (
    *("out_of_sequence", "packet_seq_err", "local_ack_timeout_err", "rnr_nak_retry_err", "duplicate_request"),
    *("out_of_buffer", "np_cnp_sent", "rp_cnp_handled", "roce_slow_restart", "req_transport_retries_exceeded"),
)
#: A path to an NVMe disk; the kernel joins the paths into one disk, their head, whose name has no ``c`` part.
_NVME_PATH = re.compile(r"(nvme\d+)c\d+(n\d+)")


def tcp_retransmits(path: Path) -> int | None:
    """Segments sent again since boot, from /proc/net/snmp: a line of names, then a line of numbers."""
    try:
        lines = [line.split() for line in path.read_text().splitlines() if line.startswith("Tcp:")]
    except OSError:
        return None
    if len(lines) != 2 or len(lines[0]) != len(lines[1]):
        return None
    raw = dict(zip(*lines, strict=True)).get("RetransSegs", "")
    return int(raw) if raw.isdigit() else None


def counter(path: Path) -> int | None:
    """The number in a file of /sys; a port that is down may refuse to be read."""
    try:
        raw = path.read_text().strip()
    except OSError:
        return None
    return int(raw) if raw.isascii() and raw.isdigit() else None


def physical(folder: Path) -> list[str]:
    """The entries of a /sys/class folder that stand for hardware: bridges, bonds, loop devices and the like do not.

    Where none does (in a container), all but the loopback: the container's own view.
    """
    names = entries(folder)
    real = [name for name in names if (folder / name / "device").exists()]
    return real or [name for name in names if name != "lo" and not name.startswith(("ifb", "loop", "ram", "zram"))]


def cards(sys: Path) -> list[str]:
    """The network cards whose traffic may be added up.

    Not those below another card that counts theirs as its own, as Azure's virtual functions; a bond is no card.
    """
    folder = sys / "class" / "net"
    return [name for name in physical(folder) if not (folder / name / "master" / "device").exists()]


def disks(sys: Path) -> list[str]:
    """The disks whose traffic may be added up: the paths of an NVMe disk, not its head, which counts them."""
    names = physical(sys / "block")
    heads = {"".join(path.groups()) for name in names if (path := _NVME_PATH.fullmatch(name))}
    return [name for name in names if name not in heads]


def entries(folder: Path) -> list[str]:
    """The names in ``folder``, sorted; none where it is missing."""
    try:
        return sorted(path.name for path in folder.iterdir())
    except OSError:
        return []


def network_errors(sys: Path) -> list[NetworkErrors]:
    """Error counters of every network card and InfiniBand port."""
    network, infiniband = sys / "class" / "net", sys / "class" / "infiniband"
    interfaces = [
        NetworkErrors(interface=name, kind="ethernet", counters=_counters(network / name / "statistics", NIC_COUNTERS))
        for name in physical(network)
    ]
    for card in entries(infiniband):
        for port in entries(infiniband / card / "ports"):
            folder = infiniband / card / "ports" / port
            counters = _counters(folder / "counters", PORT_COUNTERS) | _counters(
                folder / "hw_counters", DRIVER_COUNTERS
            )
            interfaces.append(NetworkErrors(interface=f"{card}/{port}", kind="infiniband", counters=counters))
    return [errors for errors in interfaces if errors.counters]


def _counters(folder: Path, names: tuple[str, ...]) -> dict[str, int]:
    read = ((name, counter(folder / name)) for name in names)
    return {name: value for name, value in read if value is not None}
