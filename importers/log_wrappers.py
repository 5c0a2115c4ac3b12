"""What launchers and log drivers put around a line of NCCL's, taken off again.

Rule of this file: pure. One line of a file may hold many of NCCL's: records of a log driver in JSON, a progress bar
that rewrites its line, lines of several processes that ran together. Each is given on its own. Prefixes of launchers
need no rule here: NCCL's own prefix says where it begins.
"""

import re
from collections.abc import Iterator
from typing import NamedTuple

import msgspec

#: Colours and other control sequences of terminals, as they are, as syslog, JSON and Python write them, and without the
#: sign that begins them; titles of windows.
_CONTROL = re.compile(
    r"(?:\x1b|#033|\^\[|\\{1,8}(?:x1[bB]|u001[bB]|033|e))\[[0-?]{0,32}[ -/]{0,4}[@-~]"
    r"|\[(?:\d{1,3}(?:;\d{1,3}){0,8}m(?!\])|m(?![A-Za-z\]]))|\x1b\][^\x07\x1b]{0,200}(?:\x07|\x1b\\)|\x9b[\d;]*m"
)
#: Ends of lines, as they are, as syslog writes them, and as strings of JSON and Python do.
_LINE_END = re.compile(r"[\r\n]+|#01[25]|\\{1,8}[rn]")
#: NCCL's own prefix, ``host:pid:tid [device] place NCCL INFO``, wherever it stands.
_PREFIX = re.compile(
    r"[A-Za-z0-9_.-]{1,255}:\d{1,18}:\d{1,18} (?:\[[^\[\]\s]{0,20}\] )?"
    r"(?:\S{1,200}:\d{1,9} )?(?:NCCL|RCCL) (?:INFO|WARN) ",
    re.ASCII,
)
#: Ray's remark that it has left out lines of other workers.
_REPEATED = re.compile(r" \[repeated \d{1,9}x across (?:cluster|all nodes)\].*", re.DOTALL)


class Piece(NamedTuple):
    """A line of NCCL's. ``runs_on``: another line begins right behind it, and it is not sure where it ends."""

    text: str
    runs_on: bool = False


def pieces(line: str, hosts: frozenset[str] | set[str] = frozenset()) -> Iterator[Piece]:
    """The lines in ``line``; ``hosts`` are known to write some, which tells lines apart that ran together.

    >>> [piece.text for piece in pieces("n1:7:9 [0] NCCL INFO Using network IBn2:8:8 [0] NCCL INFO Hi", {"n2"})]
    ['n1:7:9 [0] NCCL INFO Using network IB', 'n2:8:8 [0] NCCL INFO Hi']
    """
    for text in _records(line):
        for part in _LINE_END.split(_CONTROL.sub("", text)):
            if part.strip():
                yield from _apart(_REPEATED.sub("", part), hosts)


def _records(line: str) -> list[str]:
    """The texts in a record of a log driver (Docker's json-file, journald, Fluent Bit, …); else the line itself."""
    stripped = line.strip()
    if not stripped.startswith("{"):
        return [line]
    try:
        record = msgspec.json.decode(stripped)
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError):
        # Cut off, or two records in one line: the text ends where the string does.
        return [re.sub(r'(?:\\n)?"\s*[,}].*', "", text) for text in stripped.split('{"')]
    return [text for text in _texts(record) if " NCCL " in text] or [line]


def _texts(record: object) -> Iterator[str]:
    """All strings in ``record``, however deep: JSON allows no more depth than its reader."""
    waiting = [record]
    while waiting:
        one = waiting.pop()
        if isinstance(one, str):
            yield one
        elif isinstance(one, dict | list):
            waiting += reversed([*one.values()] if isinstance(one, dict) else one)


def _apart(text: str, hosts: frozenset[str] | set[str]) -> Iterator[Piece]:
    """Lines that ran together, each by itself."""
    found = [(one.start(), one.group()) for one in _PREFIX.finditer(text)]
    if len(found) < 2:
        yield Piece(_unquoted(text))
        return
    begin = 0
    for start, prefix in found[1:]:
        name = prefix.partition(":")[0]
        # What stands right before a host's name may be the end of the line before.
        host = max((host for host in hosts if name.endswith(host)), key=len, default=None)
        cut = start if host is None else start + len(name) - len(host)
        sure = host is not None or text[start - 1 : start] in (" ", '"', "'")
        yield Piece(_unquoted(text[begin:cut]), runs_on=not sure)
        begin = cut
    yield Piece(_unquoted(text[begin:]))


def _unquoted(text: str) -> str:
    """A line in quotes (a field of CSV or JSON, bytes as Python shows them) ends where its quotes do.

    >>> _unquoted("2026-11-20,'n1:7:9 [0] NCCL INFO Using network IB',stdout")
    "2026-11-20,'n1:7:9 [0] NCCL INFO Using network IB"
    """
    mark = max(text.find(" NCCL "), 0)
    begin = max(text.rfind(quote, 0, mark) for quote in "\"'")
    end = text.find(text[begin], mark) if begin >= 0 else -1
    return text if end < 0 else text[:end].rstrip("\\")
