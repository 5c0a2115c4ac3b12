"""Which ranks' times may be compared: those of one clock, with all of their kernels; and what is said of the others.

Rule of this file: pure. A rank without all kernels keeps the steps that have theirs; one whose times are its host's,
where others' are their devices', has none. Nothing is said of who is slow.
"""

from collections.abc import Iterable

from msgspec.structs import replace

from paceline.ranges import ranges

from .kineto import RankTrace
from .notes import Notes


def comparable(ranks: dict[int, RankTrace], notes: Notes) -> dict[int, RankTrace]:
    """The ranks with what of them may be compared."""
    for number, trace in ranks.items():
        if trace.lost.kernels or (trace.apart and not (trace.lost.lengths or trace.lost.times)):
            notes.remark(_lost(number, trace))
        if trace.lost.lengths:
            notes.remark(_without(number, trace, f"{trace.lost.lengths:,} kernels have length 0"))
        if trace.lost.times:
            notes.remark(_without(number, trace, f"{trace.lost.times:,} events have no time (ts and dur are 0)"))
        if len(trace.breakdowns) > 1:
            devices = ranges([one.device for one in trace.breakdowns if one.device is not None])
            notes.remark(f"rank {number}: kernels of devices {devices}; --breakdown has each, a step the work of all")
    on_device = {number: any(one.on_device for one in trace.breakdowns) for number, trace in ranks.items()}
    out = dict(ranks)
    if any(on_device.values()):
        other = [number for number, device in on_device.items() if not device]
        for number in other:
            whole = [replace(one, whole=False) for one in ranks[number].breakdowns]
            out[number] = ranks[number]._replace(rows=[], collectives=[], steps=[], stood=[], breakdowns=whole)
        if other:
            notes.remark(
                f"rank {ranges(other)}: no kernels; its host's times are not compared with devices' of other ranks"
            )
    if len(ranks) > 1 and not _communicates(ranks.values()):
        notes.remark(
            f"no communication is recognised in the traces of {len(ranks)} ranks: waiting for others counts as work, "
            "so no rank can be named or cleared"
        )
    return out


def _communicates(traces: Iterable[RankTrace]) -> bool:
    """Whether any collective is recognised, or nothing can be said of it because kernels are lost."""
    return any(
        trace.collectives
        or trace.apart
        or trace.lost.kernels
        or trace.lost.lengths
        or trace.lost.times
        or one.exposed_communication_s
        for trace in traces
        for one in trace.breakdowns
    )


def _lost(number: int, trace: RankTrace) -> str:
    steps = f" (steps {ranges(sorted(trace.apart))})" if trace.apart else ""
    counts = (
        f"rank {number}: {trace.lost.kernels:,} of {trace.lost.launches:,} kernel launches have no kernel in the trace"
    )
    if not trace.lost.kernels:
        return f"rank {number}: no kernels in the trace of some steps{steps}; these are compared with no other rank"
    if not trace.apart and trace.rows:
        return f"{counts}: too few to matter"
    left = "these steps are" if trace.rows else "it is"
    return f"{counts}{steps}; {left} compared with no other rank"


def _without(number: int, trace: RankTrace, what: str) -> str:
    if not trace.apart and trace.rows:
        return f"rank {number}: {what}: too few to matter"
    steps = f" (steps {ranges(sorted(trace.apart))})" if trace.apart else ""
    left = "these steps are" if trace.rows else "it is"
    return f"rank {number}: {what}{steps}; {left} compared with no other rank"
