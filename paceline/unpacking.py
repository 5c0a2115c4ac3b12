"""Compressed files from outside: one place opens them, and bounds how much comes out.

Rule of this file: a few megabytes may unpack to terabytes, so every reader gives a bound, and reading beyond it raises
an error. Damage is one error that names the file, whatever the codec raises. What is compressed follows from the name
(``.gz``, ``.zst``), and from the first bytes where a file may have any name.
"""

import argparse
import errno
import gzip
import io
import zlib
from collections.abc import Callable
from pathlib import Path
from typing import IO, Any, NamedTuple

GIB = 1024**3
#: A trace or table is held in memory, some three times its size: this much fits into a machine of 24 GiB.
MOST_HELD_GIB = 4.0
#: A recording is streamed, so its bound is one of time: minutes, for what no run of a week on a thousand ranks writes.
MOST_STREAMED_GIB = 256.0
OPTION = "--most-unpacked"
#: Takes the error that ended a file early.
Forgiving = Callable[[OSError], None]


class TooLargeError(OSError):
    """A file holds more than whoever reads it allows."""

    def __init__(self, path: str, most_bytes: int) -> None:
        reason = f"more than {most_bytes / GIB:g} GiB unpacked; if that is meant, {OPTION} GIB allows more"
        super().__init__(errno.EFBIG, reason, path)

    def __str__(self) -> str:
        return str(self.strerror)


class DamagedError(OSError):
    """Compressed data that ends too early, or cannot be unpacked."""

    def __init__(self, path: str, reason: str) -> None:
        super().__init__(errno.EIO, reason, path)

    def __str__(self) -> str:
        return str(self.strerror)


class _Codec(NamedTuple):
    """How a kind of compressed data is known and unpacked, and what its reader raises on damage."""

    suffix: str
    magic: bytes
    unpack: Callable[[IO[bytes], str], tuple[Any, type[Exception]]]


def _gzip(raw: IO[bytes], _name: str) -> tuple[Any, type[Exception]]:
    return gzip.GzipFile(fileobj=raw, mode="rb"), zlib.error


def _zstd(raw: IO[bytes], name: str) -> tuple[Any, type[Exception]]:
    try:
        import zstandard  # The package itself does without it.
    except ModuleNotFoundError:
        raise OSError(errno.ENOTSUP, ".zst needs zstandard; pip install zstandard", name) from None
    reader = zstandard.ZstdDecompressor().stream_reader(raw, read_across_frames=True, closefd=False)
    return reader, zstandard.ZstdError


_CODECS = (_Codec(".gz", b"\x1f\x8b", _gzip), _Codec(".zst", b"\x28\xb5\x2f\xfd", _zstd))


class _Unpacked(io.RawIOBase):
    def __init__(self, codec: _Codec, raw: IO[bytes], path: str, most_bytes: int, forgiving: Forgiving | None) -> None:
        self._raw = raw
        self._stream, self._damage = codec.unpack(raw, path)
        self._path = path
        self._most = most_bytes
        self._forgiving = forgiving
        self._at = 0
        self._ended = False

    def readable(self) -> bool:
        return True

    def seekable(self) -> bool:
        return bool(self._raw.seekable() and self._stream.seekable())

    def tell(self) -> int:
        return self._at

    def seek(self, offset: int, whence: int = io.SEEK_SET, /) -> int:
        self._at = self._stream.seek(offset, whence)
        return self._at

    def readinto(self, buffer: Any, /) -> int:
        try:
            return 0 if self._ended else self._read(buffer)
        except (DamagedError, TooLargeError) as error:
            if self._forgiving is None:
                raise
            self._ended = True
            self._forgiving(error)
            return 0

    def _read(self, buffer: Any) -> int:
        try:
            # No more than is there: a file that breaks off gives what came before.
            count = int(self._stream.readinto1(buffer))
        except EOFError:
            raise DamagedError(self._path, "cut off: the compressed data has no end") from None
        except (gzip.BadGzipFile, self._damage) as error:
            raise DamagedError(self._path, f"damaged: {error}") from error
        self._at += count
        if self._at > self._most:
            raise TooLargeError(self._path, self._most)
        return count

    def close(self) -> None:
        if not self.closed:
            self._stream.close()
            self._raw.close()
        super().close()


def opened(path: str, most_bytes: int) -> IO[bytes]:
    """The file at ``path``, unpacked where its name says that it is compressed.

    Reading more than ``most_bytes`` of unpacked data raises ``TooLargeError``, and damage ``DamagedError``.

    Raises:
        OSError: it cannot be opened.
    """
    raw = Path(path).open("rb")  # noqa: SIM115 - handed on, closed by its reader
    return _through(_named(path), raw, path, most_bytes, None)


def unpacked(raw: "io.BufferedReader[Any]", name: str, most_bytes: int, forgiving: Forgiving) -> IO[bytes]:
    """What ``raw`` holds, unpacked where its name or first bytes say that it is compressed; closing it closes ``raw``.

    Beyond ``most_bytes`` of unpacked data, and where it is damaged, the data ends, and ``forgiving`` takes the error.
    """
    codec = _named(name)
    if codec is None:
        head = raw.peek(4)
        codec = next((one for one in _CODECS if head.startswith(one.magic)), None)
    return _through(codec, raw, name, most_bytes, forgiving)


def _named(name: str) -> _Codec | None:
    return next((one for one in _CODECS if name.endswith(one.suffix)), None)


def _through(
    codec: _Codec | None, raw: IO[bytes], name: str, most_bytes: int, forgiving: Forgiving | None
) -> IO[bytes]:
    if codec is None:
        return raw
    try:
        return io.BufferedReader(_Unpacked(codec, raw, name, most_bytes, forgiving), 1 << 16)
    except OSError:
        raw.close()
        raise


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
