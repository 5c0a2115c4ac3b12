"""A capture's files: the packed trace where the sidecar looks for it, or the reason why there is none.

Rule of this file: off the training thread. Whatever goes wrong leaves no file behind but the reason, and never takes
the last of a disk: the script writes its checkpoints there.
"""

from __future__ import annotations

import contextlib
import gzip
import json
import os
from typing import Any

from paceline.training.capture_messages import MOST_TRACE_BYTES, NOTE, WHY, Capture

#: Free space that a plain trace may need on its way, and what is left to others.
NEEDED_BYTES = 128 * 1024 * 1024


def write(result: Any, capture: Capture, note: str) -> None:
    """Bring what the profiler recorded to where the sidecar looks for it; ``note`` lies beside it."""
    plain, packed = capture.path + ".json", capture.path + ".part"
    reason = None
    try:
        _check_space(os.path.dirname(capture.path))
        result.save(plain)
        del result
        _check_whole(plain)
        _pack(plain, packed)
        if note:
            tell(capture, note, NOTE)
        os.rename(packed, capture.path)
    except Exception as error:
        reason = error.strerror if isinstance(error, OSError) and error.strerror else f"{error}"
    failed = () if reason is None else (capture.path + NOTE,)
    for left in (plain, packed, plain + ".tmp", *failed):
        with contextlib.suppress(OSError):
            os.unlink(left)
    if reason is not None:
        tell(capture, f"the trace could not be written: {reason}")


def tell(capture: Capture, reason: str, ending: str = WHY) -> None:
    """Say in a file why there is no trace; a process that cannot is found out by the sidecar's patience."""
    part = capture.path + ending + ".part"
    try:
        with open(part, "w", encoding="utf-8", errors="replace") as file:
            json.dump({"reason": " ".join(reason.split())[:400]}, file)
        os.rename(part, capture.path + ending)
    except OSError:
        with contextlib.suppress(OSError):
            os.unlink(part)


def _check_space(folder: str) -> None:
    disk = os.statvfs(folder)
    free = disk.f_bavail * disk.f_frsize
    if free < NEEDED_BYTES:
        raise ValueError(f"{folder} has {free >> 20} MiB of free space; a trace needs {NEEDED_BYTES >> 20} on its way")


def _check_whole(plain: str) -> None:
    """PyTorch does not say that a disk was full while it wrote."""
    with open(plain, "rb") as file:
        file.seek(max(os.fstat(file.fileno()).st_size - 64, 0))
        end = file.read().rstrip()
    if not end.endswith(b"}"):
        disk = os.statvfs(plain)
        free = disk.f_bavail * disk.f_frsize
        raise ValueError("No space left on device" if free < 1 << 20 else "PyTorch wrote only a part of it")


def _pack(plain: str, packed: str) -> None:
    with open(plain, "rb") as trace, gzip.open(packed, "wb", compresslevel=3) as file:
        while piece := trace.read(1 << 20):
            file.write(piece)
    if os.path.getsize(packed) > MOST_TRACE_BYTES:
        raise ValueError(f"it has more than {MOST_TRACE_BYTES >> 20} MiB: ask for fewer steps")
