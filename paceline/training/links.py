"""Links: what the kernel knows of this process's TCP connections to other ranks.

Rule of this file: it reads descriptors that belong to others, so it closes none and keeps none open. It runs beside
training and gives the interpreter's lock away as seldom as it can, for each time costs the training thread a wake-up:
the descriptors are listed now and then, and asking the kernel about one of them gives nothing away. The connection to
the rendezvous store is no link between ranks and is left out where its port is known.
"""

from __future__ import annotations

import os
import socket
import stat
import struct
from collections.abc import Collection
from typing import NamedTuple

from paceline.training.messages import LinkReport, Peer

#: Offsets into Linux's ``struct tcp_info``: 8 bytes of flags, then 32-bit fields; the data segments in and out, which
#: kernels before 4.6 do not have, lie further back.
_FIELDS = struct.Struct("=8x24I")
_SEGMENTS = struct.Struct("=152x2I")
_RTT = 15
_RETRANSMITS = 23
_ESTABLISHED = 1

#: A connection with fewer new segments than these has carried no data worth telling: its round trip is an old one.
BUSY_SEGMENTS = 4
#: Most connections of one rank that are told one by one, the busiest first.
MOST_PEERS = 64
#: Samples between two looks for new connections.
LIST_EVERY = 10


class _Connection(NamedTuple):
    """One connection: its ends, round trip in microseconds, and counts since it was made."""

    local: str
    remote: str
    rtt_us: int
    retransmits: int
    received: int
    sent: int


class TcpLinks:
    """Samples the connections of this process. ``ports`` are those of the store."""

    def __init__(self, ports: Collection[int]) -> None:
        self._ports = frozenset(ports)
        self._before: dict[tuple[str, str], tuple[int, int]] = {}
        self._sockets: list[int] = []
        self._samples = 0

    def sample(self) -> LinkReport | None:
        """The connections, and those that carried data since the last sample; None where there is no connection."""
        if socket.getdefaulttimeout() is not None:
            return None  # Python would make the script's own socket non-blocking.
        if not self._before or self._samples % LIST_EVERY == 0:
            self._sockets = _sockets()
        self._samples += 1
        links = [link for link in map(self._read, self._sockets) if link is not None]
        peers = self._busy(links)
        if not links:
            return None
        smallest = min(link.rtt_us for link in links) / 1e6
        return LinkReport(len(links), smallest, sum(link.retransmits for link in links), peers)

    def _busy(self, links: list[_Connection]) -> list[Peer]:
        before, self._before = self._before, {(c.local, c.remote): (c.received, c.sent) for c in links}
        busy = []
        for link in links:
            if (link.local, link.remote) not in before:
                continue
            received, sent = before[link.local, link.remote]
            new, mine = link.received - received, link.sent - sent
            if max(new, mine) >= BUSY_SEGMENTS:
                # Only who sends measures the round trip; the receiver's tells that this end is its own.
                rtt_s = link.rtt_us / 1e6 if mine >= BUSY_SEGMENTS else None
                busy.append((new + mine, Peer(local=link.local, remote=link.remote, rtt_s=rtt_s)))
        busy.sort(key=lambda pair: -pair[0])
        return [peer for _, peer in busy[:MOST_PEERS]]

    def _read(self, descriptor: int) -> _Connection | None:
        try:
            link = socket.socket(fileno=descriptor)
        except OSError:
            return None  # closed meanwhile
        try:
            if link.family not in (socket.AF_INET, socket.AF_INET6) or link.type != socket.SOCK_STREAM:
                return None
            near, far = link.getsockname(), link.getpeername()
            if {near[1], far[1]} & self._ports:
                return None
            data = link.getsockopt(socket.IPPROTO_TCP, socket.TCP_INFO, _SEGMENTS.size)
        except OSError:
            return None
        finally:
            link.detach()  # the descriptor is the script's
        if len(data) < _FIELDS.size or data[0] != _ESTABLISHED:
            return None
        fields = _FIELDS.unpack_from(data)
        received, sent = _SEGMENTS.unpack_from(data) if len(data) >= _SEGMENTS.size else (0, 0)
        return _Connection(_endpoint(near), _endpoint(far), fields[_RTT], fields[_RETRANSMITS], received, sent)


def _endpoint(address: tuple[str, int]) -> str:
    """``ip:port``, written the same at both ends: one may see an IPv4 address as an IPv6 one."""
    return f"{address[0].split('%')[0].removeprefix('::ffff:')}:{address[1]}"


def _sockets() -> list[int]:
    try:
        descriptors = [int(name) for name in os.listdir("/proc/self/fd")]
    except OSError:
        return []
    return [descriptor for descriptor in descriptors if _is_socket(descriptor)]


def _is_socket(descriptor: int) -> bool:
    try:
        return stat.S_ISSOCK(os.fstat(descriptor).st_mode)
    except OSError:
        return False
