"""From an episode to the finding that people and programs read: of a rank, a job or a node.

Rule of this file: the only place that makes a ``Finding``: its id, how grave and how sure it is, its cost, its
rounding, and what is said when it is over. What is said of it before, and the numbers that speak for it, come from the
detector's own module as ``Said``.
"""

import hashlib
import math
import re
from typing import Any, NamedTuple

import msgspec

from paceline.events import Cost, Coverage, Evidence, Finding, FindingKind, Severity

from .lifecycle import FINAL
from .tracker import Episode

#: Share of the step lost from which an episode is called critical.
_CRITICAL = 0.5
#: The first and last step of a finding that knows no steps.
NO_STEP = -1
#: The end of a sentence: no decimal point, nor the full stop in a file's name.
_FULL_STOP = re.compile(r"\.(?:\s|$)")


class JobKey(NamedTuple):
    """The attempt of a job that a finding belongs to."""

    cluster: str
    job: str
    attempt: int


class Subject(NamedTuple):
    """What was found, and of whom. ``name`` goes into the id: it stays the same while an episode lasts."""

    kind: FindingKind
    name: str
    ranks: tuple[int, ...] = ()
    stage: int | None = None
    group: str | None = None
    nodes: tuple[str, ...] = ()
    devices: tuple[str, ...] = ()
    #: Whether its episodes are counted in the job's steps; samples of a node know none.
    has_steps: bool = True


class Blocked(NamedTuple):
    """Where code is blocked or ended: the lines of those accused, the others and a loader's worker, who only waits, in
    which collective, the command to run next, and how sure that is; "" and None where that is not known."""

    line: str
    others_line: str
    victims: tuple[int, ...]
    seq: int | None
    operation: str
    next: str
    sure: str = ""
    worker_line: str = ""


class Said(NamedTuple):
    """What a detector says of an episode: the numbers that speak for it, a sentence, and what was cleared.

    ``over`` is said when it has ended; without it the first sentence is, as no longer so. ``severity`` and
    ``confidence`` are given where something else than the time lost and the margin over the threshold tells them.
    """

    subject: Subject
    evidence: list[Evidence]
    summary: str
    cleared: tuple[str, ...] = ()
    over: str = ""
    severity: Severity | None = None
    confidence: float | None = None
    #: Where ranks wait for each other in a collective that does not end, or where one ended.
    blocked: Blocked | None = None
    #: Which finding of its kind takes its place where it ends: the name of its subject, and where it began.
    replaced_by: tuple[str, int] | None = None


def finding(episode: Episode[Any, Any], said: Said, job: JobKey, coverage: Coverage) -> Finding:
    """The finding of ``episode``, as it stands."""
    subject = said.subject
    over = episode.state in FINAL
    severity = said.severity or _severity(_lost_ratio(episode))
    steps = (episode.first_step, episode.last_step) if subject.has_steps else (NO_STEP, NO_STEP)
    made = Finding(
        id=finding_id(*job, subject.kind, subject.name, int(episode.first)),
        revision=episode.revision,
        kind=subject.kind,
        state=episode.state or "suspected",
        cluster=job.cluster,
        job=job.job,
        attempt=job.attempt,
        cause=episode.cause,
        ranks=list(subject.ranks),
        stage=subject.stage,
        group=subject.group,
        nodes=list(subject.nodes),
        devices=list(subject.devices),
        first_step=steps[0],
        last_step=steps[1],
        severity="info" if over else severity,
        confidence=_confidence(episode, coverage) if said.confidence is None else said.confidence,
        cost=_cost(episode, coverage),
        coverage=coverage,
        evidence=said.evidence,
        exonerated=list(said.cleared),
        summary=(said.over or _no_longer(said.summary, episode)) if over else said.summary,
    )
    if over and said.replaced_by is not None:
        made = msgspec.structs.replace(made, replaced_by=finding_id(*job, subject.kind, *said.replaced_by))
    return made if said.blocked is None else _with_place(made, said.blocked)


def _with_place(made: Finding, blocked: Blocked) -> Finding:
    """``made`` with what is known of where the code is."""
    known = {name: word for name, word in blocked._asdict().items() if word not in ("", None)}
    return msgspec.structs.replace(made, **known | {"victims": list(blocked.victims)})


def finding_id(cluster: str, job: str, attempt: int, kind: str, subject: str, first: int) -> str:
    """The id of an episode: a function of what it is about and where it began, so every replay gives the same.

    >>> finding_id("default", "demo", 0, "straggler", "rank 2", 61)
    'straggler-0ebee0f92a8738f4'
    """
    text = "\x1f".join((cluster, job, str(attempt), kind, subject, str(first)))
    return f"{kind}-{hashlib.sha256(text.encode()).hexdigest()[:16]}"


def nth(name: str, times: int) -> str:
    """The name of the ``times``-th episode of ``name``, where two of them may begin at the same step.

    >>> nth("rank 3 link", 1), nth("rank 3 link", 2)
    ('rank 3 link', 'rank 3 link time 2')
    """
    return f"{name} time {times}" if times > 1 else name


def number(name: str, value: float, unit: str, peers: float | None, rule: str) -> Evidence:
    """One piece of evidence, rounded for the wire.

    >>> number("lateness", 0.12345678, "s/step", None, "median peer").value
    0.123457
    """
    return Evidence(
        name=name, value=_rounded(value), unit=unit, peers=None if peers is None else _rounded(peers), rule=rule
    )


def of_launch(one: Finding, launch: str) -> Finding:
    """``one`` with an id of its own: a finding of an earlier launch of its attempt may have begun at the same step."""
    if not launch:
        return one
    by = one.replaced_by
    return msgspec.structs.replace(
        one, id=_of_launch(one.id, launch), replaced_by=_of_launch(by, launch) if isinstance(by, str) else by
    )


def _of_launch(name: str, launch: str) -> str:
    digest = hashlib.sha256(f"{name}\x1f{launch}".encode()).hexdigest()[:16]
    return f"{name.rpartition('-')[0]}-{digest}"


def closed(one: Finding) -> Finding:
    """``one`` when the launch that it was found in is over and another of its name is judged."""
    summary = f"The run of {one.job} that this was found in has ended; another run of this name reports now."
    return msgspec.structs.replace(one, revision=one.revision + 1, state="recovered", severity="info", summary=summary)


def _rounded(value: float) -> float:
    return round(value, 6) if math.isfinite(value) else 0.0


def _no_longer(summary: str, episode: Episode[Any, Any]) -> str:
    return f"{_FULL_STOP.split(summary, maxsplit=1)[0]}: no longer so at step {episode.last_step}."


def _lost_ratio(episode: Episode[Any, Any]) -> float:
    ratio: float = episode.lost_s / episode.span_s if episode.span_s > 0 else 0.0
    return ratio


def _cost(episode: Episode[Any, Any], coverage: Coverage) -> Cost:
    """What the episode has cost: every rank of the job stood or worked through the seconds lost."""
    ranks = max(coverage.ranks_expected, coverage.ranks_heard, 1)
    return Cost(
        lost_s=round(episode.lost_s, 3),
        gpu_hours=round(episode.lost_s * ranks / 3600 + episode.gpu_hours, 6),
        throughput_lost_ratio=round(min(max(_lost_ratio(episode), 0.0), 1.0), 4),
    )


def _confidence(episode: Episode[Any, Any], coverage: Coverage) -> float:
    """How sure: rises with the margin over the bar and with time, falls with what was not heard."""
    heard = coverage.ranks_heard / coverage.ranks_expected if coverage.ranks_expected else 1.0
    margin: float = episode.measured.margin
    sure = 1.0 - 0.3 / max(margin, 1.0)
    if episode.state == "suspected":
        sure *= 0.7
    return round(min(sure, 0.99) * min(heard, 1.0), 3)


def _severity(lost_ratio: float) -> Severity:
    """How grave: by the share of the time that is lost."""
    return "critical" if lost_ratio >= _CRITICAL / (1 + _CRITICAL) else "warning"
