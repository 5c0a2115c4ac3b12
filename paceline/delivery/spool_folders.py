"""Which folder on this node a sidecar spools to.

Rule of this file: a spool lies on a disk of this node, in a folder of this user alone, and has one owner at a time. A
sidecar that is started again in the place of one that died finds the same folder, and goes on where that one was.
"""

import fcntl
import hashlib
import os
import secrets
from collections.abc import Mapping
from pathlib import Path

from paceline.delivery.spool import LOCK, Spool, SpoolError
from paceline.settings import SPOOL_BYTES, SPOOL_DIR

#: On disk, on this node, and still there after a restart, which /tmp and a home on the network need not be.
DEFAULT_ROOT = "/var/tmp"  # noqa: S108 - in it a folder of this user alone
#: Said in place of a folder: no spool.
NO_SPOOL = "none"


def spool_place(environ: Mapping[str, str]) -> Path | None:
    """Where the spools of this user on this node are, or would be; None where there are to be none."""
    named = SPOOL_DIR.read(environ)
    if named == NO_SPOOL:
        return None
    return Path(named).absolute() if named else Path(DEFAULT_ROOT) / f"paceline-{os.getuid()}"


def spool_root(environ: Mapping[str, str]) -> Path | None:
    """The folder that holds the spools of this user on this node, made if need be; None where there is to be none.

    Raises:
        SpoolError: it cannot be made, or is not this user's alone.
    """
    root = spool_place(environ)
    if root is None:
        return None
    uid = os.getuid()
    try:
        root.mkdir(mode=0o700, parents=True, exist_ok=True)
        status = root.lstat()
    except OSError as error:
        raise SpoolError(f"spool {root}: {error.strerror}") from error
    # The mode of a link itself is 777: one that somebody planted is refused by it.
    if not SPOOL_DIR.read(environ) and (status.st_uid != uid or status.st_mode & 0o077):
        raise SpoolError(f"spool {root}: must be a folder of yours alone (mode 700)")
    return root


def own_folder(root: Path, node: str, socket: Path) -> Path:
    """The folder of the sidecar that listens at ``socket`` on ``node``; another one while somebody empties that."""
    name = hashlib.sha256(f"{node}:{socket.absolute()}".encode()).hexdigest()[:16]
    folder = root / name
    return root / f"{name}-{secrets.token_hex(3)}" if in_use(folder) else folder


def remove_empty(folder: Path) -> None:
    """Take ``folder`` away where no message waits in it and nobody owns it."""
    try:
        if folder.is_dir():
            Spool(folder, SPOOL_BYTES.default).remove()
    except SpoolError:
        return


def in_use(folder: Path) -> bool:
    """Whether a process owns the spool in ``folder``."""
    try:
        lock = os.open(folder / LOCK, os.O_RDWR | os.O_NOFOLLOW | os.O_CLOEXEC)
    except OSError:
        return False
    try:
        fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except OSError:
        return True
    finally:
        os.close(lock)
    return False
