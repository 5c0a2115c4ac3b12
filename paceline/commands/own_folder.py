"""A folder of one command's own, for the sockets that ranks connect to.

Rule of this file: a place that takes a folder, a lock and a socket is enough; nothing is written to try it, for a full
disk takes these. Some file systems of clusters take folders, and no locks or no sockets.
"""

import fcntl
import os
import shutil
import socket
import tempfile
from collections.abc import Mapping

from paceline.training.socket_path import short_path


def own_folder(environ: Mapping[str, str]) -> str:
    """A new folder that is ours alone, in the first place that takes one.

    Raises:
        OSError: none does; of what is tried first.
    """
    named = [environ.get(name, "") for name in ("TMPDIR", "TEMP", "TMP")]
    refused: list[OSError] = []
    for place in filter(None, [*named, "/tmp", "/var/tmp", environ.get("XDG_RUNTIME_DIR", ""), "/dev/shm"]):  # noqa: S108
        try:
            return _made(place)
        except OSError as error:
            refused.append(error)
    raise refused[0]


def _made(place: str) -> str:
    folder = tempfile.mkdtemp(prefix="paceline-", dir=os.path.abspath(place))
    try:
        _try_out(folder)
    except BaseException:
        shutil.rmtree(folder, ignore_errors=True)
        raise
    return folder


def _try_out(folder: str) -> None:
    """Do in ``folder`` what a sidecar will do there, and leave nothing.

    Raises:
        OSError: its file system has no locks, or no sockets.
    """
    name = os.path.join(folder, "tried")
    lock = os.open(name, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
    try:
        fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
    finally:
        os.close(lock)
    os.unlink(name)
    with socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET) as listener, short_path(name) as short:
        listener.bind(short)
    os.unlink(name)
