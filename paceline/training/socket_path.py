"""A name for a Unix socket that its address has room for, however long the path of its folder is.

Rule of this file: the standard library alone; it runs in the user's process. A long path is gone through the folder's
descriptor, which Linux gives a short name; there are no abstract sockets, which anybody on the machine may connect to.
"""

from __future__ import annotations

import errno
import os
import sys
from collections.abc import Iterator
from contextlib import contextmanager

#: The bytes of a path in a socket's address, without the one that ends it.
MOST = 107 if sys.platform == "linux" else 103


@contextmanager
def short_path(path: str, descriptors: str = "/proc/self/fd") -> Iterator[str]:
    """``path``, or another name of the same place that a socket takes, inside the ``with``.

    Raises:
        OSError: there is no such folder, or the path is too long and nothing else can be done.
    """
    if len(os.fsencode(path)) <= MOST:
        yield path
        return
    folder, name = os.path.split(path)
    descriptor = os.open(folder, getattr(os, "O_PATH", os.O_RDONLY) | os.O_DIRECTORY | os.O_CLOEXEC)
    try:
        short = f"{descriptors}/{descriptor}/{name}"
        if not os.path.isdir(os.path.dirname(short)) or len(os.fsencode(short)) > MOST:
            size = len(os.fsencode(path))
            words = f"the path has {size} bytes, and a socket takes {MOST}: set TMPDIR to a shorter folder"
            raise OSError(errno.ENAMETOOLONG, words)
        yield short
    finally:
        os.close(descriptor)
