"""A recording: JSON Lines, one ``{"topic", "key", "timestamp_ms", "value"}`` a line, plain or compressed by suffix.

Rule of this file: it streams, and a damaged recording is read as far as it goes. What is no event line comes out as
``Bad`` with its line number and a reason; only a file that cannot be opened raises. ``-`` is standard input or output.
A message that is no JSON is kept too: its bytes stand base64-coded in ``value_base64``, so that a replay is faithful.
"""

import base64
import gzip
import io
import os
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import IO, Any, Literal

import msgspec

from paceline import wire
from paceline.decoders import json_decoder
from paceline.timed_event import TimedEvent
from paceline.topics import BY_NAME, Topic
from paceline.unpacking import GIB, MOST_STREAMED_GIB, opened

#: The longest line that is read. Messages on the bus stay under 1 MB.
LONGEST_LINE = 16 * 1024 * 1024


class RecordingError(Exception):
    """A recording that cannot be opened: why, on one line."""


class Line(msgspec.Struct, frozen=True):
    """One recorded message: where it was in the recording, and the message as it was on the bus."""

    number: int
    topic: str
    key: str | None
    timestamp_ms: int
    value: bytes


class Bad(msgspec.Struct, frozen=True):
    """A line that is no recorded message."""

    number: int
    reason: str


def value_of(line: Line) -> tuple[Topic, Any] | None:
    """The topic of ``line`` and its value as plain data, to be changed; None where this version cannot read it."""
    topic = BY_NAME.get(line.topic)
    if topic is None:
        return None
    try:
        return topic, wire.untyped(topic, line.value)
    except wire.WireError:
        return None


class _Envelope(msgspec.Struct):
    topic: str
    timestamp_ms: int
    key: str | None = None
    value: msgspec.Raw = msgspec.Raw(b"null")
    value_base64: str | None = None


class _Base64Envelope(msgspec.Struct):
    topic: str
    key: str | None
    timestamp_ms: int
    value_base64: str


_decoder = json_decoder(_Envelope)
_encoder = msgspec.json.Encoder()
_any = json_decoder(Any)


def parse(number: int, raw: bytes) -> Line | Bad:
    """The message that line ``number`` holds, or why it holds none."""
    if len(raw) > LONGEST_LINE:
        return Bad(number, f"longer than {LONGEST_LINE} bytes")
    try:
        line = _decoder.decode(raw)
        value = bytes(line.value)
        if line.value_base64 is not None:
            value = base64.b64decode(line.value_base64, validate=True)
    except (msgspec.DecodeError, ValueError, RecursionError) as error:
        torn = "" if raw.endswith(b"\n") else "torn last line: "
        return Bad(number, torn + str(error).replace("\n", " ")[:200])
    return Line(number, line.topic, line.key, line.timestamp_ms, value)


def render(topic: str, key: str | None, timestamp_ms: int, value: bytes) -> bytes:
    """The line, with its newline, that records a message."""
    if not _is_json(value):
        text = base64.b64encode(value).decode()
        return _encoder.encode(_Base64Envelope(topic, key, timestamp_ms, text)) + b"\n"
    # Newlines are legal white space in JSON, and never part of a string there: a blank keeps the message on one line.
    inline = msgspec.Raw(value.replace(b"\n", b" ").replace(b"\r", b" "))
    return _encoder.encode({"topic": topic, "key": key, "timestamp_ms": timestamp_ms, "value": inline}) + b"\n"


def _is_json(value: bytes) -> bool:
    try:
        _any.decode(value)
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError):
        return False
    return True


def read(path: str, most_unpacked: int = int(MOST_STREAMED_GIB * GIB)) -> Iterator[Line | Bad]:
    """The messages of the recording at ``path``, in order; ``-`` reads standard input.

    Beyond ``most_unpacked`` bytes a compressed one counts as broken off.

    Raises:
        RecordingError: it cannot be opened.
    """
    stream = _open_to_read(path, most_unpacked)
    return _lines(stream)


def _lines(stream: IO[bytes]) -> Iterator[Line | Bad]:
    number = 0
    with stream:
        while True:
            number += 1
            try:
                raw = stream.readline(LONGEST_LINE + 1)
                while len(raw) > LONGEST_LINE and not raw.endswith(b"\n") and (more := stream.readline(LONGEST_LINE)):
                    raw = raw[: LONGEST_LINE + 1] + more[-1:]
            except OSError as error:
                yield Bad(number, f"the recording breaks off here: {error}")
                return
            if not raw:
                return
            if raw.strip():
                yield parse(number, raw)


def _open_to_read(path: str, most_unpacked: int) -> IO[bytes]:
    if path == "-":
        return io.BufferedReader(io.FileIO(sys.stdin.fileno(), closefd=False))
    try:
        return opened(path, most_unpacked)
    except OSError as error:
        raise RecordingError(f"cannot read {path}: {error.strerror}") from error


class Writer:
    """Writes a recording. ``flush`` makes what was written readable by others; a killed writer loses no more."""

    def __init__(self, path: str) -> None:
        """Create or empty the recording at ``path``; ``-`` writes to standard output.

        Raises:
            RecordingError: it cannot be written.
        """
        self._raw: IO[bytes] = _open_to_write(path)
        self._stream: Any = self._raw
        self._flush_mode: tuple[int, ...] = ()
        if path.endswith(".gz"):
            self._stream = gzip.GzipFile(fileobj=self._raw, mode="wb", compresslevel=3, mtime=0, filename="")
        elif path.endswith(".zst"):
            zstandard = _zstandard(path)
            self._stream = zstandard.ZstdCompressor(level=3).stream_writer(self._raw, closefd=False)
            self._flush_mode = (zstandard.FLUSH_BLOCK,)
        self.messages = 0

    def write(self, topic: str, key: str | None, timestamp_ms: int, value: bytes) -> None:
        """Append one message.

        Raises:
            OSError: the disk is full or gone.
        """
        self._stream.write(render(topic, key, timestamp_ms, value))
        self.messages += 1

    def write_event(self, message: TimedEvent) -> None:
        """Append an event under its own key.

        Raises:
            OSError: the disk is full or gone.
        """
        topic, event = message.topic, message.event
        self.write(topic.name, wire.key_of(topic, event), message.timestamp_ms, wire.encode(event))

    def flush(self) -> None:
        """Hand what was written to the operating system.

        Raises:
            OSError: the disk is full or gone.
        """
        self._stream.flush(*self._flush_mode)
        self._raw.flush()

    def close(self) -> None:
        """End the recording.

        Raises:
            OSError: the disk is full or gone; the file is closed all the same.
        """
        try:
            if self._stream is not self._raw:
                self._stream.close()
        finally:
            self._raw.close()


def _open_to_write(path: str, mode: Literal["wb", "ab"] = "wb") -> IO[bytes]:
    if path == "-":
        return io.BufferedWriter(io.FileIO(sys.stdout.fileno(), mode="wb", closefd=False))
    if path.endswith(".zst"):
        _zstandard(path)
    try:
        return Path(path).open(mode)
    except OSError as error:
        raise RecordingError(f"cannot write {path}: {error.strerror}") from error


def check_writable(path: str) -> None:
    """Find out early what ``Writer`` would meet; what the file holds stays, and no new one is left behind.

    Raises:
        RecordingError: it cannot be written.
    """
    new = path != "-" and not os.path.lexists(path)
    _open_to_write(path, "ab").close()
    if new:
        Path(path).unlink(missing_ok=True)


def _zstandard(path: str) -> Any:
    try:
        import zstandard
    except ModuleNotFoundError:
        raise RecordingError(f"{path}: .zst needs zstandard; pip install zstandard, or name it .gz") from None
    return zstandard
