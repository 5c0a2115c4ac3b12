"""A verdict as the event that every reader of findings knows.

Rule of this file: pure. The id is a function of job, attempt, kind and subject, so the same files give the same id.
"""

import hashlib
from typing import NamedTuple

from paceline.events import Cost, Coverage, Evidence, Finding

from .deciding.verdict import Verdict

_CONFIDENCE = {"certain": 0.95, "likely": 0.75, "unsure": 0.4}


class Of(NamedTuple):
    """What the files do not say: which job they are of."""

    cluster: str
    job: str
    attempt: int = 0


def finding(verdict: Verdict, of: Of, ranks: int) -> Finding:
    """The event; ``ranks`` is how many ranks the files name."""
    return Finding(
        id=_id(verdict, of),
        revision=1,
        kind=verdict.kind,
        state="suspected" if verdict.sure == "unsure" else "confirmed",
        cluster=of.cluster,
        job=of.job,
        attempt=of.attempt,
        cause=verdict.cause,
        ranks=list(verdict.ranks),
        stage=None,
        group=verdict.group,
        nodes=list(verdict.nodes),
        devices=list(verdict.devices),
        first_step=-1,
        last_step=-1,
        severity="info" if verdict.kind == "waiting" else "critical",
        confidence=_CONFIDENCE[verdict.sure],
        cost=Cost(lost_s=0.0, gpu_hours=0.0, throughput_lost_ratio=0.0),
        coverage=Coverage(ranks_expected=ranks, ranks_heard=ranks, events_missing=0),
        evidence=[
            Evidence(
                name=ground.kind,
                value=float(ground.line),
                unit="line",
                peers=None,
                rule=f"{ground.file}: {ground.quote}"[:500],
            )
            for ground in verdict.grounds
        ],
        exonerated=list(verdict.chain),
        summary=summary(verdict),
        line=verdict.line,
        others_line=verdict.others_line,
        worker_line=verdict.worker_line,
        victims=list(verdict.victims),
        seq=verdict.seq,
        operation=verdict.operation,
        sure=verdict.sure,
        next=verdict.next,
    )


def summary(verdict: Verdict) -> str:
    """The verdict in one sentence."""
    return f"{verdict.cause[:1].upper()}{verdict.cause[1:]}."


def _id(verdict: Verdict, of: Of) -> str:
    subject = (verdict.kind, verdict.ranks, verdict.nodes, verdict.group, verdict.seq)
    return hashlib.sha256(repr((of, subject)).encode()).hexdigest()[:16]
