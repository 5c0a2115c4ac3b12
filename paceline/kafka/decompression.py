"""Decompression with an end: what a batch of messages may hold when it is unpacked.

Rule of this file: pure, and of no client. Half a megabyte on the wire can unpack to gigabytes, so every codec that is
read here stops at ``MOST_BYTES``; a codec that cannot be stopped is not read.
"""

import zlib

#: Twice the largest message a producer sends: a batch of more than one message is smaller than that.
MOST_BYTES = 16 * 1024 * 1024
_GZIP = 16 + zlib.MAX_WBITS


class UnreadableBatchError(Exception):
    """A batch that is passed over; the reason is for a log."""


def gunzip(data: bytes | memoryview, most_bytes: int = MOST_BYTES) -> bytes:
    """What gzip packed, its members one after the other.

    Raises:
        UnreadableBatchError: more than ``most_bytes``, or no gzip.
    """
    parts: list[bytes] = []
    size, rest = 0, bytes(data)
    while rest:
        member = zlib.decompressobj(_GZIP)
        try:
            parts.append(member.decompress(rest, most_bytes - size + 1))
        except zlib.error as error:
            raise UnreadableBatchError(f"not gzip: {error}") from error
        size += len(parts[-1])
        _check(size, most_bytes)
        if not member.eof:
            raise UnreadableBatchError("gzip that ends too early")
        rest = member.unused_data
    return b"".join(parts)


def unzstd(data: bytes | memoryview, most_bytes: int = MOST_BYTES) -> bytes:
    """What zstd packed, its frames one after the other.

    Raises:
        UnreadableBatchError: more than ``most_bytes``, no zstd, or no package that reads it.
    """
    try:
        import zstandard  # The clients of ``paceline`` alone do without it: our own producers pack by gzip.
    except ModuleNotFoundError:
        raise UnreadableBatchError("zstd needs the package zstandard") from None
    try:
        with zstandard.ZstdDecompressor().stream_reader(bytes(data), read_across_frames=True) as reader:
            unpacked: bytes = reader.read(most_bytes + 1)
    except zstandard.ZstdError as error:
        raise UnreadableBatchError(f"not zstd: {error}") from error
    _check(len(unpacked), most_bytes)
    return unpacked


def refuse(data: bytes | memoryview) -> bytes:
    """What stands for every other codec.

    Raises:
        UnreadableBatchError: always.
    """
    raise UnreadableBatchError("compressed as is not read here; gzip and zstd are")


def _check(size: int, most_bytes: int) -> None:
    if size > most_bytes:
        raise UnreadableBatchError(f"more than {most_bytes / 2**20:g} MiB when unpacked")
