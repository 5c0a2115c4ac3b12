"""Accusations held against the truth.

Rule of this file: pure. A fault is found when a confirmed finding of its kind names one of its ranks while it lasts
(or within ``LATE_STEPS`` after), from ``EARLY_LOOKS`` before it began at the earliest; an accusation is false when none
of its ranks has any fault. A rank that is named again and again counts once.
"""

from collections.abc import Iterable
from statistics import median
from typing import Any, NamedTuple

from experiments.detection.verdict import Accusation, Case, Injected

#: Rules with windows may speak after a fault has ended; one that speaks before it began has not found it.
LATE_STEPS, EARLY_LOOKS = 130, 12
#: A look takes so long at least: of short steps it is many.
LOOK_S = 0.2
#: Kinds that accuse nobody and say what the job is like: right or wrong, they blame no rank.
_REMARKS = {"insufficient_data", "communication_bound", "data_bound", "load_imbalance", "out_of_memory_risk"}


class Outcome(NamedTuple):
    """What one rule made of one fault; None where it did not find it."""

    case: str
    part: str
    fault: str
    size: float
    ranks: int
    length: int
    found: bool
    cause_right: bool
    suspected_s: float | None
    suspected_steps: int | None
    confirmed_s: float | None
    confirmed_steps: int | None
    cost: float | None = None


class Marks(NamedTuple):
    """What one rule made of one job."""

    case: str
    outcomes: list[Outcome]
    right: int
    false_accusations: list[str]
    false_remarks: list[str]
    hours: float
    healthy: bool


def mark(case: Case, said: Iterable[Accusation]) -> Marks:
    """How one rule did on one job."""
    said = list(said)
    outcomes = [_outcome(case, fault, said) for fault in case.faults]
    faulty = frozenset(rank for fault in case.faults for rank in fault.ranks)
    named = {
        (a.kind, rank) for a in said if a.state == "confirmed" and a.kind != "insufficient_data" for rank in a.ranks
    }
    wrong = sorted(
        {(kind, rank) for kind, rank in named if rank not in faulty and not _with_guilty(said, rank, faulty)}
    )
    right = len({rank for _, rank in named if rank in faulty})
    expected = {fault.kind for fault in case.faults} | set(case.also) | _REMARKS
    remarks = {a.kind for a in said if a.state == "confirmed" and not a.ranks and a.kind not in expected}
    return Marks(
        case.name,
        outcomes,
        right,
        [f"{kind} of rank {rank}" for kind, rank in wrong],
        sorted(remarks),
        case.hours,
        not case.faults,
    )


def _with_guilty(said: list[Accusation], rank: int, faulty: frozenset[int]) -> bool:
    """Whether ``rank`` was only ever named together with one that has a fault, as members of its group."""
    return all(a.ranks & faulty for a in said if rank in a.ranks and a.state == "confirmed")


def _outcome(case: Case, fault: Injected, said: list[Accusation]) -> Outcome:
    early = int(EARLY_LOOKS * max(LOOK_S / case.step_s, 1.0)) if case.step_s > 0 else EARLY_LOOKS
    mine = [a for a in said if _is_about(a, fault, early)]
    confirmed = [a for a in mine if a.state == "confirmed"]
    ids = {a.id for a in confirmed}
    known = (
        [a for a in mine if a.state in ("suspected", "confirmed") and (a.id in ids or not a.id)] if confirmed else []
    )
    first, sure = (min(part, key=lambda a: a.time_s, default=None) for part in (known, confirmed))
    last = max(confirmed, key=lambda a: a.time_s, default=None)
    return Outcome(
        case.name,
        case.part,
        fault.fault,
        fault.size,
        case.ranks,
        fault.last_step - fault.first_step + 1,
        bool(confirmed),
        last is not None and last.cause == fault.cause,
        *_since(first, fault),
        *_since(sure, fault),
        fault.cost,
    )


def _since(accusation: Accusation | None, fault: Injected) -> tuple[float | None, int | None]:
    if accusation is None:
        return None, None
    return max(accusation.time_s - fault.began_s, 0.0), max(accusation.step - fault.first_step + 1, 0)


def _is_about(accusation: Accusation, fault: Injected, early: int) -> bool:
    if accusation.kind != fault.kind or (fault.ranks and not accusation.ranks & fault.ranks):
        return False
    if accusation.step < 0:  # collectives without steps
        return accusation.time_s >= fault.began_s
    since = accusation.first_step if accusation.id else accusation.step
    return fault.first_step - early <= since <= fault.last_step + (0 if accusation.id else LATE_STEPS)


def summary(marks: list[Marks]) -> dict[str, Any]:
    """The figures of one rule over many jobs; None where nothing was there to measure."""
    outcomes = [outcome for one in marks for outcome in one.outcomes]
    found = [outcome for outcome in outcomes if outcome.found]
    false = sum(len(one.false_accusations) for one in marks)
    right = sum(one.right for one in marks)
    healthy_s = sum(one.hours for one in marks if one.healthy)
    healthy_false = sum(len(one.false_accusations) + len(one.false_remarks) for one in marks if one.healthy)
    return {
        "jobs": len(marks),
        "faults": len(outcomes),
        "recall": len(found) / len(outcomes) if outcomes else None,
        "precision": right / (right + false) if right + false else None,
        "cause": sum(outcome.cause_right for outcome in found) / len(found) if found else None,
        "suspected_s": _median(outcome.suspected_s for outcome in found),
        "suspected_steps": _median(outcome.suspected_steps for outcome in found),
        "confirmed_s": _median(outcome.confirmed_s for outcome in found),
        "confirmed_steps": _median(outcome.confirmed_steps for outcome in found),
        "false_accusations": false,
        "false_remarks": sum(len(one.false_remarks) for one in marks),
        "healthy_hours": healthy_s,
        "false_per_healthy_hour": healthy_false / healthy_s if healthy_s else None,
    }


def _median(values: Iterable[float | None]) -> float | None:
    known = [value for value in values if value is not None]
    return float(median(known)) if known else None
