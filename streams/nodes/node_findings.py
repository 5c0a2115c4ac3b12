"""What is said of an episode on a node.

Rule of this file: words; no judgement is made here.
"""

from datetime import UTC, datetime

from paceline.events import SEVERITIES, FindingKind, Severity

from ..episodes.finding import JobKey, Said, Subject, number
from ..episodes.lifecycle import FINAL
from .node_episodes import NodeEpisode, Tenant

#: DeviceProcess names a job and no attempt.
NO_ATTEMPT = 0
_FIRST: dict[FindingKind, str] = {
    "idle_device": "does nothing",
    "out_of_memory_risk": "is filling up",
    "load_imbalance": "are not equally busy",
}


def job_key(episode: NodeEpisode, cluster: str) -> JobKey:
    """The job that ``episode`` concerns; "" where the devices are nobody's."""
    return JobKey(cluster, episode.measured.tenant.job, NO_ATTEMPT)


def sort_of(episode: NodeEpisode) -> str:
    """What is the matter, and with what: many of one sort are reported together."""
    what = episode.measured.subject.split(" ", 1)[0]
    whose = {"load_imbalance": "jobs"}.get(episode.measured.kind, "GPUs" if what != "host" else "hosts")
    return f"{episode.measured.kind} {what}: {whose}"


def said(episode: NodeEpisode, node: str) -> Said:
    """What is said of ``episode``, as it stands."""
    seen = episode.measured
    kind, tenant = seen.kind, seen.tenant
    subject = Subject(
        kind,
        f"{node} {seen.subject}",
        ranks=() if kind == "load_imbalance" else tuple(sorted(tenant.ranks)),
        nodes=(node,),
        devices=tenant.devices,
        has_steps=False,
    )
    lasted = f"from {_clock(episode.first)} by the node's clock"
    evidence = [number(fact.name, fact.value, fact.unit, fact.peers, fact.rule) for fact in seen.facts.values()]
    evidence.append(number("lasted", round(episode.length, 3), "s", None, lasted))
    return Said(
        subject,
        evidence,
        _summary(episode, node),
        _cleared(episode),
        over=_over(episode, node),
        severity=_severity(episode),
        confidence=_confidence(episode),
    )


def _of_a_program(episode: NodeEpisode) -> bool:
    return episode.measured.subject.startswith("program ")


def _severity(episode: NodeEpisode) -> Severity:
    """The gravest of its facts; what is only suspected is no more than a warning."""
    facts = episode.measured.facts.values()
    gravest = max((SEVERITIES.index(fact.severity) for fact in facts), default=0)
    return SEVERITIES[min(gravest, 1) if episode.state == "suspected" else gravest]


def _confidence(episode: NodeEpisode) -> float:
    """Facts of a device speak for themselves once they have lasted; those of a program are no proof of a fault."""
    sure = episode.state == "confirmed" or episode.state in FINAL
    return 0.95 if sure and not _of_a_program(episode) else 0.6


def _cleared(episode: NodeEpisode) -> tuple[str, ...]:
    if _of_a_program(episode):
        return ("the GPU: such errors are the program's own as a rule",)
    if episode.measured.kind == "load_imbalance":
        return ("the GPUs: how busy they are follows from the work they are given",)
    return ()


def _over(episode: NodeEpisode, node: str) -> str:
    over = episode.measured.ended or "no sign of it any more"
    return f"{_who(episode, node)}: over, {over}; it began {_clock(episode.first)}."


def _summary(episode: NodeEpisode, node: str) -> str:
    facts = list(episode.measured.facts.values())
    who, since = _who(episode, node), f"since {_clock(episode.first)}"
    says = [fact.says for fact in facts if fact.says]
    advice = next((fact.advice for fact in facts if fact.advice), "")
    first = _FIRST.get(episode.measured.kind)
    text = f"{who} {first} {since}" if first else f"{who}: {says[0] if says else episode.measured.subject}, {since}"
    more = "; ".join(says if first else says[1:])
    text += f": {more}." if more and first else f"; {more}." if more else "."
    if episode.measured.kind == "idle_device":
        text += f" {episode.gpu_hours:.2g} device-hours are spent on it."
    return text + (f" {advice[0].upper()}{advice[1:]}." if advice else "")


def _who(episode: NodeEpisode, node: str) -> str:
    tenant = episode.measured.tenant
    if episode.measured.kind == "load_imbalance":
        return f"The GPUs of job {tenant.job} on {node}"
    what = f"{tenant.devices[0]} on {node}" if tenant.devices else f"The memory of {node}"
    return f"{what} ({_used(tenant)})"


def _used(tenant: Tenant) -> str:
    used = f"job {tenant.job}" if tenant.job else "no job"
    if tenant.ranks:
        used += f", rank{'s'[: len(tenant.ranks) - 1]} {', '.join(str(rank) for rank in sorted(tenant.ranks)[:8])}"
    return used


def _clock(at_s: float) -> str:
    return datetime.fromtimestamp(at_s, UTC).strftime("%-d %b %H:%M:%S UTC")
