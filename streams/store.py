"""Snapshots in a changelog-backed table: cut into chunks that fit a message, and never half of an old and a new one.

Rule of this file: it knows no Faust, only a mapping and how to wait until what was put there is delivered. A snapshot's
chunks are written first, under the keys of the generation that is not in use; the header that names generation, count
and checksum comes last. A writer killed in between leaves the old snapshot whole.
"""

import re
import zlib
from collections.abc import Awaitable, Callable, MutableMapping
from typing import Annotated

import msgspec

from paceline.decoders import msgpack_decoder

CHUNK_BYTES = 900_000
#: No snapshot is so large, and each chunk that a header promises is looked for.
MOST_CHUNKS = 10_000
#: How the names of chunks end. Those of snapshots end as what they are of: with a letter or a bracket.
_CHUNK = re.compile(rb"#[01]\.\d{1,5}$")


class StoreError(ValueError):
    """A stored snapshot that cannot be put together again: why, on one line."""


class Header(msgspec.Struct, frozen=True):
    """What stands under a snapshot's own key. A small snapshot is in ``data``; a large one in ``chunks`` chunks."""

    generation: Annotated[int, msgspec.Meta(ge=0, le=1)]
    chunks: Annotated[int, msgspec.Meta(ge=0, le=MOST_CHUNKS)]
    checksum: int
    data: bytes = b""


_decoder = msgpack_decoder(Header)


class Store:
    """Snapshots by partition and key."""

    def __init__(self, table: MutableMapping[bytes, bytes], delivered: Callable[[], Awaitable[None]]) -> None:
        self.table = table
        self.delivered = delivered
        #: Asked before each change of the table; it raises where another worker may own it by now.
        self.fence: Callable[[], None] = lambda: None

    async def write(self, partition: int, key: str, data: bytes) -> None:
        """Store ``data``; when this returns, it is on the broker."""
        old = self._old(partition, key)
        generation = 1 - old.generation if old else 0
        chunks = [data[at : at + CHUNK_BYTES] for at in range(0, len(data), CHUNK_BYTES)]
        checksum = zlib.crc32(data)
        if len(chunks) <= 1:
            header = Header(generation, 0, checksum, data)
        else:
            self.fence()
            for number, chunk in enumerate(chunks):
                self.table[_chunk(partition, key, generation, number)] = chunk
            await self.delivered()
            header = Header(generation, len(chunks), checksum)
        self.fence()
        self.table[_name(partition, key)] = msgspec.msgpack.encode(header)
        await self.delivered()
        if old:
            self.fence()
            self._drop_chunks(partition, key, old)

    def read(self, partition: int, key: str) -> bytes | None:
        """The snapshot stored last, or None.

        Raises:
            StoreError: it is damaged.
        """
        header = self._header(partition, key)
        if header is None:
            return None
        data = header.data
        if header.chunks:
            names = [_chunk(partition, key, header.generation, number) for number in range(header.chunks)]
            missing = sum(name not in self.table for name in names)
            if missing:
                raise StoreError(f"{missing} of {header.chunks} chunks are missing")
            data = b"".join(self.table[name] for name in names)
        if zlib.crc32(data) != header.checksum:
            raise StoreError("the checksum does not match")
        return data

    def holds(self, partition: int, key: str) -> bool:
        """Whether there is a snapshot of ``key``, readable or not."""
        return _name(partition, key) in self.table

    def keys(self, partition: int) -> list[str]:
        """What there are snapshots of."""
        begin = f"{partition}|".encode()
        return [
            name.removeprefix(begin).decode()
            for name in self.table
            if name.startswith(begin) and not _CHUNK.search(name)
        ]

    async def delete(self, partition: int, key: str) -> None:
        """Forget the snapshot."""
        old = self._old(partition, key)
        if old is None:
            return
        self.fence()
        del self.table[_name(partition, key)]
        self._drop_chunks(partition, key, old)
        await self.delivered()

    def _old(self, partition: int, key: str) -> Header | None:
        try:
            return self._header(partition, key)
        except StoreError:
            return Header(0, 0, 0)

    def _header(self, partition: int, key: str) -> Header | None:
        raw = self.table.get(_name(partition, key))
        if raw is None:
            return None
        try:
            return _decoder.decode(raw)
        except (msgspec.DecodeError, UnicodeDecodeError) as error:
            raise StoreError(f"its header is damaged: {error}") from error

    def _drop_chunks(self, partition: int, key: str, header: Header) -> None:
        for number in range(header.chunks):
            self.table.pop(_chunk(partition, key, header.generation, number), None)


def partition_of(name: bytes) -> int:
    """The partition that a table key belongs to: it stands in front of it."""
    return int(name.partition(b"|")[0])


def _name(partition: int, key: str) -> bytes:
    return f"{partition}|{key}".encode()


def _chunk(partition: int, key: str, generation: int, number: int) -> bytes:
    return f"{partition}|{key}#{generation}.{number}".encode()
