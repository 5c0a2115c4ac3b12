"""The socket at which the ranks of a node connect: one sidecar listens at a path at a time.

Rule of this file: the kernel's side of a connection, and nothing of what is said on it.
"""

import contextlib
import fcntl
import os
import socket
import struct
from pathlib import Path

from paceline.training.socket_path import short_path


def peer_of(connection: socket.socket) -> int:
    """The process at the other end, as the kernel knows it."""
    credentials = connection.getsockopt(socket.SOL_SOCKET, socket.SO_PEERCRED, struct.calcsize("3i"))
    return max(int(struct.unpack("3i", credentials)[0]), 0)


def sent(connection: socket.socket, data: bytes) -> bool:
    """Whether a rank was told; one that has gone, or does not listen, is waited for by nobody."""
    with contextlib.suppress(OSError):
        connection.send(data)
        return True
    return False


def lock_of(path: Path) -> Path:
    """The lock of the sidecar at ``path``, which removes it in the end."""
    return Path(f"{path}.lock")


def _locked(path: Path) -> bool:
    """Hold the lock ``path`` until this process ends, whatever ends it; False where another sidecar does."""
    while True:
        lock = os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
        try:
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            os.close(lock)
            return False
        with contextlib.suppress(FileNotFoundError):
            if os.path.samestat(path.stat(), os.fstat(lock)):
                return True
        os.close(lock)  # One that has just ended has removed it.


def listen(path: Path) -> socket.socket | None:
    """The listening socket at ``path`` in a folder of our own; None where another sidecar already listens there."""
    path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
    if not _locked(lock_of(path)):
        return None
    # The path appears once it can be connected to: whoever waits for it must not come between bind and listen.
    unready = Path(f"{path}~")
    unready.unlink(missing_ok=True)
    listener = socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET | socket.SOCK_NONBLOCK)
    with short_path(str(unready)) as short:
        listener.bind(short)
    listener.listen(512)
    unready.rename(path)
    return listener
