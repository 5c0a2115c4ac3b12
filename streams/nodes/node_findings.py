"""From an episode on a node to the finding that people and programs read.

Rule of this file: words, rounding and the fixed names of the wire; no judgement is made here.
"""

from datetime import UTC, datetime

from paceline.events import Cost, Coverage, Evidence, Finding, FindingKind

from ..episodes.episode import finding_id
from .tracker import Fact, Seat, Spell

#: Samples of a node know no steps.
NO_STEP = -1
#: DeviceProcess names a job and no attempt.
NO_ATTEMPT = 0
_FIRST: dict[FindingKind, str] = {
    "idle_device": "does nothing",
    "out_of_memory_risk": "is filling up",
    "load_imbalance": "are not equally busy",
}


def finding(spell: Spell, cluster: str, node: str, coverage: Coverage) -> Finding:
    """The finding of ``spell``, as it stands."""
    state = spell.state or "suspected"
    program = spell.subject.startswith("program ")
    return Finding(
        id=finding_id(cluster, spell.seat.job, NO_ATTEMPT, spell.kind, f"{node} {spell.subject}", int(spell.first_s)),
        revision=spell.revision,
        kind=spell.kind,
        state=state,
        cluster=cluster,
        job=spell.seat.job,
        attempt=NO_ATTEMPT,
        cause=spell.cause,
        ranks=[] if spell.kind == "load_imbalance" else sorted(spell.seat.ranks),
        stage=None,
        group=None,
        nodes=[node],
        devices=list(spell.seat.devices),
        first_step=NO_STEP,
        last_step=NO_STEP,
        severity=spell.severity,
        confidence=_confidence(spell, program=program),
        cost=Cost(lost_s=0.0, gpu_hours=round(spell.gpu_hours, 6), throughput_lost_ratio=0.0),
        coverage=coverage,
        evidence=[_evidence(fact) for fact in spell.facts.values()] + [_length(spell)],
        exonerated=_exonerated(spell, program=program),
        summary=_summary(spell, node),
    )


def _evidence(fact: Fact) -> Evidence:
    peers = None if fact.peers is None else round(fact.peers, 6)
    return Evidence(name=fact.name, value=round(fact.value, 6), unit=fact.unit, peers=peers, rule=fact.rule)


def _length(spell: Spell) -> Evidence:
    rule = f"from {_clock(spell.first_s)} by the node's clock"
    return Evidence(name="lasted", value=round(spell.last_s - spell.first_s, 3), unit="s", peers=None, rule=rule)


def _confidence(spell: Spell, *, program: bool) -> float:
    if program:
        return 0.6
    return {"suspected": 0.6, "confirmed": 0.95, "recovered": 0.95}[spell.state or "suspected"]


def _exonerated(spell: Spell, *, program: bool) -> list[str]:
    if program:
        return ["the GPU: such errors are the program's own as a rule"]
    if spell.kind == "load_imbalance":
        return ["the GPUs: how busy they are follows from the work they are given"]
    return []


def _summary(spell: Spell, node: str) -> str:
    who = _who(spell.seat, node, spell.subject)
    since = f"since {_clock(spell.first_s)}"
    if spell.state == "recovered":
        over = spell.ended or "no sign of it any more"
        return f"{who}: over, {over}; it began {_clock(spell.first_s)}."
    said = [fact.says for fact in spell.facts.values() if fact.says]
    advice = next((fact.advice for fact in spell.facts.values() if fact.advice), "")
    first = _FIRST.get(spell.kind)
    text = f"{who} {first} {since}" if first else f"{who}: {said[0] if said else spell.subject}, {since}"
    more = "; ".join(said if first else said[1:])
    text += f": {more}." if more and first else f"; {more}." if more else "."
    if spell.kind == "idle_device":
        text += f" {spell.gpu_hours:.2g} GPU-hours are spent on it."
    return text + (f" {advice[0].upper()}{advice[1:]}." if advice else "")


def _who(seat: Seat, node: str, subject: str) -> str:
    if subject.startswith("balance"):
        return f"The GPUs of job {seat.job} on {node}"
    used = f"job {seat.job}" if seat.job else "no job"
    if seat.ranks:
        used += f", rank{'s'[: len(seat.ranks) - 1]} {', '.join(str(rank) for rank in sorted(seat.ranks)[:8])}"
    what = f"The memory of {node}" if subject == "host memory" else f"{seat.devices[0]} on {node}"
    return f"{what} ({used})"


def _clock(at_s: float) -> str:
    return datetime.fromtimestamp(at_s, UTC).strftime("%-d %b %H:%M:%S UTC")
