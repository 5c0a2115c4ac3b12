"""A line of a log that NCCL writes with NCCL_DEBUG=INFO: who says it, and what.

Rule of this file: pure; a table of what NCCL 2.4 to 2.28 (and RCCL) write, and how a line is taken apart. What it means
for a rank is said in ``nccl_log``. A launcher may put anything before NCCL's own prefix, ``host:pid:tid [device]``, and
other programs anything behind NCCL's words: a value ends where NCCL's grammar of it ends.
"""

import re
from collections.abc import Callable
from itertools import pairwise
from typing import NamedTuple

from paceline.events import RankFact

#: Bytes of a line; what is longer is cut there.
MOST_LINE = 4096
#: Digits of a number in it.
_DIGITS = 18
#: The name of a host, behind whatever stands before it.
_HOST = re.compile(r"[A-Za-z0-9_.-]{1,200}$", re.ASCII)
_MARKS = (" NCCL INFO ", " NCCL WARN ")


class Speaker(NamedTuple):
    """A thread of a process on a host, and the device that NCCL puts in brackets."""

    host: str
    pid: int
    tid: int
    device: str


class Init(NamedTuple):
    """A rank has joined, or begins to join, a communicator."""

    rank: int
    size: int
    #: What its members have in common: NCCL's id of it; "" in logs before 2.14.
    id: str
    complete: bool


class Channel(NamedTuple):
    """A connection to a peer: between nodes (``NET/IB``, with GPUDirect or not), or inside one."""

    between: str
    inside: str
    direct: bool


class Told(NamedTuple):
    """A fact of a process, or of the communicator that a thread sets up: its name and the word."""

    fact: str
    word: str


class Warned(NamedTuple):
    """A warning."""

    text: str


_INIT = re.compile(
    r"comm 0x[0-9a-fA-F]+ rank (\d{1,18}) nranks (\d{1,18})\b.{0,400}? ?- Init (START|COMPLETE)", re.ASCII
)
_COMM_ID = re.compile(r" commId (0x[0-9a-fA-F]{1,64})\b", re.ASCII)
_CHANNEL = re.compile(
    r"(?:Channel|Ring) \d+(?:/\d+)? : \d+(?:\[\w+\])? -> \d+(?:\[\w+\])? (?:\[(?:send|receive)\] )?via "
    r"(NET/(?:AWS )?\w+(?:/\S*)?|P2P/(?:direct pointer|\w+)|\w+)",
    re.ASCII,
)
_CHANNELS = re.compile(
    r"(\d+) coll channels, (?:\d+ collnet channels, )?(?:(\d+) nvls channels, )?(\d+) p2p channels", re.ASCII
)
_VARIABLE = re.compile(r"(NCCL_[A-Z0-9_]{1,60}) set (?:by environment )?to (\S+)", re.ASCII)
#: RCCL adds its commit: "2.18.3+hip6.0 HEAD:2f6d59e+", and since ROCm 6.3 "2.22.3-HEAD:7d8d67c".
_VERSION = re.compile(
    r"(?:NCCL|RCCL) version (?:: )?(\d{1,4}(?:\.\d{1,4}){1,3}(?:rc\d{1,3})?(?:-\d{1,4})?"
    r"(?:\+[a-z]{2,8}\d{1,4}(?:\.\d{1,4}){0,2})?(?:[ -][\w./-]{1,40}:[0-9a-f]{7,40}\+?)?)",
    re.ASCII,
)


def _driver(number: str) -> str:
    """12040 as people write it: 12.4."""
    return f"{int(number) // 1000}.{int(number) % 1000 // 10}"


def _as_it_is(word: str) -> str:
    return word


#: How a fact of a process is told: the fact, the whole text with the word in it, and how the word is read.
_FACTS: tuple[tuple[RankFact, re.Pattern[str], Callable[[str], str]], ...] = (
    ("nccl_version", _VERSION, _as_it_is),
    ("cuda_driver", re.compile(r"cudaDriverVersion (\d{4,6})(?!\d)", re.ASCII), _driver),
    ("network", re.compile(r"(?:Using network|Assigned NET plugin) ((?:AWS )?\S+)"), _as_it_is),
    ("net_plugin", re.compile(r"NET/Plugin ?: .*?Loaded net plugin ((?:\S+ )?\S+ \(v\d+\)|\S+)"), _as_it_is),
    ("net_plugin", re.compile(r"P2P plugin (\S+)"), _as_it_is),
    ("net_plugin", re.compile(r"NET/Plugin ?: .*?([Uu]sing internal).*"), lambda _: "internal"),
)

Line = Init | Channel | Told | Warned


def speech(line: str) -> tuple[Speaker, Line | None] | None:
    """Who says ``line``, and what; None where it is no line of NCCL's, or has no word that is read.

    >>> speech("n1:7:9 [0] NCCL INFO Using network Socket")
    (Speaker(host='n1', pid=7, tid=9, device='0'), Told(fact='network', word='Socket'))
    """
    mark = next((mark for mark in _MARKS if mark in line), None)
    if mark is None:
        return None
    head, _, text = line.partition(mark)
    speaker = _speaker(head)
    if speaker is None:
        return None
    text = text.strip()
    return speaker, Warned(text[:200]) if "WARN" in mark else _said(text)


def bare_version(line: str) -> str | None:
    """The version in a line without NCCL's prefix, as one rank writes it for all: by itself, it names nobody."""
    found = _VERSION.fullmatch(line.strip())
    return found[1] if found else None


def _speaker(head: str) -> Speaker | None:
    """Of what stands before the mark: ``host:pid:tid [device]``, and in a warning the place in NCCL's source."""
    for word, device in pairwise(head.split()[-3:]):
        parts = word.rsplit(":", 2)
        if len(parts) == 3 and _number(parts[1]) and _number(parts[2]) and device[:1] + device[-1:] == "[]":
            host = _HOST.search(parts[0])
            return Speaker(host[0] if host else "", int(parts[1]), int(parts[2]), device[1:-1][:20])
    return None


def _number(text: str) -> bool:
    return text.isascii() and text.isdigit() and len(text) <= _DIGITS


def _said(text: str) -> Line | None:
    if " - Init " in text:
        return _init(text)
    if text.startswith(("Channel ", "Ring ")):
        found = _CHANNEL.match(text)
        return _channel(found[1]) if found else None
    channels = _CHANNELS.match(text)
    if channels is not None:
        nvls = f", {channels[2]} nvls" if channels[2] not in (None, "0") else ""
        return Told("channels", f"{channels[1]} coll{nvls}, {channels[3]} p2p"[:200])
    variable = _VARIABLE.match(text)
    if variable is not None:
        return Told(variable[1], variable[2].strip().removesuffix(".")[:200])
    for fact, pattern, read in _FACTS:
        told = pattern.match(text)
        if told is not None:
            return Told(fact, read(told[1].strip())[:200])
    return None


def _init(text: str) -> Init | None:
    found = _INIT.search(text)
    if found is None:
        return None
    comm = _COMM_ID.search(text)
    return Init(int(found[1]), int(found[2]), comm[1] if comm else "", found[3] == "COMPLETE")


def _channel(via: str) -> Channel | None:
    """``NET/IB/0/GDRDMA``, ``P2P/CUMEM``, ``SHM/direct/direct comm 0x1 nRanks 08``: what of it is one of a few words.

    >>> _channel("NET/IB/0(3)/GDRDMA"), _channel("P2P/CUMEM/read")
    (Channel(between='NET/IB', inside='', direct=True), Channel(between='', inside='P2P/CUMEM', direct=False))
    """
    parts = via.partition(" comm 0x")[0].strip().split("/")
    if parts[0] == "NET" and len(parts) > 1:
        return Channel(f"NET/{parts[1]}"[:60], "", any(part.startswith("GDRDMA") for part in parts))
    if parts[0] == "SHM":
        return Channel("", "SHM", direct=False)
    if parts[0] == "P2P":
        return Channel("", "/".join(parts[:2])[:60], direct=False)
    return None
