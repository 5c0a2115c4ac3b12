"""What a recorder that was killed left behind, made whole: a segment cut off in the middle keeps all that can be read.

Rule of this file: a message that is on disk stays there. The cut segment is written anew beside the old one, and takes
its place only when it is complete.
"""

import gzip
import hashlib
import os
from collections.abc import Callable
from pathlib import Path
from typing import NamedTuple

from paceline.recording import Bad

from .manifest import Manifest, Segment
from .segments import Stored, stored_lines, summed

#: Lines that are remembered to know repeats, more than a segment holds: 100 MB. A repeat of one beyond them is kept.
MOST_REMEMBERED = 1_000_000
_PATTERN = "segment-*.jsonl.gz"


class Repaired(NamedTuple):
    """Segments that the manifest did not know, and what was cut off in them."""

    segments: list[Segment]
    damage: list[str]


def unlisted(folder: Path, manifest: Manifest) -> list[Path]:
    """The segments of which the manifest does not tell, oldest first."""
    listed = {segment.file for segment in manifest.segments}
    return sorted(path for path in folder.glob(_PATTERN) if path.name not in listed)


def next_number(folder: Path) -> int:
    """The number of the segment to be written next."""
    numbers = [int(path.name.removeprefix("segment-").partition(".")[0]) for path in folder.glob(_PATTERN)]
    return max(numbers, default=0) + 1


def repair(folder: Path, manifest: Manifest, on_message: Callable[[Stored], None]) -> Repaired:
    """Make complete segments of those that the manifest does not know, and tell ``on_message`` what they hold.

    Raises:
        OSError: the disk is full or gone.
    """
    found: list[Segment] = []
    damage: list[str] = []
    written: set[bytes] = set()
    for path in unlisted(folder, manifest):
        segment = _rewritten(path, written, on_message, damage)
        if segment is not None:
            found.append(segment)
    return Repaired(found, damage)


def _rewritten(
    path: Path, written: set[bytes], on_message: Callable[[Stored], None], damage: list[str]
) -> Segment | None:
    temporary = path.with_name(f".{path.name}.new")
    messages = first_ms = last_ms = 0
    with gzip.GzipFile(filename=temporary, mode="wb", compresslevel=3, mtime=0) as whole:
        for stored in stored_lines(path):
            if isinstance(stored, Bad):
                damage.append(f"{path.name}, line {stored.number}: {stored.reason}")
                continue
            # Of a recorder that was killed twice at the same place. The offset alone shows no repeat: a topic that was
            # deleted and made again begins at 0 within the same segment.
            mark = hashlib.blake2b(stored.raw, digest_size=16).digest()
            if mark in written:
                continue
            if len(written) < MOST_REMEMBERED:
                written.add(mark)
            whole.write(stored.raw)
            stamp = stored.line.timestamp_ms
            first_ms, last_ms = (min(first_ms, stamp) if messages else stamp), max(last_ms, stamp)
            messages += 1
            on_message(stored)
    if not messages:
        temporary.unlink()
        path.unlink()
        return None
    with temporary.open("rb") as file:
        os.fsync(file.fileno())
    temporary.rename(path)
    return summed(path, messages, first_ms, last_ms)
