"""A report of NCCL's RAS as text (``ncclras``, or ``verbose status`` sent to port 28028), of NCCL 2.24 and newer.

Rule of this file: pure, line by line, so that a report that is cut off says what comes before. Lines of others may
stand between. Ranks are listed only where they are few: what is said of so many ranks is kept as a number.
"""

import re
from collections.abc import Callable, Iterator

from ..evidence import RasGroup, RasProcess, RasRanks, RasReport, Source, Statement

#: With one of these a report begins, or the part of one that somebody has copied.
WORDS = (
    "Job summary",
    "Communicators... (",
    "Group     Comms",
    ") MISMATCH",
    ") INCOMPLETE",
    "Communicator ranks have different",
    "Missing communicator data from",
    "considered dead (unreachable via the RAS",
)
#: So many lines of others may stand between two of a report.
_MOST_BETWEEN = 200
#: RAS itself cuts its lists of numbers there, maybe within a number.
_LONGEST_LIST = 1000
_PLACE = (
    r"(?:GPU (?P<gpu>\d{1,4}(?: \(NVML \d{1,4}\))?) managed by process (?P<pid>\d{1,10}) "
    r"on node (?P<node>\S{1,255})"
)
_ABOUT = (
    r"(?:launched up to operation (?P<number>\d{1,19})|(?P<none>not launched any operations)"
    r"|status (?P<status>\S{1,40}))"
)
_ONE = re.compile(
    rf"Rank (?P<rank>\d{{1,7}})(?: has {_ABOUT}| reported (?P<error>.{{1,60}}?))?"
    rf"(?: -- {_PLACE}|\[process information not found\]))?$"
)
_MANY = re.compile(rf"(?P<ranks>\d{{1,7}}) ranks (?:have {_ABOUT}|reported (?P<error>.{{1,60}}))$")
_PROCESS = re.compile(
    r"Process (\d{1,10}) on node (\S{1,255}) managing GPUs? ([\d,]{1,200}(?: \(NVML [\d,]{1,200}\))?)$"
)
_COMMUNICATOR = re.compile(r"#(\d{1,7})-\d{1,7} \(([0-9a-fA-F]{1,16})\) [A-Z]{1,40}$")
_ROW = re.compile(r"(\d{1,7}) +(\d{1,9}) +\d{1,9} +\d{1,9}(?:-\d{1,9})? +(\d{1,7}) +\d{1,9} +(\S{1,40}) +(\S{1,100})$")
_TOTALS = re.compile(r"(?:\d{1,9} +\d{1,9} +\d{1,9} +)?(?:\d{1,9} +)?(\d{1,9}) +(\d{1,9})$")
_DIFFERENT = re.compile(r"Communicator ranks have different (?:(\w{1,40}) operation counts|status)$")
_AWAY = re.compile(r"Missing communicator data from (\d{1,7}) (?:(rank)|job process)")
_DEAD = re.compile(r"(\d{1,7}) job process(?: is|es are) considered dead \(unreachable via the RAS")
_LIST = re.compile(r"The (missing|unknown) ranks?: ([\d,]{1,1100})$")
#: A head, and how far in a report it is: one that is not further than the last begins another report.
_HEADS = (("NCCL version ", 1), ("Job summary", 2), ("Communicators...", 3), ("Group     Comms", 4), ("Errors", 5))


class RasText:
    """The reports of one voice."""

    def __init__(self) -> None:
        self.open = False
        self._between = 0
        self._begin(0, 0)

    def _begin(self, report: int, stage: int) -> None:
        self._report, self._stage, self._columns = report, stage, ""
        #: Whether something was read since the last head: a log may have each line twice.
        self._read = False
        self._communicator, self._group = "", -1
        self._operation, self._about = "", ""
        self._value: int | str = ""
        self._dead = False

    def line(self, text: str, source: Source) -> Iterator[Statement]:
        """Take a line."""
        text, source = text.strip(), Source("ras", source.file, source.line, source.quote)
        head = next((stage for start, stage in _HEADS if text.startswith(start)), 0)
        if head == 1 and "compiled with CUDA" not in text:
            head = 0
        again = head and (head < self._stage or (head == self._stage and self._read))
        if again or (not self.open and any(word in text for word in WORDS)):
            self._begin(source.line, head)
        elif not self.open:
            return
        self._stage = max(head, self._stage)
        self._read = self._read and not head
        if self._report == source.line:
            yield RasReport(source=source, report=self._report)
        said = next((made for one in _READ if (made := one(self, text, source)) is not None), None)
        self._read = self._read or bool(said)
        yield from said or ()
        self._between = 0 if head or said is not None else self._between + 1
        self.open = self._between < _MOST_BETWEEN

    def _table(self, text: str, source: Source) -> list[Statement] | None:
        """The heads and figures of the job's summary, and the rows of communicators."""
        if text.startswith(("(total)", "per node", "#  in group")):
            self._columns = text
            return []
        if self._columns.startswith("(total)") and (found := _TOTALS.match(text)):
            self._columns = ""
            return [RasReport(source=source, report=self._report, processes=int(found[1]), gpus=int(found[2]))]
        if self._columns.startswith("#") and (found := _ROW.match(text)):
            return [
                RasGroup(
                    source=source,
                    report=self._report,
                    group=int(found[1]),
                    communicators=int(found[2]),
                    size=int(found[3]),
                    status=found[4],
                    errors=found[5],
                )
            ]
        return None

    def _section(self, text: str, source: Source) -> list[Statement] | None:
        """Of which communicator, and of what, the lines below are."""
        if found := _COMMUNICATOR.match(text):
            self._communicator, self._group = found[2].lower().zfill(16), int(found[1])
            self._about = self._operation = ""
        elif found := _DIFFERENT.match(text):
            self._operation, self._about = found[1] or "", ""
        elif found := _AWAY.match(text):
            self._about, self._dead = "missing", False
            return [self._ranks(source, "missing", "", int(found[1])) if found[2] else self._gone(source, found)]
        elif found := _DEAD.match(text):
            self._dead = True
            return [self._gone(source, found)]
        else:
            return None
        return []

    def _gone(self, source: Source, found: re.Match[str]) -> RasProcess:
        return RasProcess(source=source, report=self._report, dead=self._dead, count=int(found[1]))

    def _listed(self, text: str, source: Source) -> list[Statement] | None:
        """Ranks and processes."""
        if found := _PROCESS.match(text):
            return [
                RasProcess(
                    source=source,
                    node=found[2],
                    report=self._report,
                    dead=self._dead,
                    pid=int(found[1]),
                    gpu=found[3],
                )
            ]
        if found := _LIST.match(text):
            numbers = found[2].split(",")[: -1 if len(found[2]) > _LONGEST_LIST else None]
            about, value = ("missing", "") if found[1] == "missing" else ("status", "UNKNOWN")
            return [self._ranks(source, about, value, member=int(one)) for one in numbers if one and len(one) < 8]
        if found := _MANY.match(text):
            self._sort(found)
            return [self._ranks(source, self._about, self._value, int(found["ranks"]))]
        if found := _ONE.match(text):
            return self._one(found, source)
        return None

    def _one(self, found: re.Match[str], source: Source) -> list[Statement] | None:
        alone = any(found[name] is not None for name in ("number", "none", "status", "error"))
        if alone:
            self._sort(found)
        elif found.end() == found.end("rank") or not self._about:
            return None
        made = self._ranks(
            source,
            self._about,
            self._value,
            member=int(found["rank"]),
            pid=int(found["pid"]) if found["pid"] else None,
            gpu=found["gpu"] or "",
            node=found["node"] or "",
        )
        return [self._ranks(source, self._about, self._value), made] if alone else [made]

    def _sort(self, found: re.Match[str]) -> None:
        """What ranks have in common."""
        if found["status"] is not None:
            self._about, self._value = "status", found["status"]
        elif found["error"] is not None:
            self._about, self._value = "error", found["error"]
        else:
            self._about, self._value = self._operation or "collective", int(found["number"] or 0)

    def _ranks(
        self,
        source: Source,
        about: str,
        value: int | str,
        ranks: int = 1,
        member: int | None = None,
        pid: int | None = None,
        gpu: str = "",
        node: str = "",
    ) -> RasRanks:
        return RasRanks(
            source=source,
            node=node,
            report=self._report,
            communicator=self._communicator,
            group=self._group,
            about=about,
            value=value,
            ranks=ranks,
            member=member,
            pid=pid,
            gpu=gpu,
        )


_READ: tuple[Callable[[RasText, str, Source], list[Statement] | None], ...] = (
    RasText._table,
    RasText._section,
    RasText._listed,
)
