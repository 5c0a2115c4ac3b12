"""What launchers, log drivers and terminals put around a line, taken off again, with what it says about the speaker.

Rule of this file: pure; patterns are anchored at the line's start and bounded, so that none can backtrack far.
"""

import re
from collections.abc import Iterator

import msgspec

from . import log_events

#: Characters of a line; what is longer is cut there.
MOST_LINE = 1 << 16
_CONTROL = re.compile(r"(?:\x1b|#033|\^\[)\[[0-?]{0,32}[ -/]{0,4}[@-~]|\x1b\][^\x07\x1b]{0,200}(?:\x07|\x1b\\)")
#: A terminal pads what it has shown with blanks, and some copy its lines as one: before what begins a line, unlike the
#: blanks within a table.
_PADDING = re.compile(
    r"(?<! ) {12,}+(?=WARNING:|ERROR:|INFO:|Traceback \(most|File \"|\[?rank\d|\[?[EWIF]\d{4} |\[[EWIF] \w"
    r"|terminate called|[A-Za-z_][\w.]{0,80}(?:Error|Exception|Interrupt|Exit): )"
)
_REPEATED = re.compile(r"\s\[repeated \d{1,9}x across (?:cluster|all nodes)\].{0,200}$")

_RANK = re.compile(r"\[rank(\d{1,7})\]:? ?")
#: How lines begin that need their speaker: only before these are words taken for a prefix that sentences have, too.
_TRACED = r"(?=\[|Traceback|  |During handling|The above exc|[A-Za-z_][\w.]{0,80}(?:Error|Exception|Interrupt|Exit)\b)"
#: What each is, the characters with which it may begin, as in a pattern, and the pattern.
_WRAPPERS: tuple[tuple[str, str, re.Pattern[str]], ...] = (
    ("cri", "0-9", re.compile(r"\d{4}-\d\d-\d\dT[\d:.]{8,20}(?:Z|[+-]\d\d:?\d\d) (?:stdout|stderr) [FP] ")),
    ("pod", r"\[", re.compile(r"\[pod/([A-Za-z0-9.-]{1,253})/[A-Za-z0-9.-]{1,63}\] ")),
    ("ray", "(", re.compile(r"\([\w.:<>,()=\[\] -]{0,120}?\bpid=(\d{1,10})(?:, ip=([\w.:-]{2,253}))?\) ")),
    ("tee", r"\[", re.compile(r"\[(default|trainer|worker)(\d{1,5})\]: ?")),
    ("mpi", r"\[", re.compile(r"\[\d{1,9},(\d{1,7})\]<std(?:out|err|diag)>: ?")),
    ("mpi", r"\[", re.compile(r"(?:\[[^\]]{8,40}\])?\[\d{1,9},(\d{1,7})\]\[?[^\]<]{0,80}\]?<std(?:out|err)>: ?")),
    # horovodrun over gloo, with times or without
    ("mpi", r"\[", re.compile(r"\[(\d{1,7})\]<std(?:out|err)>: ?")),
    (
        "mpi",
        "A-Z",
        re.compile(r"[A-Z][a-z]{2} [A-Z][a-z]{2} [ \d]\d \d\d:\d\d:\d\d \d{4}\[(\d{1,7})\]<std(?:out|err)>: ?"),
    ),
    ("stream", "s", re.compile(r"std(?:out|err): ")),  # accelerate's test of a configuration
    ("mpi", r"\[", re.compile(r"\[\d{1,9},mpirank:(\d{1,7}),[\w.-]{1,80}\]<std(?:out|err)>: ?")),  # SageMaker
    # What scripts and their loggers put there.
    ("rank", r"\[", re.compile(r"\[[Rr](?:ank)?[ =:]?(\d{1,7})(?:/\d{1,7})?\]:? ?" + _TRACED)),
    ("rank", "(rR", re.compile(r"\(?[Rr]ank[ _=:]?(\d{1,7})(?:/\d{1,7})?[:)] ?" + _TRACED)),
    ("pod", "A-Za-z", re.compile(r"([A-Za-z][\w.-]{0,80}[-_]\d{1,4}) {1,40}\| ")),  # Docker Compose
    # stern
    ("pod", "a-z", re.compile(r"([a-z][a-z0-9.-]{0,252}-\d{1,6}) [a-z][a-z0-9-]{0,62}(?: [^\w\s])? " + _TRACED)),
    ("pod", "A-Za-z", re.compile(r"([A-Za-z][\w.-]{0,80}/\d{1,6}) " + _TRACED)),  # TorchX
    (
        "determined",
        "<",
        re.compile(
            r"<[a-z]{0,10}> {1,12}\[\d{4}-\d\d-\d\d[T ]\d\d:\d\d:\d\d\] [0-9a-f]{1,16} (?:\[rank=(\d{1,7})\] )?\|\| "
        ),
    ),
    # Horovod's reports of stalls begin with a rank, too, but it is not the speaker's.
    (
        "task",
        " 0-9",
        re.compile(
            r" {0,6}(\d{1,7}): "
            r"(?!\[[^\]]{0,300}(?i:allreduce|allgather|broadcast|alltoall|reducescatter)[^ \]]{0,200}[,\]])"
        ),
    ),
    (
        "syslog",
        "A-Z",
        re.compile(
            r"[A-Z][a-z]{2} [ \d]\d \d\d:\d\d:\d\d ([A-Za-z0-9.-]{1,253}) (?:kernel|slurmstepd)(?:\[\d{1,10}\])?: "
        ),
    ),
    (
        "syslog",
        "0-9",
        re.compile(
            r"\d{4}-\d\d-\d\dT[\d:.,]{8,20}(?:Z|[+-]\d\d:?\d\d)? ([A-Za-z0-9.-]{1,253}) "
            r"(?:kernel|slurmstepd)(?:\[\d{1,10}\])?: "
        ),
    ),
    # A clock alone, as ``kubectl logs --timestamps``, ``ts`` and loggers put it.
    (
        "clock",
        r"\[0-9A-Z",
        re.compile(
            r"\[?(?:\d{4}-\d\d-\d\d[T ]|[A-Z][a-z]{2} [ \d]\d )?"
            r"\d\d:\d\d:\d\d(?:[.,]\d{1,9})?(?:Z|[+-]\d\d:?\d\d)?\]?:? "
        ),
    ),
    ("pdsh", "0-9", re.compile(r"((?:\d{1,3}\.){3}\d{1,3}): ")),
    (
        "pdsh",
        "A-Za-z",
        re.compile(r"([A-Za-z][A-Za-z0-9.-]{0,62}\d): " + _TRACED),
    ),
)
#: Most lines begin like few of them.
_BY_FIRST = {
    first: tuple((kind, pattern) for kind, begins, pattern in _WRAPPERS if re.match(f"[{begins}]", first))
    for first in map(chr, range(32, 127))
}
#: What else somebody put before a rank's own prefix: line numbers, ``host [stderr]``, a date without seconds. Each of
#: its words has a digit or a bracket, so that a sentence about a rank is none.
_OTHER = re.compile(r"(?:(?=\S{0,80}[\d\[\]|<>(){}])\S{1,80}[ \t]{1,4}){1,6}(?=\[(?:rank|default)\d{1,7}\]:)")


class Line(msgspec.Struct, frozen=True):
    """A line without its wrappers. ``voice`` is what tells one speaker of a file from another."""

    text: str
    voice: str
    rank: int | None = None
    task: int | None = None
    local_rank: int | None = None
    node: str = ""
    pid: int | None = None
    #: Ray prints one of several lines that are alike; this is one that it printed for others.
    repeated: bool = False


def texts(raw: str) -> Iterator[str]:
    """The lines in ``raw``: a record of a log driver, a progress bar that rewrites its line, lines that a terminal
    padded with blanks; colours are taken off."""
    if raw.startswith(("{", "[{")):
        raw = _record(raw)
    if not raw[:1].isspace() and _PADDING.search(raw):
        raw = _PADDING.sub(_next_line, raw)
    for part in re.split(r"[\r\n]+", raw) if "\r" in raw or "\n" in raw else (raw,):
        if "\x1b" in part or "#033" in part or "^[" in part:
            part = _CONTROL.sub("", part)
        if part.strip():
            yield part[:MOST_LINE]


def _next_line(padding: re.Match[str]) -> str:
    """What stands for ``padding``; a frame keeps its indent."""
    return "\n  " if padding.string.startswith('File "', padding.end()) else "\n"


def _record(raw: str) -> str:
    try:
        record = msgspec.json.decode(raw)
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError):
        return raw
    return log_events.text_of(record) or "\n".join(log_events.texts(record)) or raw


def unwrapped(text: str) -> Line:
    """The line in ``text``, and who its wrappers say has written it.

    >>> unwrapped("[default1]:[rank9]: ValueError: no").rank
    9
    """
    said: dict[str, str] = {}
    voice: list[str] = []
    for _ in range(6):
        if found := _RANK.match(text):
            said["rank"] = found[1]
        else:
            kind, found = _wrapper(text)
            if found is None:
                break
            _note(kind, found, said)
            if kind in ("cri", "clock", "determined", "stream", "other"):
                text = text[found.end() :]
                continue
        voice.append(found.group().strip())
        text = text[found.end() :]
    whole = text
    if " [repeated " in text:
        text = _REPEATED.sub("", text)
    number = {name: int(said[name]) for name in ("rank", "task", "local_rank", "pid") if name in said}
    return Line(text, " ".join(voice), node=said.get("node", ""), repeated=text is not whole, **number)


def _wrapper(text: str) -> tuple[str, re.Match[str] | None]:
    for kind, pattern in _BY_FIRST.get(text[:1], ()):
        if found := pattern.match(text):
            return kind, found
    return "other", _OTHER.match(text) if "[rank" in text or "[default" in text else None


def _note(kind: str, found: re.Match[str], said: dict[str, str]) -> None:
    if kind == "tee":
        said["local_rank"] = found[2]
    elif kind in ("mpi", "task"):
        said.setdefault("task", found[1])  # What follows the launcher's may be a number of the program's own.
    elif kind == "rank" or (kind == "determined" and found[1]):
        said["rank"] = found[1]
    elif kind == "ray":
        said["pid"] = found[1]
        said["node"] = found[2] or said.get("node", "")
    elif kind in ("syslog", "pdsh", "pod"):
        said["node"] = found[1]
