"""Ports of this machine for services that are started later, and that two commands started at once do not both choose.

Rule of this file: a port is found free by binding it, which says nothing of a program that is about to listen there; so
who chooses one holds a name for it that only one process can hold. Such names exist on Linux, are seen wherever the
port is, and end with their process; elsewhere what listens first has the port, and the other command says so.
"""

import errno
import socket
import sys

NAME = "\0paceline-port-{}"


def free_port(wanted: int) -> int:
    """``wanted`` if nothing listens there on loopback, else any free port."""
    with socket.socket() as probe:
        probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            probe.bind(("127.0.0.1", wanted))
        except (OSError, OverflowError):
            return free_port(0)
        return int(probe.getsockname()[1])


class PortClaims:
    """The ports that one command has chosen for its services, until it is closed."""

    def __init__(self) -> None:
        self._names: list[socket.socket] = []

    def claim(self, wanted: int) -> int:
        """``wanted`` if nothing listens there and no other command has chosen it, else any free port."""
        port = free_port(wanted)
        while not self._hold(port):
            port = free_port(0)
        return port

    def _hold(self, port: int) -> bool:
        if sys.platform != "linux":
            return True
        try:
            name = socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM)
        except OSError:
            return True  # Not to be had here: the port is as good as chosen.
        try:
            name.bind(NAME.format(port))
        except OSError as error:
            name.close()
            return error.errno != errno.EADDRINUSE
        self._names.append(name)
        return True

    def close(self) -> None:
        """Others may choose them."""
        for name in self._names:
            name.close()
        self._names.clear()
