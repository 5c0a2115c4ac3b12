"""What comes out of a compressed file, and how much of it at most.

Rule of this file: a few megabytes may unpack to terabytes, so whoever unpacks a file from outside reads it through
``unpacked`` and says a bound. Reading beyond it raises an error that says so, and what holds more.
"""

import argparse
import errno
import io
from typing import IO, Any

GIB = 1024**3
#: A trace or table is held in memory, some three times its size: this much fits into a machine of 24 GiB.
MOST_HELD_GIB = 4.0
#: A recording is streamed, so its bound is one of time: minutes, for what no run of a week on a thousand ranks writes.
MOST_STREAMED_GIB = 256.0
OPTION = "--most-unpacked"


class TooLargeError(OSError):
    """A file holds more than whoever reads it allows."""

    def __init__(self, path: str, most_bytes: int) -> None:
        reason = f"more than {most_bytes / GIB:g} GiB unpacked; if that is meant, {OPTION} GIB allows more"
        super().__init__(errno.EFBIG, reason, path)

    def __str__(self) -> str:
        return str(self.strerror)


class _Bounded(io.RawIOBase):
    def __init__(self, stream: Any, path: str, most_bytes: int) -> None:
        self._stream = stream
        self._path = path
        self._most = most_bytes
        self._at = 0

    def readable(self) -> bool:
        return True

    def seekable(self) -> bool:
        return bool(self._stream.seekable())

    def tell(self) -> int:
        return self._at

    def seek(self, offset: int, whence: int = io.SEEK_SET, /) -> int:
        self._at = self._stream.seek(offset, whence)
        return self._at

    def readinto(self, buffer: Any, /) -> int:
        # No more than is there: a file that breaks off gives what came before.
        count = int(self._stream.readinto1(buffer))
        self._at += count
        if self._at > self._most:
            raise TooLargeError(self._path, self._most)
        return count

    def close(self) -> None:
        if not self.closed:
            self._stream.close()
        super().close()


def unpacked(stream: Any, path: str, most_bytes: int) -> IO[bytes]:
    """What ``stream``, which unpacks ``path``, gives: reading more than ``most_bytes`` raises ``TooLargeError``."""
    return io.BufferedReader(_Bounded(stream, path, most_bytes), 1 << 16)


def add_option(parser: argparse.ArgumentParser, default_gib: float) -> None:
    """Give a command its bound, in bytes as ``most_unpacked``."""
    parser.add_argument(
        OPTION,
        type=_bytes,
        default=int(default_gib * GIB),
        metavar="GIB",
        help=f"what a compressed file may hold (default: {default_gib:g})",
    )


def _bytes(raw: str) -> int:
    gib = float(raw)
    if not 0 < gib <= 1e9:
        raise ValueError
    return int(gib * GIB)
