"""Rows: what one rank measured since its last report, column by column, until a report takes them.

Rule of this file: pure. Times come in as integer nanoseconds of one monotonic clock; ``offset_ns`` makes
them Unix time.
"""

import msgspec

from paceline.events import OVERLAYS, PHASES, STEP
from paceline.training.messages import Issued, LinkReport

_NAMES = (*PHASES, *OVERLAYS, STEP)
GC, CPU_WAIT, WHOLE = len(PHASES), len(PHASES) + 1, len(PHASES) + 2


class Report(msgspec.Struct, frozen=True, kw_only=True):
    """What a rank measured: op rows and collective rows, as in the events, but with words and absolute times.

    Times ``*_s`` are Unix seconds; the batch builds the vocabularies. ``lost`` counts marks that never arrived.
    """

    step: list[int]
    op: list[str]
    microbatch: list[int]
    start_s: list[float]
    duration_s: list[float]
    c_step: list[int]
    c_seq: list[int]
    c_group: list[str]
    c_group_size: list[int]
    c_operation: list[str]
    c_bytes: list[int]
    c_start_s: list[float]
    c_duration_s: list[float]
    c_wait_s: list[float]
    link: LinkReport | None = None
    lost: int = 0


class Collective:
    """A collective on its way from issue to result."""

    __slots__ = ("bytes", "group", "operation", "origin", "seq", "size", "start", "step", "wait")

    def __init__(self, step: int, start: int, payload: Issued) -> None:
        self.step, self.start, self.wait = step, start, 0
        self.group, self.size, self.seq, self.operation, self.bytes, self.origin = payload


class Rows:
    """Collects finished rows. ``phase`` and ``collective`` add one; ``take`` gives away what there is as reports."""

    def __init__(self) -> None:
        self._phases: list[tuple[int, int, int, int, int]] = []
        self._collectives: list[tuple[Collective, int]] = []

    def phase(self, step: int, op: int, microbatch: int, start: int, duration: int) -> None:
        """A phase, an overlay or (``WHOLE``) the row that closes the step."""
        self._phases.append((step, op, microbatch, start, duration))

    def collective(self, found: Collective, duration: int) -> None:
        """A collective whose result is there."""
        self._collectives.append((found, duration))

    def take(self, offset_ns: int, link: LinkReport | None = None, lost: int = 0) -> Report | None:
        """What there is, with times made absolute by ``offset_ns``; None where there is nothing to say."""
        phases, self._phases = self._phases, []
        collectives, self._collectives = self._collectives, []
        if not (phases or collectives or link is not None or lost):
            return None
        return _report(phases, collectives, offset_ns, link, lost)


def _report(
    phases: list[tuple[int, int, int, int, int]],
    collectives: list[tuple[Collective, int]],
    offset_ns: int,
    link: LinkReport | None,
    lost: int,
) -> Report:
    return Report(
        step=[row[0] for row in phases],
        op=[_NAMES[row[1]] for row in phases],
        microbatch=[row[2] for row in phases],
        start_s=[(row[3] + offset_ns) / 1e9 for row in phases],
        duration_s=[row[4] / 1e9 for row in phases],
        c_step=[row.step for row, _ in collectives],
        c_seq=[row.seq for row, _ in collectives],
        c_group=[row.group for row, _ in collectives],
        c_group_size=[row.size for row, _ in collectives],
        c_operation=[row.operation for row, _ in collectives],
        c_bytes=[row.bytes for row, _ in collectives],
        c_start_s=[(row.start + offset_ns) / 1e9 for row, _ in collectives],
        c_duration_s=[duration / 1e9 for _, duration in collectives],
        c_wait_s=[row.wait / 1e9 for row, _ in collectives],
        link=link,
        lost=lost,
    )
