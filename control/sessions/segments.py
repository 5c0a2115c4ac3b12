"""The files of a recording: written one after the other, each complete and summed up before the next is begun.

Rule of this file: what ``sync`` has brought to disk is read again whatever ends the process. Each line also tells the
partition and offset it came from, which readers of recordings pass over: so a message is never in a recording twice.
"""

import contextlib
import gzip
import hashlib
import io
import os
import zlib
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import IO, NamedTuple

import msgspec

from paceline.decoders import json_decoder
from paceline.kafka.follow import ConsumerRecord, Place
from paceline.recording import Bad, Line, parse, render

from .manifest import Segment

#: A segment ends when it holds so much, unpacked, or is so old.
SEGMENT_BYTES, SEGMENT_S = 64 * 1024 * 1024, 600.0
_PIECE = 1024 * 1024


class SegmentError(Exception):
    """A segment that is not what the manifest says: which, and how it differs."""


class _Origin(msgspec.Struct):
    topic: str = ""
    partition: int = -1
    offset: int = -1


class Stored(NamedTuple):
    """A line of a segment, and where on the bus it was; None where it does not say."""

    line: Line
    place: Place
    offset: int
    raw: bytes


class SegmentWriter:
    """Writes segments into ``folder`` from number ``first`` on."""

    def __init__(self, folder: Path, first: int, clock: Callable[[], float]) -> None:
        self._folder, self._number, self._clock = folder, first, clock
        self._raw: IO[bytes] | None = None
        self._packed: gzip.GzipFile | None = None
        self._path = folder
        self._began_s = 0.0
        self._unpacked = self._messages = self._first_ms = self._last_ms = 0

    @property
    def is_due(self) -> bool:
        """Whether the segment has become so large or old that it shall end."""
        return self._packed is not None and (
            self._unpacked >= SEGMENT_BYTES or self._clock() - self._began_s >= SEGMENT_S
        )

    @property
    def bytes(self) -> int:
        """What the open segment takes on disk."""
        return 0 if self._raw is None else self._raw.tell()

    def write(self, record: ConsumerRecord, key: str | None) -> None:
        """Append one message.

        Raises:
            OSError: the disk is full or gone.
        """
        line = render(record.topic, key, record.timestamp, record.value or b"null")
        origin = b'{"partition":%d,"offset":%d,' % (record.partition, record.offset)
        packed = self._packed or self._begin()
        packed.write(origin + line[1:])
        self._first_ms = record.timestamp if not self._messages else min(self._first_ms, record.timestamp)
        self._last_ms = max(self._last_ms, record.timestamp)
        self._unpacked += len(origin) + len(line)
        self._messages += 1

    def sync(self) -> None:
        """Bring all that was written to disk.

        Raises:
            OSError: the disk is full or gone.
        """
        if self._packed is not None and self._raw is not None:
            self._packed.flush(zlib.Z_SYNC_FLUSH)
            self._raw.flush()
            os.fsync(self._raw.fileno())

    def end(self) -> Segment | None:
        """End the segment; None where nothing was written to it.

        Raises:
            OSError: the disk is full or gone.
        """
        if self._packed is None or self._raw is None:
            return None
        packed, raw, self._packed, self._raw = self._packed, self._raw, None, None
        try:
            packed.close()
            raw.flush()
            os.fsync(raw.fileno())
        finally:
            raw.close()
        return summed(self._path, self._messages, self._first_ms, self._last_ms)

    def abandon(self) -> None:
        """Leave the open segment as it is, without another byte."""
        raw, self._raw, packed, self._packed = self._raw, None, self._packed, None
        if raw is not None and packed is not None:
            packed.fileobj = io.BytesIO()  # Its end would be written otherwise, when it is collected.
            with contextlib.suppress(OSError):
                raw.close()

    def _begin(self) -> gzip.GzipFile:
        self._path = self._folder / f"segment-{self._number:06d}.jsonl.gz"
        self._number += 1
        descriptor = os.open(self._path, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o600)
        self._raw = os.fdopen(descriptor, "wb")
        self._packed = gzip.GzipFile(fileobj=self._raw, mode="wb", compresslevel=3, mtime=0, filename="")
        self._began_s = self._clock()
        self._unpacked = self._messages = self._last_ms = 0
        return self._packed


def summed(path: Path, messages: int, first_ms: int, last_ms: int) -> Segment:
    """What the manifest says of the complete segment at ``path``."""
    checksum = hashlib.sha256()
    with path.open("rb") as file:
        while piece := file.read(_PIECE):
            checksum.update(piece)
    size = path.stat().st_size
    return Segment(
        file=path.name, messages=messages, bytes=size, sha256=checksum.hexdigest(), first_ms=first_ms, last_ms=last_ms
    )


def check(folder: Path, segment: Segment) -> None:
    """Compare a segment with what the manifest says of it.

    Raises:
        SegmentError: it is another, or none.
    """
    try:
        found = summed(folder / segment.file, segment.messages, segment.first_ms, segment.last_ms)
    except OSError as error:
        raise SegmentError(f"{folder.name}/{segment.file}: {error.strerror}") from error
    if found.sha256 != segment.sha256:
        raise SegmentError(
            f"{folder.name}/{segment.file}: {found.bytes} bytes with SHA-256 {found.sha256[:12]}…, "
            f"and the manifest says {segment.bytes} with {segment.sha256[:12]}…"
        )


def lines(path: Path) -> Iterator[Line | Bad]:
    """The messages of a segment, as far as it can be read; what is cut off comes out as ``Bad``."""
    return (stored if isinstance(stored, Bad) else stored.line for stored in stored_lines(path))


def stored_lines(path: Path) -> Iterator[Stored | Bad]:
    """The messages of a segment with the places they came from, as far as it can be read."""
    number = 0
    with gzip.open(path, "rb") as file:
        while True:
            number += 1
            try:
                raw = file.readline()
            except (OSError, EOFError, zlib.error) as error:
                yield Bad(number, f"the segment breaks off here: {error}")
                return
            if not raw:
                return
            line = parse(number, raw)
            if isinstance(line, Bad):
                yield line
                continue
            origin = json_decoder(_Origin).decode(raw)
            yield Stored(line, (origin.topic, origin.partition), origin.offset, raw)
