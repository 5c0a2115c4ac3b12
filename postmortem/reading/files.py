"""Paths to statements: folders are read whole, compressed files unpacked under a bound, and each file by its grammar.

Rule of this file: the only one here that opens files. What a file is follows from its first bytes. One that cannot be
read is told and left out; one that is nothing of ours is told, too, and scripts and documents are passed over.
"""

import errno
import io
import os
import re
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import IO, NamedTuple

import msgspec

from paceline import flight_recorder
from paceline.unpacking import unpacked
from paceline.utf8 import as_utf8
from paceline.words import many

from ..evidence import Dump, Stack, Statement
from . import json_files, kubectl_yaml, log_events, pods, ras_json, recorder_file, stack_file
from .cut_lines import Joined
from .file_names import rank_in_name
from .log_file import LogFile

MOST_FILES = 100_000
_MOST_JSON = 256 << 20
_HEAD = 1 << 16
#: A JSON object, or a list of them; what Python prints of a dict is none.
_JSON = re.compile(rb"\s*(?:\[\s*)?\{\s*[\"}]")
#: Documents and programs: words of theirs are no evidence.
_PASSED_OVER = (
    ".py",
    ".sh",
    ".md",
    ".rst",
    ".toml",
    ".ipynb",
    ".pt",
    ".pth",
    ".safetensors",
    ".png",
    ".so",
)


class _BinaryError(Exception):
    """A file that is no text."""


class Read(NamedTuple):
    """What was read: the statements, how many files gave some, and what is to be said of others."""

    statements: list[Statement]
    files: int
    notes: list[str]


def read(paths: list[str], most_unpacked: int) -> Read:
    """All that the files say."""
    statements: list[Statement] = []
    notes: list[str] = []
    files = 0
    dumped: dict[int, str] = {}
    binary: list[str] = []
    for turn, path in enumerate(_walked(paths, notes)):
        try:
            said = _one(path, turn, most_unpacked, notes)
        except _BinaryError:
            binary.append(path)
            continue
        except (flight_recorder.RecorderError, OSError) as error:
            notes.append(f"{path}: {getattr(error, 'strerror', None) or error}; left out")
            continue
        if said is None:
            if len(paths) == 1 and paths[0] == path:
                notes.append(f"{path}: nothing that is known here: no log, dump, stack or kernel line")
            continue
        ranks = {one.rank for one in said if isinstance(one, Dump) and one.rank is not None}
        if first := next((dumped[rank] for rank in ranks if rank in dumped), None):
            notes.append(f"{path}: a dump of the same rank as {first}: of another job or attempt; left out")
            continue
        dumped |= dict.fromkeys(ranks, path)
        files += bool(said)
        statements += said
    if binary:
        more = f" and {many(len(binary) - 1, 'other file')}" if len(binary) > 1 else ""
        notes.append(f"{binary[0]}{more}: binary, no log; left out")
    return Read(statements, files, notes)


def _walked(paths: list[str], notes: list[str]) -> Iterator[str]:
    """Files in a settled order, with those of folders."""
    count = 0
    for path in paths:
        for found in _files_of(path):
            count += 1
            if count > MOST_FILES:
                notes.append(f"more than {MOST_FILES} files; the rest is left out")
                return
            yield found


def _files_of(path: str) -> Iterator[str]:
    if path == "-" or not os.path.isdir(path):
        yield path
        return
    for folder, folders, names in os.walk(path):
        folders[:] = sorted(name for name in folders if not name.startswith((".", "__pycache__")))
        for name in sorted(names):
            full = os.path.join(folder, name)
            # A pipe or a device would wait for ever.
            if not name.startswith(".") and not name.lower().endswith(_PASSED_OVER) and os.path.isfile(full):
                yield full


def _one(path: str, turn: int, most_unpacked: int, notes: list[str]) -> list[Statement] | None:
    """What one file says; None where it is nothing of ours. One that breaks off says what comes before."""
    name = "standard input" if path == "-" else path

    def breaks_off(error: OSError) -> None:
        notes.append(f"{name}: {error}; read up to there")

    if path == "-":
        given = io.BufferedReader(io.FileIO(sys.stdin.fileno(), closefd=False))
        with unpacked(given, name, most_unpacked, breaks_off) as stream:
            return _read(stream, name, turn)
    if not os.path.isfile(path) and os.path.exists(path):
        raise OSError(errno.EINVAL, "no file and no folder", path)
    with Path(path).open("rb") as file, unpacked(file, path, most_unpacked, breaks_off) as raw:
        return _read(raw, path.removesuffix(".gz").removesuffix(".zst"), turn)


def _read(raw: IO[bytes], plain: str, turn: int) -> list[Statement] | None:
    stream = as_utf8(raw)
    head = stream.read(_HEAD)
    # A log that was emptied while its job wrote on begins with as many NULs as it was long.
    while head and not (text := head.lstrip(b"\x00")):
        head = stream.read(_HEAD)
    if head[:1] == b"\x00":
        head = text + stream.read(_HEAD - len(text))
    if not head:
        return []
    if flight_recorder.looks_like(head):
        data = head + stream.read(flight_recorder.MOST_BYTES + 1 - len(head))
        return recorder_file.statements(flight_recorder.unpickled(data), plain, flight_recorder.rank_in_name(plain))
    if b"\x00" in head[:4096]:
        raise _BinaryError
    if ras_json.holds(head):
        head += stream.read(_MOST_JSON)
        return [*ras_json.statements(head.decode("utf-8", "replace"), plain), *_log(head, stream, plain)]
    if _JSON.match(head):
        by_line = _decoded(head.split(b"\n", 1)[0]) is not None and b"\n" in head.strip()
        head += b"" if by_line else stream.read(_MOST_JSON)
        said = _lines(head, stream, plain, turn) if by_line else _document(head, plain, turn)
        if said is not None or (not by_line and _decoded(head) is not None):
            return said
    return _text(head, stream, plain)


def _text(head: bytes, stream: IO[bytes], plain: str) -> list[Statement] | None:
    if stack_file.looks_like(head):
        text = (head + stream.read(64 << 20)).decode("utf-8", "replace")
        return [*stack_file.statements(text, plain, rank_in_name(plain))]
    if pods.looks_like(head):
        return pods.of_text((head + stream.read(64 << 20)).decode("utf-8", "replace"), plain)
    if kubectl_yaml.looks_like(head):
        text = (head + stream.read(64 << 20)).decode("utf-8", "replace")
        return [said for one in kubectl_yaml.documents(text) for said in pods.of_json(one, plain) or ()]
    if plain.lower().endswith((".yaml", ".yml")):
        return None
    return _log(head, stream, plain)


def _log(head: bytes, stream: IO[bytes], plain: str) -> list[Statement]:
    """A log, with the stacks in it: all of it may be one, or a rank was asked for its own, or crashed."""
    stacks: list[Stack] = []
    if stack_file.holds(head):
        head += stream.read(64 << 20)
        stacks = stack_file.statements(head.decode("utf-8", "replace"), plain, rank_in_name(plain))
    return [*stacks, *LogFile(plain).read(Joined(_Whole(head, stream), head[:_HEAD]))]


class _Whole:
    """What was read already, then the rest."""

    def __init__(self, head: bytes, stream: IO[bytes]) -> None:
        self._head = head
        self._stream = stream

    def read(self, size: int, /) -> bytes:
        if self._head:
            head, self._head = self._head, b""
            return head
        return self._stream.read(size)


def _rows(data: bytes, name: str, turn: int) -> list[Statement] | None:
    decoded = _decoded(data)
    if isinstance(decoded, dict) and isinstance(decoded.get("version"), str):
        try:
            dump = flight_recorder.checked(decoded)
        except flight_recorder.RecorderError:
            return None
        return recorder_file.statements(dump, name, flight_recorder.rank_in_name(name))
    return json_files.statements(decoded, name, turn, rank_in_name(name))


def _document(data: bytes, name: str, turn: int) -> list[Statement] | None:
    """What one JSON document says, or the log events in it; None where it is none, or none of ours."""
    said = _rows(data, name, turn)
    if said is not None:
        return said
    events = "\n".join(log_events.texts(_decoded(data))).encode("utf-8", "replace")
    return LogFile(name).read(io.BytesIO(events)) if events else None


def _lines(head: bytes, stream: IO[bytes], name: str, turn: int) -> list[Statement] | None:
    """JSON Lines: each row by itself; half a row at the end is left out. None where the first is none of ours."""
    if _rows(head.split(b"\n", 1)[0], name, turn) is None:
        return None
    rows = (head + stream.read(_MOST_JSON)).split(b"\n")[:1_000_000]
    return [said for line in rows if line.strip() for said in _rows(line, name, turn) or ()]


def _decoded(data: bytes) -> object:
    try:
        return msgspec.json.decode(data)
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError):
        return None
