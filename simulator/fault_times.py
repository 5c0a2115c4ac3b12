"""Faults that begin and end at moments of a job, as the steps that they hit.

Rule of this file: it runs the job's timeline once, before the job is told, and makes no messages. A step is hit where
it starts within the fault; an earlier fault moves all that follows, so boundaries are found one after the other.
"""

import copy
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from .dependencies import run
from .fault import Fault
from .inject import inject
from .spec import Spec
from .work import Array, Draws, Work

#: A boundary that no step has reached yet.
_NEVER = 2**40


@dataclass(frozen=True)
class TimedFault:
    """``fault`` from ``begin_s`` until ``end_s``, seconds since the job began; its own steps say nothing."""

    fault: Fault
    begin_s: float
    end_s: float


def placed(spec: Spec, timed: list[TimedFault], until_s: float, cells: int) -> tuple[Fault, ...]:
    """The faults in steps of the job, which ends at ``until_s``; those that no step starts in are left out.

    The steps are those of ``Job(spec, until_s, cells)``.
    """
    faults = [replace(one.fault, first=_NEVER, last=_NEVER) for one in timed]
    draws, before, left_s, first = Draws(spec), np.zeros(spec.ranks), 0.0, 0
    count = spec.steps_within(cells)
    kept = 0
    while timed and left_s <= until_s:
        work = draws.draw(first, count)
        starts = _starts(spec, work, faults, first, before, left_s)
        while True:
            found = [_crossing(one, fault, starts[:-1], first) for one, fault in zip(timed, faults, strict=True)]
            soonest = min(step for step, _ in found)
            if soonest == _NEVER:
                break
            faults = [
                replace(fault, **change) if step == soonest else fault
                for fault, (step, change) in zip(faults, found, strict=True)
            ]
            starts = _starts(spec, work, faults, first, before, left_s)
        hung = min((fault.first for fault in faults if fault.kind == "hang"), default=_NEVER)
        kept = min(first + int(np.searchsorted(starts[1:], until_s, side="right")), hung + 1)
        before, left_s, first = work.optimizer[-1], float(starts[-1]), first + count
        if hung < first:
            break
    ended = [replace(fault, last=min(fault.last, kept - 1)) for fault in faults]
    return tuple(fault for fault in ended if fault.first <= fault.last)


def _crossing(one: TimedFault, fault: Fault, starts: Array, first: int) -> tuple[int, dict[str, Any]]:
    """The next of the fault's boundaries within these steps, and what it makes of the fault."""
    ahead = fault.first == _NEVER
    if not ahead and fault.last != _NEVER:
        return _NEVER, {}
    at = int(np.searchsorted(starts, one.begin_s if ahead else one.end_s, side="left"))
    if at == starts.size:
        return _NEVER, {}
    step = first + at
    return step, {"first": step} if ahead else {"last": step - 1}


def _starts(spec: Spec, work: Work, faults: list[Fault], first: int, before: Array, left_s: float) -> Array:
    """When each step from ``first`` on starts, and when the last one ends."""
    hit = copy.deepcopy(work)
    for fault in faults:
        inject(hit, fault, first, spec)
    return np.concatenate([[left_s], left_s + np.cumsum(run(hit, spec, before).leave)])
