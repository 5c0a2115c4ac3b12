"""Lines that a container runtime, a log driver, a shipper or a terminal has cut in two, put together again.

Rule of this file: bounded memory, bytes in and bytes out. A cut is known by its mark (``P`` of a container runtime, a
record of Docker's without its line's end, ``partial_message`` of Fluentd), else by the width at which lines end. A line
that starts like one of its own is never joined. Behind a joined line come as many empty ones as it had parts more than
one, so that the numbers of lines stay right, up to its last part's.
"""

import re
from collections.abc import Callable
from functools import partial
from itertools import pairwise
from typing import NamedTuple, Protocol

import msgspec

#: What a whole line may have; more of its parts are given as they are.
MOST_LINE = 1 << 16
_BLOCK = 1 << 20
_MOST_STREAMS = 4096
_RUNTIME = re.compile(rb"(\d{4}-\d\d-\d\dT[\d:.]{8,20}(?:Z|[+-]\d\d:?\d\d) )(stdout|stderr) ([FP])(?::\w{1,20})? ")
#: How a line of its own begins: with who speaks, a time, or the next row of a traceback or a box.
_BEGINS = re.compile(
    rb"\[?(?:rank|default|trainer|worker)\d|\[\d{1,9},\d|\[(?:pod/|PG |Rank )|\([\w.:<>,()=\[\] -]{0,120}?pid=\d"
    rb"|\[?\d{4}-\d\d-\d\d[T ]|\[?\d\d:\d\d:\d\d|[A-Z][a-z]{2} [ \d]\d \d\d:|\[?[EWIF]\d{4} \d\d:| {0,6}\d{1,7}: "
    rb"|\[[EWIF] \w|\[default\] |srun: |slurmstepd: |terminate called|Sending process "
    rb"|Traceback| {2}|\t|----|====|[A-Za-z_][\w.]{0,80}(?:Error|Exception|Interrupt|Exit): "
    rb"|[\w.-]{1,255}:\d{1,10}:\d{1,10} |(?:\S{1,80}[ \t]{1,4}){1,6}\[(?:rank|default)\d{1,7}\]:"
)
_DIGIT = re.compile(rb"\d")
#: So many first bytes are the same in lines of one kind.
_ALIKE = 6
#: A part of a line in Docker's records.
_PART = 16_000
#: How many parts lines may have in which a part is known by its missing end alone.
_PARTS = 16
#: Widths of terminals, and those for which one line of that width is enough; else three are.
_NARROWEST, _WIDEST = 60, 400
_USUAL = frozenset([80, 100, 120, 132, 160])


class Readable(Protocol):
    """What a log is read from."""

    def read(self, size: int, /) -> bytes:
        """The next bytes; none at the end."""


class Joined:
    """A stream of whole lines."""

    def __init__(self, stream: Readable, head: bytes) -> None:
        """``head`` is how ``stream`` begins."""
        self._stream = stream
        self._joins = _by_head(head)
        self._rest = b""
        self._ended = False

    def read(self, size: int, /) -> bytes:
        """The next bytes, mostly more or fewer than ``size``; none at the end."""
        if self._joins is None:
            return self._stream.read(size)
        while not self._ended:
            block = self._rest + self._stream.read(_BLOCK)
            self._ended = len(block) == len(self._rest)
            cut = len(block) if self._ended else block.rfind(b"\n") + 1
            # A line without an end is not to be joined.
            cut = len(block) if not cut and len(block) > MOST_LINE else cut
            self._rest = block[cut:]
            made = b"".join(map(self._joins.line, block[:cut].splitlines(keepends=True)))
            made += self._joins.end() if self._ended else b""
            if made:
                return made
        return b""


class Part(NamedTuple):
    """Of whom, what stands before the text of the whole line, the text, and whether more follows."""

    stream: bytes
    prefix: bytes
    text: bytes
    more: bool


class _Pending(msgspec.Struct):
    """The parts of a line so far."""

    parts: list[bytes]
    size: int


class _Marked:
    """Parts that say whether more follows, of several streams at a time."""

    def __init__(self, part: Callable[[bytes], Part | None], whole: Callable[[bytes], bool]) -> None:
        """``whole`` says fast that a line is no part, of most lines that are none."""
        self._part = part
        self._whole = whole
        self._pending: dict[bytes, _Pending] = {}

    def line(self, line: bytes) -> bytes:
        """A line of the file: what is whole by it."""
        if not self._pending and self._whole(line):
            return line
        read = self._part(line)
        if read is None:
            return line
        stream, prefix, text, more = read
        pending = self._pending.get(stream)
        if pending is None and (not more or len(self._pending) >= _MOST_STREAMS):
            return line
        if pending is None:
            self._pending[stream] = _Pending([prefix, text], len(text))
            return b"\n"
        pending.parts.append(text)
        pending.size += len(text)
        if more and pending.size < MOST_LINE:
            return b"\n"
        del self._pending[stream]
        return b"".join(pending.parts) + b"\n"

    def end(self) -> bytes:
        """What is left."""
        left = b"".join(b"".join(pending.parts) + b"\n" for pending in self._pending.values())
        self._pending.clear()
        return left


class _Width:
    """Lines that end at a terminal's width go on in the next, unless that begins like one of its own."""

    def __init__(self, width: int) -> None:
        self._width = width
        self._parts: list[bytes] = []

    def line(self, line: bytes) -> bytes:
        """A line of the file: what is whole by it."""
        bare = line.rstrip(b"\r\n")
        whole = b""
        if self._parts and (_begins(bare, self._parts[0]) or len(self._parts) * self._width > MOST_LINE):
            whole = self.end()
        self._parts.append(bare)
        return whole if _ends_at(bare, self._width) else whole + self.end()

    def end(self) -> bytes:
        """What is left."""
        parts, self._parts = self._parts, []
        return b"".join(parts) + b"\n" * len(parts)


_Joins = _Marked | _Width


def _by_head(head: bytes) -> _Joins | None:
    """How the lines of a file with this beginning are cut; None where they are not."""
    first = head.lstrip().split(b"\n", 1)[0]
    if _RUNTIME.match(first):
        return _Marked(_of_runtime, lambda line: b" P " not in line[:48])
    if first.startswith(b"{"):
        records = head.count(b"\n") or 1
        # Where records have their line's end, one without it is a part, however short.
        least = 0 if head.count(b'\\n"') * _PARTS >= records else _PART
        return _Marked(partial(_of_driver, least=least), _ends_a_line) if b'"log"' in first else None
    width = _width(head)
    return _Width(width) if width else None


def _of_runtime(line: bytes) -> Part | None:
    found = _RUNTIME.match(line)
    if not found:
        return None
    return Part(found[2], found[1] + found[2] + b" F ", line[found.end() :].rstrip(b"\r\n"), found[3] == b"P")


def _ends_a_line(record: bytes) -> bool:
    return b'\\n"' in record and b'"partial_' not in record and b'"logtag"' not in record


def _of_driver(line: bytes, least: int) -> Part | None:
    """A record of Docker's, whose last part alone has the line's end, or of a shipper's, which marks parts."""
    try:
        record = msgspec.json.decode(line)
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError):
        return None
    if not isinstance(record, dict) or not isinstance(record.get("log"), str):
        return None
    text = record["log"].encode("utf-8", "replace")
    if "partial_message" in record:
        more = str(record.get("partial_last", "false")).lower() != "true"
    elif "logtag" in record:
        more = record["logtag"] == "P"
    else:
        more = not text.endswith(b"\n") and len(text) >= least
    names = ("partial_id", "container_id", "stream", "source")
    speaker = repr([str(record.get(name))[:200] for name in names])
    return Part(speaker.encode("utf-8", "replace"), b"", text.rstrip(b"\r\n"), more)


def _width(head: bytes) -> int:
    """The width at which lines are cut, 0 for none: that of the longest, if what follows these goes on."""
    lines = [line.rstrip(b"\r") for line in head.split(b"\n")]
    lines = lines[:-1] if len(head) >= 1 << 16 else lines
    width = max((len(line.decode("utf-8", "replace")) for line in lines), default=0)
    if not _NARROWEST <= width <= _WIDEST:
        return 0
    after = [(line, one) for line, one in pairwise(lines) if _ends_at(line, width)]
    goes_on = sum(bool(one) and not _begins(one, line) for line, one in after)
    least = 1 if width in _USUAL else 3
    return width if goes_on >= least and goes_on * 2 > len(after) else 0


def _begins(line: bytes, before: bytes) -> bool:
    """Whether a line is one of its own: by its start, or because the one ``before`` starts alike."""
    alike = len(line) > _ALIKE and _DIGIT.sub(b"0", line[:_ALIKE]) == _DIGIT.sub(b"0", before[:_ALIKE])
    return alike or _prefix(line) == _prefix(before) != b"" or _BEGINS.match(line) is not None


def _prefix(line: bytes) -> bytes:
    """The first word of a line if it has a digit or a bracket, as what launchers put there; any digit is alike.

    >>> _prefix(b"[R12] step 1"), _prefix(b"worker-3  | x"), _prefix(b"remote process exited")
    (b'[R0]', b'worker-0', b'')
    """
    word = line[:80].partition(b" ")[0]
    return re.sub(rb"\d+", b"0", word) if re.search(rb"[\d\[(]", word) else b""


def _ends_at(line: bytes, width: int) -> bool:
    """Whether a line is as wide as the terminal, and no rule across it."""
    wide = len(line) >= width and len(line.decode("utf-8", "replace")) == width
    return wide and len(set(line)) > 2
