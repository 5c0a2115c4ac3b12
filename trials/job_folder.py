"""What a job left in its folder: the documents of its nodes, and the last lines of its output.

Rule of this file: reading alone, and bounded; what is damaged, too long or no file is left out. The folder may lie on
another machine's disk: what was written there a moment ago may not be seen yet, and whoever reads asks again.
"""

import os
import stat
from pathlib import Path

from .executor import RESULT_FILES

#: Bytes of one document, and of the end of an output; its lines.
MOST_RESULT, MOST_OUTPUT, MOST_LINES = 1024 * 1024, 16 * 1024, 20


def results(folder: Path, most: int) -> tuple[bytes, ...]:
    """The documents of at most ``most`` nodes."""
    try:
        found = sorted(folder.glob(RESULT_FILES))
    except OSError:
        return ()
    read = (_whole(path) for path in found[: most * 2])
    return tuple(one for one in read if one)[:most]


def _whole(path: Path) -> bytes:
    """A regular file's bytes; b"" where it is none, is longer than allowed, or cannot be read."""
    try:
        with os.fdopen(os.open(path, os.O_RDONLY | os.O_NONBLOCK | os.O_NOFOLLOW), "rb") as file:
            if not stat.S_ISREG(os.fstat(file.fileno()).st_mode):
                return b""
            content = file.read(MOST_RESULT + 1)
    except OSError:
        return b""
    return content if len(content) <= MOST_RESULT else b""


def last_lines(path: Path) -> str:
    """The end of an output, "" where there is none."""
    try:
        with path.open("rb") as file:
            file.seek(max(0, file.seek(0, os.SEEK_END) - MOST_OUTPUT))
            return shown(file.read(MOST_OUTPUT))
    except OSError:
        return ""


def shown(output: bytes) -> str:
    """The last lines of an output, without what a terminal would obey.

    >>> shown(b"one\\r\\n\\xfftwo\\x1b[2J\\n")
    'one\\n\ufffdtwo [2J'
    """
    lines = output.decode(errors="replace").splitlines()[-MOST_LINES:]
    clean = ("".join(one if one.isprintable() else " " for one in line).rstrip() for line in lines)
    return "\n".join(clean).strip()


def cleared(folder: Path, *names: str) -> None:
    """Remove what an earlier start of the job left, which would be taken for this one's."""
    for path in (*folder.glob(RESULT_FILES), *(folder / name for name in names)):
        path.unlink(missing_ok=True)
