"""How much waits in spools on disk, told from outside while others write them.

Rule of this file: it only reads. What the owner of a spool takes away meanwhile is no error.
"""

from pathlib import Path
from typing import NamedTuple

from paceline.delivery.segment import scan
from paceline.delivery.spool import SUFFIX, SpoolError


class Depth(NamedTuple):
    """What waits below a folder, and since when (Unix time of the oldest segment; None where nothing does).

    ``messages`` may count up to a segment's worth that is delivered already: only the owner knows how far it is.
    """

    messages: int
    bytes: int
    oldest_s: float | None


def depth(folder: Path) -> Depth:
    """What waits in the spools in ``folder`` and below it.

    Raises:
        SpoolError: it cannot be read, with the reason on one line.
    """
    messages = size = 0
    oldest_s: float | None = None
    try:
        for path in sorted(folder.rglob(f"*{SUFFIX}")):
            try:
                data, written_s = path.read_bytes(), path.stat().st_mtime
            except FileNotFoundError:
                continue
            waiting = len(scan(data).records)
            if waiting:
                messages, size = messages + waiting, size + len(data)
                oldest_s = written_s if oldest_s is None else min(oldest_s, written_s)
    except OSError as error:
        raise SpoolError(f"spool {folder}: {error.strerror or error}") from error
    return Depth(messages, size, oldest_s)
