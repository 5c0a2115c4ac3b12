"""A report of NCCL's RAS as JSON (``ncclras -f json``, or ``set format json``), of NCCL 2.28.7 and newer.

Rule of this file: pure. It is read token by token, not decoded: NCCL 2.28 leaves out a comma before the status of a
rank that is missing, a file may hold several reports or words of ``nc`` around them, and one that is cut off says what
comes before. A rank counts if it is complete.
"""

import re
from collections import defaultdict
from collections.abc import Iterator

import msgspec

from ..evidence import RasGroup, RasProcess, RasRanks, RasReport, Source, Statement

#: Ranks of all reports in a file.
_MOST_LISTED = 200_000
_MOST_NUMBER = 10_000_000
_MOST_OPERATIONS = 32
_TOKEN = re.compile(
    r'"([^"\n]{1,100})"[ \t]{0,200}:[ \t]{0,200}(?:"([^"\n]{0,300})"|(-?\d{1,19})(?![\d.])|(true|false))?|([}\n])'
)
_RESULTS = {
    1: "Unhandled CUDA error",
    2: "System error",
    3: "Internal error",
    4: "Invalid argument",
    5: "Invalid usage",
    6: "Remote process error",
}
#: Success, and in progress: no errors.
_FINE = (0, 7)
_HASH = re.compile(r"0x([0-9a-fA-F]{1,16})$")


def holds(data: bytes) -> bool:
    """Whether a report is in it."""
    return b'"communicators_count"' in data and b'"nccl_version"' in data


class _Rank(msgspec.Struct):
    """A rank as far as it was read; ``away`` if its communicator lacks it."""

    line: int
    away: bool
    number: int
    host: str = ""
    pid: int | None = None
    #: What else is said of it by name: numbers, and true and false as 1 and 0.
    facts: dict[str, int] = msgspec.field(default_factory=dict)
    counts: dict[str, int] = msgspec.field(default_factory=dict)


class _Communicator(msgspec.Struct):
    """A communicator as far as it was read."""

    line: int
    name: str
    size: int = 0
    ranks: list[_Rank] = msgspec.field(default_factory=list)


class _Report(msgspec.Struct):
    """A report as far as it was read."""

    line: int
    time: str = ""
    communicators: list[_Communicator] = msgspec.field(default_factory=list)


def statements(text: str, name: str) -> list[Statement]:
    """What the reports in ``text`` say."""
    reader, line = _Reader(), 1
    for found in _TOKEN.finditer(text):
        key, word, number, flag, mark = found.groups()
        if mark == "\n":
            line += 1
        elif mark:
            reader.closes()
        else:
            reader.names(key, line, word or "", int(number) if number else int(flag == "true"))
    return [said for report in reader.reports for said in _said(report, name)]


class _Reader:
    """The reports, with their complete ranks, from names with their values and closing braces."""

    def __init__(self) -> None:
        self.reports: list[_Report] = []
        self._rank: _Rank | None = None
        self._left = _MOST_LISTED
        #: The part of a rank that is open.
        self._section = ""
        self._away = self._ended = False

    def closes(self) -> None:
        """A brace: of a part of a rank, or of the rank."""
        if self._rank is not None and not self._section and self._left:
            if {"init_state", "unresponsive"} & set(self._rank.facts):
                self.reports[-1].communicators[-1].ranks.append(self._rank)
                self._left -= 1
            self._rank = None
        self._section = ""

    def names(self, key: str, line: int, word: str, number: int) -> None:
        """A name, with the word or number behind it; "" and 0 where there is none."""
        if key == "nccl_version":
            self.reports.append(_Report(line))
            self._rank, self._section, self._ended = None, "", False
        elif self._ended or not self.reports:
            return
        elif key == "ras":
            self._rank, self._ended = None, True
        elif key == "timestamp":
            self.reports[-1].time = word
        elif key == "hash":
            if hashed := _HASH.match(word):
                self.reports[-1].communicators.append(_Communicator(line, hashed[1].lower().zfill(16)))
                self._rank, self._away = None, False
        elif self.reports[-1].communicators:
            self._of_communicator(key, line, word, number)

    def _of_communicator(self, key: str, line: int, word: str, number: int) -> None:
        if key in ("ranks", "missing_ranks"):
            self._away = key == "missing_ranks"
        elif key == "size":
            self.reports[-1].communicators[-1].size = number if 0 < number < _MOST_NUMBER else 0
        elif key == "rank":
            self._rank = _Rank(line, self._away, number) if 0 <= number < _MOST_NUMBER else None
            self._section = ""
        elif self._rank is not None and key in ("status", "collective_counts"):
            self._section = key
        elif self._rank is not None:
            _note(self._rank, self._section, key, word, number)


def _note(rank: _Rank, section: str, key: str, word: str, number: int) -> None:
    if section == "collective_counts":
        if len(rank.counts) < _MOST_OPERATIONS:
            rank.counts[key[:40]] = max(number, 0)
    elif section == "status" or key in ("cuda_dev", "nvml_dev"):
        rank.facts[key] = number
    elif key == "host":
        rank.host = word[:255]
    elif key == "pid":
        rank.pid = number if 0 < number < 1 << 32 else None


def _said(report: _Report, name: str) -> Iterator[Statement]:
    devices = {
        (rank.host, rank.pid, rank.facts.get("nvml_dev"), rank.facts.get("cuda_dev"))
        for communicator in report.communicators
        for rank in communicator.ranks
    }
    yield RasReport(
        source=Source("ras", name, report.line),
        report=report.line,
        time=report.time,
        processes=len({(host, pid) for host, pid, *_ in devices}),
        gpus=len(devices),
    )
    for index, communicator in enumerate(report.communicators):
        yield from _of_communicator(report.line, index, communicator, name)


def _of_communicator(report: int, index: int, communicator: _Communicator, name: str) -> Iterator[Statement]:
    def ranks(line: int, about: str, value: int | str, count: int = 1, rank: _Rank | None = None) -> RasRanks:
        whose = "" if rank is None else f"rank {rank.number} of "
        return RasRanks(
            source=Source("ras", name, line, f"{whose}communicator {communicator.name}"),
            node=rank.host if rank else "",
            report=report,
            communicator=communicator.name,
            group=index,
            about=about,
            value=value,
            ranks=count,
            member=rank.number if rank else None,
            pid=rank.pid if rank else None,
            gpu=_gpu(rank) if rank else "",
        )

    yield RasGroup(
        source=Source("ras", name, communicator.line, f"communicator {communicator.name}"),
        report=report,
        group=index,
        communicators=1,
        size=communicator.size,
        status="",
        errors="",
    )
    for (about, value), members in _alike(communicator.ranks):
        yield ranks(communicator.line, about, value, len(members))
        if about in ("missing", "error") or len(members) * 2 <= communicator.size:
            yield from (ranks(rank.line, about, value, rank=rank) for rank in members)
    for rank in communicator.ranks:
        yield ranks(rank.line, "place", "", rank=rank)
        if rank.away and rank.facts.get("unresponsive"):
            yield RasProcess(
                source=Source("ras", name, rank.line, f"rank {rank.number} of communicator {communicator.name}"),
                node=rank.host,
                report=report,
                dead=bool(rank.facts.get("considered_dead")),
                pid=rank.pid,
                gpu=_gpu(rank),
            )


def _alike(ranks: list[_Rank]) -> Iterator[tuple[tuple[str, int | str], list[_Rank]]]:
    """Ranks by what is said of them, as the text has it."""
    made: dict[tuple[str, int | str], list[_Rank]] = defaultdict(list)
    for rank in ranks:
        made[_status(rank)].append(rank)
        for fact in ("init_state", "async_error"):
            if (code := rank.facts.get(fact, 0)) not in _FINE:
                made["error", _RESULTS.get(code, "Unexpected error")].append(rank)
        for operation, number in rank.counts.items():
            made[operation, number].append(rank)
    yield from made.items()


def _status(rank: _Rank) -> tuple[str, str]:
    said = rank.facts
    if rank.away:
        return ("missing", "") if said.get("unresponsive") else ("status", "NOCOMM")
    if said.get("abort_flag"):
        return "status", "ABORT"
    if said.get("finalize_called") or said.get("destroy_flag"):
        return "status", "FINALIZE"
    return "status", "INIT" if said.get("init_state") else "RUNNING"


def _gpu(rank: _Rank) -> str:
    """As the text names it: the number within the process, and that of the machine where it differs."""
    own, machine = rank.facts.get("cuda_dev"), rank.facts.get("nvml_dev")
    if own is None or machine is None or own == machine:
        return "" if own is None else str(own)
    return f"{own} (NVML {machine})"
