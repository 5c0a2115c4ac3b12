"""A PyTorch profiler (Kineto) trace read in pieces, so that it is never held whole.

Rule of this file: JSON, and no meaning. A trace is an object whose ``traceEvents`` is a long array, or that array: it
is read a few megabytes at a time. A piece ends where one event ends and the next begins; that a place is one is known
when everything before it decodes, for cut anywhere else an event is no JSON.

Strings may hold what JSON does not allow, as profilers write names of frames and files: control characters, bytes that
are not UTF-8, halves of surrogate pairs, single backslashes. Each is read as another character of the same length.
"""

import codecs
import re
from collections.abc import Callable, Iterator
from typing import IO, Any, TypeVar

import msgspec
from msgspec import structs

from paceline.decoders import convert, json_decoder
from paceline.events import Rank, Whole

from .notes import Notes

#: Bytes of one piece, and how far before its end the border of two events is looked for, so often.
_PIECE, _TAIL, _TRIES = 1 << 23, 1 << 16, 6
#: How files of other kinds begin, and what is to be done with them.
_OTHERS = (
    (b"\x1f\x8b", "compressed (gzip); a name that ends in .gz says so, once for each time it is"),
    (b"\x28\xb5\x2f\xfd", "compressed (zstd); a name that ends in .zst says so"),
    (b"PK\x03\x04", "a zip archive; unpack it"),
    (b"BZh", "compressed (bzip2); unpack it"),
    (b"\xfd7zXZ", "compressed (xz); unpack it"),
    (b"\x80", "a pickle; prof.export_chrome_trace writes a trace"),
    (b"SQLite format 3", "a database of SQLite, as Nsight Systems exports; prof.export_chrome_trace writes a trace"),
    (b"<", "HTML or XML, perhaps a page that asks for a login; download the file again"),
    (b"version https://git-lfs", "a pointer of Git LFS; git lfs pull gets the file"),
)
#: What stands before the events is small.
_MOST_HEAD = 1 << 25
_BEGIN = re.compile(rb'"traceEvents"\s*:\s*\[')
_BORDER = re.compile(rb"\}(\s*,)\s*\{")
#: An escape of JSON, or what is none: a backslash alone, half of a pair of surrogates.
_ESCAPE = re.compile(
    rb"\\u[dD][89abAB][0-9a-fA-F]{2}\\u[dD][c-fC-F][0-9a-fA-F]{2}|(\\u[dD][89a-fA-F][0-9a-fA-F]{2})"
    rb'|\\(?:["\\/bfnrt]|u[0-9a-fA-F]{4})|(\\)'
)
_SPACES = bytes(max(byte, 32) for byte in range(256))
_BYTE = re.compile(r"\(byte (\d+)\)$")
#: What decoding bytes from outside may raise.
FAULTS = (msgspec.DecodeError, UnicodeDecodeError, RecursionError)


_Decoded = TypeVar("_Decoded")


class Event(msgspec.Struct):
    """One event: a span (``ph`` X), a link or something else. ``ts`` and ``dur`` are microseconds."""

    ph: str = ""
    name: str = ""
    cat: str = ""
    ts: float = 0.0
    dur: float = 0.0
    tid: Any = None
    pid: Any = None
    args: msgspec.Raw = msgspec.Raw(b"{}")


class Distributed(msgspec.Struct):
    """What the trace says of its rank."""

    rank: Rank | None = None
    world_size: Rank | None = None
    nccl_version: Any = None


class _Around(msgspec.Struct, kw_only=True):
    """What stands around the events."""

    distributedInfo: msgspec.Raw = msgspec.Raw()  # noqa: N815 - the file's own name
    baseTimeNanoseconds: Whole | None = None  # noqa: N815
    host_name: str | None = None

    @property
    def distributed(self) -> Distributed | None:
        """What it says of its rank; what of that cannot be is left out. None where it says nothing."""
        try:
            told = _objects.decode(self.distributedInfo) if self.distributedInfo else None
        except FAULTS:
            return None
        return Distributed(*(_sound(told, field) for field in structs.fields(Distributed))) if told else None


class Head(_Around):
    """A whole trace, or a piece of one. An event of another form is ``ODD``."""

    traceEvents: list[Event] = []  # noqa: N815


class _RawHead(_Around):
    traceEvents: list[msgspec.Raw] = []  # noqa: N815


ODD = Event(ph="odd")
_objects = json_decoder(dict[str, Any])
_events = json_decoder(list[Event], strict=False)
_event = json_decoder(Event, strict=False)
_raw_events = json_decoder(list[msgspec.Raw])
_heads = json_decoder(Head, strict=False)
_raw_heads = json_decoder(_RawHead, strict=False)


def _sound(told: dict[str, Any], field: structs.FieldInfo) -> Any:
    try:
        return convert(told.get(field.name, field.default), field.type, strict=False)
    except msgspec.ValidationError:
        return field.default


def _question(error: UnicodeError) -> tuple[str, int]:
    if not isinstance(error, UnicodeDecodeError):
        raise error
    return "?" * (error.end - error.start), error.end


codecs.register_error("paceline.question", _question)


def cleaned(data: bytes) -> bytes:
    r"""``data`` with what JSON does not allow in strings replaced, as many bytes as before; white space is spaces.

    >>> cleaned(rb'"C:\dev\x\n \ud800 \ud83d\ude00"') == rb'"C:/dev/x\n \ufffd \ud83d\ude00"'
    True
    >>> cleaned(b'"a\x01b' + bytes([0xFF]) + b'c"')
    b'"a b?c"'
    """
    data = data.translate(_SPACES).decode("utf-8", "paceline.question").encode()
    return _ESCAPE.sub(lambda found: rb"\ufffd" if found[1] else b"/" if found[2] else found[0], data)


class _Reader:
    """What is read and not yet used of a file, and where in the file that is."""

    def __init__(self, stream: IO[bytes], notes: Notes) -> None:
        self.rest = b""
        self._notes = notes
        self._stream = stream
        self._at, self._line = 0, 1

    def more(self, size: int = -1) -> int:
        """Read ``size`` bytes more, or all; how many there were."""
        data = self._stream.read(size)
        self.rest += data
        return len(data)

    def use(self, count: int) -> None:
        """The first ``count`` bytes are done with."""
        self._line += self.rest.count(b"\n", 0, count)
        self._at += count
        self.rest = self.rest[count:]

    def decoded(self, decode: Callable[[bytes], _Decoded], before: bytes = b"", after: bytes = b"") -> _Decoded:
        """What is not yet used, decoded; where its strings are not JSON's, cleaned. An error tells the place in the
        file."""
        try:
            return decode(before + self.rest + after)
        except msgspec.ValidationError:
            raise
        except FAULTS:
            pass
        try:
            made = decode(before + cleaned(self.rest) + after)
        except msgspec.ValidationError:
            raise
        except FAULTS as error:
            # A list of events is decoded with the bracket that begins it.
            raise self._placed(error, len(before) + (decode is _piece)) from error
        self._notes.remark(
            "characters that JSON does not allow in the traces' strings were read as a space, ? or / in their place"
        )
        return made

    def _placed(self, error: Exception, before: int) -> msgspec.DecodeError:
        text = str(error)
        if (told := _BYTE.search(text)) is not None:
            where, why = int(told[1]) - before, text[: told.start()].strip()
        elif "truncated" in text:
            where, why = len(self.rest), "it breaks off"
        else:
            return msgspec.DecodeError(text)
        if "trailing characters" in why:
            where, why = where - 1, why + ", several documents in one file"
        where = min(max(where, 0), len(self.rest))
        line = self._line + self.rest.count(b"\n", 0, where)
        return msgspec.DecodeError(f"{why} (byte {self._at + where:,}, line {line:,})")


def pieces(stream: IO[bytes], notes: Notes) -> Iterator[Head]:
    """The trace in pieces, each with the events that it has and, of the first and the last, what stands around them. It
    may be a bare list of events.

    Raises:
        msgspec.DecodeError: it is no such trace; or another of ``FAULTS``.
    """
    reader = _Reader(stream, notes)
    reader.more(_PIECE)
    _begin(reader)
    if bare := reader.rest.startswith(b"["):
        yield Head()
        reader.use(1)
    else:
        while (begin := _BEGIN.search(reader.rest)) is None and len(reader.rest) < _MOST_HEAD and reader.more(_PIECE):
            pass
        head = _head(reader.rest[: begin.start()]) if begin is not None else None
        if begin is None or head is None:
            reader.more()
            yield reader.decoded(_whole)
            return
        yield head
        reader.use(begin.end())
    yield from _events_of(reader)
    reader.more()
    yield reader.decoded(_whole, b'{"traceEvents":[', b"}" if bare else b"")


def _begin(reader: _Reader) -> None:
    """Pass over what may stand before the trace.

    Raises:
        msgspec.DecodeError: nothing comes after it, or something else than JSON in UTF-8.
    """
    begin = reader.rest[:1024].lstrip(b" \r\n\t")
    if (kind := next((words for magic, words in _OTHERS if begin.startswith(magic)), None)) is not None:
        raise msgspec.DecodeError(f"it is {kind}")
    if reader.rest[257:262] == b"ustar":
        raise msgspec.DecodeError("it is a tar archive; unpack it")
    if reader.rest.startswith((b"\xff\xfe", b"\xfe\xff")) or b"\0" in reader.rest[:4]:
        raise msgspec.DecodeError("it is UTF-16 or UTF-32, not UTF-8; convert it: iconv -f UTF-16 -t UTF-8")
    if reader.rest.startswith(b"\xef\xbb\xbf"):
        reader.use(3)
    while not reader.rest.strip() and reader.more(_PIECE):
        pass
    reader.use(len(reader.rest) - len(reader.rest.lstrip()))
    if not reader.rest:
        raise msgspec.DecodeError("it is empty")


def _events_of(reader: _Reader) -> Iterator[Head]:
    """The events, up to where their list may end."""
    size = _PIECE
    while True:
        done = not reader.more(size)
        events, used, tail = reader.decoded(_piece)
        if tail or done:
            return
        if used:
            yield Head(events)
            reader.use(used)
        size = _PIECE if used else 2 * size


def _head(data: bytes) -> Head | None:
    """What stands before the events; None where they lie deeper than at the top."""
    try:
        return _heads.decode(data + b'"traceEvents":[]}')
    except msgspec.ValidationError:
        raise
    except FAULTS:
        return None


def _whole(data: bytes) -> Head:
    try:
        return _heads.decode(data)
    except msgspec.ValidationError:
        raw = _raw_heads.decode(data)
        around = {name: getattr(raw, name) for name in _Around.__struct_fields__}
        return Head(_one_by_one(raw.traceEvents), **around)


def _one_by_one(raw: list[msgspec.Raw]) -> list[Event]:
    """The events where one of them has another form than events have."""
    out = []
    for one in raw:
        try:
            out.append(_event.decode(one))
        except (msgspec.ValidationError, RecursionError):
            out.append(ODD)
    return out


def _array(data: bytes) -> list[Event]:
    try:
        return _events.decode(data)
    except msgspec.ValidationError:
        return _one_by_one(_raw_events.decode(data))


def _piece(data: bytes) -> tuple[list[Event], int, bool]:
    """The events at the beginning of ``data`` up to one of its last borders, how many bytes they are, and whether the
    end of the array lies before it; no bytes where no border can be told yet.

    Raises:
        msgspec.DecodeError: what is there is no list of events.
    """
    borders = list(_BORDER.finditer(data, max(len(data) - _TAIL, 0)))
    for border in reversed(borders[-_TRIES:]):
        try:
            return _array(b"[" + data[: border.start() + 1] + b"]"), border.end(1), False
        except msgspec.DecodeError as error:
            where = _BYTE.search(str(error))
            if "trailing characters" in str(error):
                return [], 0, True
            if where is not None and int(where[1]) < border.start() - _TAIL:
                raise
    return [], 0, False
