"""What this node's network interfaces are rated at: the speed of the link that a connection leaves by.

Rule of this file: readers with the kernel's folders as arguments. What the kernel does not tell is None. Loopback has
no speed, and the speed of a purely virtual interface is made up, so only hardware and bonds of it count.
"""

import fcntl
import ipaddress
import socket
import struct
from pathlib import Path

_SIOCGIFADDR = 0x8915
_REQUEST = struct.Struct("256s")
_ADDRESS = slice(20, 24)
_BYTES_PER_S = 1e6 / 8


class Interfaces:
    """The interfaces of this node, looked up by the address that they have."""

    def __init__(self, net: Path = Path("/sys/class/net"), ipv6: Path = Path("/proc/net/if_inet6")) -> None:
        self._net = net
        self._ipv6 = ipv6
        self._speeds: dict[str, float | None] = {}

    def rated_bytes_per_s(self, address: str) -> float | None:
        """Bytes a second, one way, of the interface with ``address``; None where that is not known."""
        if address not in self._speeds:
            self._speeds = {own: self._speed(name) for name, own in self._addresses()}
            self._speeds.setdefault(address, None)
        return self._speeds[address]

    def _addresses(self) -> list[tuple[str, str]]:
        """Name and address of every interface."""
        names = [name for _, name in socket.if_nameindex()]
        addresses = [(name, address) for name in names if (address := _ipv4(name)) is not None]
        try:
            lines = self._ipv6.read_text().splitlines()
        except OSError:
            return addresses
        words = [line.split() for line in lines]
        return addresses + [
            (line[-1], str(ipaddress.IPv6Address(int(line[0], 16)))) for line in words if len(line) == 6
        ]

    def _speed(self, name: str) -> float | None:
        if not any((self._net / name / folder).exists() for folder in ("device", "bonding")):
            return None
        try:
            megabits = int((self._net / name / "speed").read_text())
        except (OSError, ValueError):
            return None
        return megabits * _BYTES_PER_S if megabits > 0 else None


def _ipv4(name: str) -> str | None:
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as asked:
        try:
            answer = fcntl.ioctl(asked.fileno(), _SIOCGIFADDR, _REQUEST.pack(name.encode()[:15]))
        except OSError:
            return None  # it has no address
    return socket.inet_ntoa(answer[_ADDRESS])
