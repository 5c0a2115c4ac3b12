"""Rows: what one rank measured since its last report, until the next report takes them along.

Rule of this file: pure. Times come in as integer nanoseconds of the rank's clock and leave as Unix seconds.
"""

from typing import NamedTuple

from paceline.events import OP_INDEX, OPS, STEP
from paceline.training.messages import Issued, LinkReport

GC, CPU_WAIT, WHOLE = OP_INDEX["gc"], OP_INDEX["cpu_wait"], OP_INDEX[STEP]


class OpRow(NamedTuple):
    """One op row as the event has it, but with its word and in Unix time."""

    step: int
    op: str
    microbatch: int
    start_s: float
    duration_s: float


class CollectiveRow(NamedTuple):
    """One collective row as the event has it, but with its words and in Unix time."""

    step: int
    seq: int
    group: str
    group_size: int
    operation: str
    bytes: int
    start_s: float
    duration_s: float
    wait_s: float


class Report(NamedTuple):
    """What a rank measured since its last report. ``lost`` counts marks that never arrived."""

    ops: list[OpRow]
    collectives: list[CollectiveRow]
    link: LinkReport | None = None
    lost: int = 0


class Collective:
    """A collective on its way from issue to result."""

    __slots__ = ("bytes", "group", "operation", "origin", "seq", "size", "start", "step", "wait")

    def __init__(self, step: int, start: int, payload: Issued) -> None:
        self.step, self.start, self.wait = step, start, 0
        self.group, self.size, self.seq, self.operation, self.bytes, self.origin = payload


class RankRows:
    """Collects one rank's finished rows; ``drain`` gives away what there is."""

    def __init__(self) -> None:
        #: Makes the rank's clock Unix time.
        self.offset_ns = 0
        self._ops: list[OpRow] = []
        self._collectives: list[CollectiveRow] = []

    def append_phase(self, step: int, op: int, microbatch: int, start: int, duration: int) -> None:
        """A phase, an overlay or (``WHOLE``) the row that closes the step."""
        self._ops.append(OpRow(step, OPS[op], microbatch, (start + self.offset_ns) / 1e9, duration / 1e9))

    def append_collective(self, done: Collective, duration: int) -> None:
        """A collective whose result is there."""
        start_s = (done.start + self.offset_ns) / 1e9
        words = (done.group, done.size, done.operation, done.bytes)
        self._collectives.append(CollectiveRow(done.step, done.seq, *words, start_s, duration / 1e9, done.wait / 1e9))

    def drop_collectives(self) -> None:
        """Forget the collectives that wait: they were told before."""
        self._collectives = []

    def drain(self, link: LinkReport | None = None, lost: int = 0) -> Report | None:
        """What there is; None where there is nothing to say."""
        report = Report(self._ops, self._collectives, link, lost)
        self._ops, self._collectives = [], []
        return report if report.ops or report.collectives or link is not None or lost else None
