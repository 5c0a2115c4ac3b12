"""A disk's own speed: written and synced, read past the page cache, in a file that has no name.

Rule of this file: standard library. The file's name is taken away as soon as it is open, so whatever ends this process
leaves nothing behind. It is bounded, and leaves most of the free room free.
"""

import contextlib
import mmap
import os
import shutil
import signal
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path

from .interval import LEAST_SAMPLES
from .target import UnmeasuredError
from .timing import MOST_SAMPLES

#: Bytes of a write, of the smallest and the largest segment that is synced, and of all the file at most.
BLOCK, LEAST_SEGMENT, MOST_SEGMENT, MOST_BYTES = 2**20, 2**20, 64 * 2**20, 2**30
#: This part of the free room is taken at most.
LARGEST_PART = 10
#: Kinds of file systems that are no disk.
IN_MEMORY = ("tmpfs", "ramfs")


def measure(folder: Path, budget_s: float) -> Iterator[tuple[str, list[float], str]]:
    """Bytes a second written, then read, a sample each; and how: ``disk_write`` and ``disk_read``.

    Raises:
        UnmeasuredError: there is too little room, or no disk.
        OSError: it cannot be written there.
    """
    kind = filesystem(folder)
    if kind in IN_MEMORY:
        raise UnmeasuredError(f"{folder} is {kind}: memory, no disk; name one by --disk-folder")
    room = shutil.disk_usage(folder).free // LARGEST_PART
    if room < LEAST_SAMPLES * LEAST_SEGMENT:
        wanted = LEAST_SAMPLES * LEAST_SEGMENT * LARGEST_PART // 2**20
        raise UnmeasuredError(f"{folder}: too little room; it needs {wanted} MiB free. --disk-folder names another")
    with _nameless(folder) as (number, direct), mmap.mmap(-1, BLOCK) as block:
        block.write(os.urandom(BLOCK))  # No file system can make less of it.
        how = f"{kind}, {'O_DIRECT' if direct else 'page cache dropped by posix_fadvise'}, fsync"
        segment, written = _write(number, block, min(room, MOST_BYTES), budget_s / 2)
        yield "disk_write", written, f"{how}, {segment // 2**20} MiB at a time"
        yield "disk_read", _read(number, block, segment, len(written), budget_s / 2), how.removesuffix(", fsync")


def _write(number: int, block: mmap.mmap, most: int, budget_s: float) -> tuple[int, list[float]]:
    began = time.monotonic()
    first_s = _write_segment(number, block, 0, LEAST_SEGMENT)
    largest = min(MOST_SEGMENT, most // LEAST_SAMPLES)
    wanted = LEAST_SEGMENT * budget_s / (2 * LEAST_SAMPLES) / max(first_s, 1e-6)
    segment = int(max(LEAST_SEGMENT, min(largest, wanted))) // BLOCK * BLOCK
    speeds: list[float] = []
    while (len(speeds) + 1) * segment <= most and len(speeds) < MOST_SAMPLES:
        if time.monotonic() - began >= budget_s and len(speeds) >= LEAST_SAMPLES:
            break
        speeds.append(segment / _write_segment(number, block, len(speeds) * segment, segment))
    return segment, speeds


def _write_segment(number: int, block: mmap.mmap, start: int, size: int) -> float:
    began = time.perf_counter()
    for offset in range(start, start + size, BLOCK):
        if os.pwrite(number, block, offset) != BLOCK:
            raise OSError("the disk took a part of a block only; it may be full")
    os.fsync(number)
    return max(time.perf_counter() - began, 1e-9)


def _read(number: int, block: mmap.mmap, segment: int, segments: int, budget_s: float) -> list[float]:
    """Each segment that was written, once; what is read from the page cache would be memory's speed."""
    os.posix_fadvise(number, 0, 0, os.POSIX_FADV_DONTNEED)
    began = time.monotonic()
    speeds: list[float] = []
    for start in range(0, segment * segments, segment):
        if time.monotonic() - began >= budget_s and len(speeds) >= LEAST_SAMPLES:
            break
        at = time.perf_counter()
        for offset in range(start, start + segment, BLOCK):
            if os.preadv(number, [block], offset) != BLOCK:
                raise OSError("the disk gave a part of a block only")
        speeds.append(segment / max(time.perf_counter() - at, 1e-9))
    return speeds


@contextlib.contextmanager
def _nameless(folder: Path) -> Iterator[tuple[int, bool]]:
    """A file without a name, and whether it goes past the page cache."""
    number, direct = _open(folder)
    try:
        yield number, direct
    finally:
        os.close(number)


def _open(folder: Path) -> tuple[int, bool]:
    """Without a name from the start, where the file system can; else for a moment in which no signal comes through."""
    for flags, direct in ((os.O_DIRECT, True), (0, False)):
        with contextlib.suppress(OSError):
            return os.open(folder, os.O_TMPFILE | os.O_RDWR | os.O_CLOEXEC | flags, 0o600), direct
    held = signal.pthread_sigmask(signal.SIG_BLOCK, (signal.SIGINT, signal.SIGTERM, signal.SIGHUP))
    try:
        first, name = tempfile.mkstemp(prefix=".paceline-benchmark-", dir=folder)
        try:
            second = os.open(name, os.O_RDWR | os.O_CLOEXEC | os.O_DIRECT)
        except OSError:  # Some file systems have no way past the page cache.
            return first, False
        finally:
            os.unlink(name)
        os.close(first)
        return second, True
    finally:
        signal.pthread_sigmask(signal.SIG_SETMASK, held)


def filesystem(folder: Path, mounts: Path = Path("/proc/self/mounts")) -> str:
    """The kind of file system that ``folder`` is on; "unknown" where nothing tells."""
    best, kind = "", "unknown"
    try:
        lines, at = mounts.read_text(errors="replace").splitlines(), str(folder.resolve())
    except OSError:
        return kind
    for fields in map(str.split, lines):
        if len(fields) < 3:
            continue
        point = fields[1].replace("\\040", " ")
        if (at == point or at.startswith(point.rstrip("/") + "/")) and len(point) >= len(best):
            best, kind = point, fields[2]
    return kind
