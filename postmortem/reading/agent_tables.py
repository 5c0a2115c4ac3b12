"""The table that torchrun's agent prints of the ranks of its node, row by row.

Rule of this file: pure. The agent lists who failed, and as root cause the first exit that it saw: an exit, not a cause.
A rank that ended with 0 is not in it. A table among whose lines are those of another is left out from there on.
"""

import re
from collections.abc import Iterator
from datetime import UTC, datetime

from ..evidence import Exit, Placed, Source, Statement

_FIELD = re.compile(r"\s{1,8}(time|host|rank|exitcode|error_file)\s{0,8}: (.{1,400})$")
_RANK = re.compile(r"(\d{1,7}) \(local_rank: (\d{1,5})\)")
_EXIT = re.compile(r"(-?\d{1,4}) \(pid: (\d{1,10})\)")


class AgentTable:
    """The rows of one voice's table."""

    def __init__(self) -> None:
        self.open = False
        self._root = False
        self._fields: dict[str, str] = {}
        self._last: Exit | None = None

    def line(self, text: str, source: Source) -> Iterator[Statement]:
        """Take a line; a row is complete with its exit code."""
        if text.startswith(("Failures:", "Root Cause (first observed failure)")):
            self.open, self._root, self._fields = True, text.startswith("Root"), {}
            return
        if not self.open:
            return
        if text.startswith("====") and self._root:
            self.open = False
        elif found := _FIELD.match(text):
            if (
                self._fields.get(found[1], found[2].strip()) != found[2].strip()
            ):  # Two agents' tables, line by line: whose the next is nothing says.
                self.open = False
                return
            self._fields[found[1]] = found[2].strip()
            if found[1] == "exitcode":
                yield from self._row(source)
                self._fields = {}
            elif found[1] == "error_file" and self._last is not None:
                yield from self._folder(self._last, found[2].strip(), source)

    def _row(self, source: Source) -> Iterator[Statement]:
        self._last = None
        rank, exit_code = _RANK.match(self._fields.get("rank", "")), _EXIT.match(self._fields["exitcode"])
        if not rank or not exit_code:
            return
        node, pid, local = self._fields.get("host", ""), int(exit_code[2]), int(rank[2])
        self._last = Exit(
            rank=int(rank[1]),
            node=node,
            source=source,
            code=int(exit_code[1]),
            pid=pid,
            local_rank=local,
            first=self._root,
            time_s=_seconds(self._fields.get("time", "")),
        )
        yield self._last
        yield Placed(rank=int(rank[1]), node=node, source=source, pid=pid, local_rank=local)

    def _folder(self, row: Exit, file: str, source: Source) -> Iterator[Statement]:
        """Where the rank's output lies: ``/tmp/torchelastic_x/none_y/attempt_0/1/error.json``."""
        folder, _, name = file.rpartition("/")
        if name == "error.json":
            yield Placed(rank=row.rank, node=row.node, source=source, local_rank=row.local_rank, folder=folder)


def _seconds(clock: str) -> float | None:
    """Of ``2026-09-07_13:02:58``."""
    try:
        return datetime.strptime(clock, "%Y-%m-%d_%H:%M:%S").replace(tzinfo=UTC).timestamp()
    except ValueError:
        return None
