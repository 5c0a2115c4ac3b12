"""What the analyzer of a run tells in a file: findings as they come, and the panel at the end.

Rule of this file: it reads what has been added since the last time, whole lines alone, and passes over what is neither.
"""

from pathlib import Path
from typing import NamedTuple

import msgspec

from paceline import wire
from paceline.decoders import json_decoder
from paceline.events import Finding
from paceline.topics import FINDING

#: Read at once; and of the whole file.
PIECE_BYTES, MOST_BYTES = 1024 * 1024, 256 * 1024 * 1024


class Panel(NamedTuple):
    """The verdict in some lines, as ``paceline run`` shows it."""

    text: str


class _Line(msgspec.Struct):
    finding: msgspec.Raw = msgspec.Raw(b"")
    panel: str | None = None


_decoder = json_decoder(_Line)


def parse(line: bytes) -> Finding | Panel | None:
    """What a line tells.

    >>> parse(b'{"panel":"nobody is slow"}'), parse(b"torn"), parse(b'{"finding":{}}')
    (Panel(text='nobody is slow'), None, None)
    """
    try:
        told = _decoder.decode(line)
        if told.panel is not None:
            return Panel(told.panel)
        finding = wire.decode(FINDING, bytes(told.finding)) if bytes(told.finding) else None
    except (msgspec.DecodeError, wire.WireError, UnicodeDecodeError, RecursionError):
        return None
    return finding if isinstance(finding, Finding) else None


class ToldFile:
    """The file at ``path``, which may not be there yet."""

    def __init__(self, path: Path) -> None:
        self._path = path
        self._at = 0
        self._rest = b""

    def read(self) -> list[Finding | Panel]:
        """What has come since the last time."""
        try:
            with self._path.open("rb") as file:
                file.seek(self._at)
                data = file.read(PIECE_BYTES)
        except OSError:
            return []
        self._at += len(data)
        if self._at > MOST_BYTES:
            return []
        *lines, self._rest = (self._rest + data).split(b"\n")
        return [told for line in lines if (told := parse(line)) is not None]
