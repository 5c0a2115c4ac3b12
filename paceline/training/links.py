"""Links: what the kernel knows of this process's TCP connections to other ranks.

Rule of this file: it reads descriptors that belong to others, so it works on duplicates and closes only those. The
connection to the rendezvous store is no link between ranks and is left out where its port is known.
"""

import os
import socket
import stat
import struct
from collections.abc import Collection

#: Offsets into Linux's ``struct tcp_info``: 8 bytes of flags, then 32-bit fields.
_FIELDS = struct.Struct("=8x24I")
_RTT = 15
_RETRANSMITS = 23
_ESTABLISHED = 1


class Links:
    """Samples the connections of this process. ``ports`` are those of the store."""

    def __init__(self, ports: Collection[int]) -> None:
        self._ports = frozenset(ports)

    def sample(self) -> tuple[int, float, int] | None:
        """Connections, smallest smoothed round trip in seconds, retransmits; None where there is no connection."""
        if socket.getdefaulttimeout() is not None:
            return None  # Python would make the duplicate, and so the script's own socket, non-blocking.
        found = [link for link in map(self._read, _descriptors()) if link is not None]
        if not found:
            return None
        return len(found), min(rtt for rtt, _ in found) / 1e6, sum(retransmits for _, retransmits in found)

    def _read(self, descriptor: int) -> tuple[int, int] | None:
        """Round trip in microseconds and retransmits of one connection."""
        try:
            if not stat.S_ISSOCK(os.fstat(descriptor).st_mode):
                return None
            with socket.socket(fileno=os.dup(descriptor)) as link:
                if link.family not in (socket.AF_INET, socket.AF_INET6) or link.type != socket.SOCK_STREAM:
                    return None
                if {link.getpeername()[1], link.getsockname()[1]} & self._ports:
                    return None
                data = link.getsockopt(socket.IPPROTO_TCP, socket.TCP_INFO, 104)
        except OSError:
            return None
        if len(data) < 104 or data[0] != _ESTABLISHED:
            return None
        fields = _FIELDS.unpack(data[:104])
        return fields[_RTT], fields[_RETRANSMITS]


def _descriptors() -> list[int]:
    try:
        return [int(name) for name in os.listdir("/proc/self/fd")]
    except OSError:
        return []
