"""From an episode to the finding that people and programs read.

Rule of this file: words, rounding and the fixed names of the wire; no judgement is made here.
"""

import math
from typing import NamedTuple

from paceline.events import Cause, Cost, Coverage, Evidence, Finding, Severity
from paceline.gpu import throttle

from ..episodes.episode import Episode, finding_id
from .config import Config

_CAUSES: dict[Cause, str] = {
    "worker_compute": "its own computing",
    "input_pipeline": "its input pipeline",
    "garbage_collection": "Python's garbage collection",
    "cpu_contention": "waiting for a processor",
    "link": "its network link",
    "throttling": "its GPU being throttled",
    "memory_pressure": "memory running short on its node",
    "unknown": "a cause that these timings do not tell",
}
#: Share of the step lost from which an episode is called critical.
_CRITICAL = 0.5
_MILLI = 1e3
#: Numbers of the rank's circumstances: key, name on the wire, unit, rule.
_AROUND = (
    ("throttled", "throttled_share", "ratio", "share of the samples with a reason that slows the clock (NVML)"),
    ("clock", "sm_clock", "MHz", "mean over the last seconds"),
    ("faults_per_s", "major_faults", "1/s", "pages read back from disk"),
    ("stalled", "memory_pressure", "ratio", "share of time in which something stood still for memory (PSI)"),
)


class Subject(NamedTuple):
    """The job a finding is about, and where the accused rank runs."""

    cluster: str
    job: str
    attempt: int
    node: str
    device: str
    stage: int | None = None


def straggler(episode: Episode, subject: Subject, coverage: Coverage, cleared: list[str], config: Config) -> Finding:
    """The finding of an episode found by its work, compared with the peers'."""
    summary = _by_work(episode, subject.node)
    return _finding(episode, episode.rank, None, subject, coverage, _work_evidence(episode, config), cleared, summary)


def late(episode: Episode, rank: int, group: str, subject: Subject, coverage: Coverage, config: Config) -> Finding:
    """The finding of an episode found by lateness in the collectives of ``group`` alone."""
    seen = episode.evidence
    evidence = []
    if seen:
        rule = "longest wait of the group less the own wait, summed; " + _rule(episode, config)
        evidence = [number("lateness", seen["own"], "s/step", seen["peers"], rule)]
    summary = _back(episode, rank, subject.node) or (
        f"{_who(rank, subject.node)} comes {seen['own'] * _MILLI:.0f} ms a step late to the collectives of group "
        f"{group}, its peers {seen['peers'] * _MILLI:.0f} ms, since step {episode.first_step}. "
        "Without phases the reason is unknown."
    )
    return _finding(episode, rank, group, subject, coverage, evidence, [], summary)


def link(episode: Episode, subject: Subject, coverage: Coverage) -> Finding:
    """The finding of an episode found by round trips."""
    seen = episode.evidence
    evidence = [
        number("round_trip", seen["rtt"], "s", seen["peers_rtt"], "smallest smoothed TCP round trip to any other rank"),
        number("wait", seen["wait"], "ratio", seen["quiet_wait"], "median rank's share of time waiting; before it"),
        number("retransmits", seen["retransmits"], "segments", None, "TCP segments sent again since the start"),
    ]
    summary = _back(episode, episode.rank, subject.node) or (
        f"{_who(episode.rank, subject.node)} is {seen['rtt'] * _MILLI:.1f} ms away from its nearest peer, where its "
        f"peers are {seen['peers_rtt'] * _MILLI:.2f} ms from theirs, since step {episode.first_step}. "
        f"The reason is its network link; every rank waits {seen['wait']:.0%} of the time."
    )
    return _finding(episode, episode.rank, None, subject, coverage, evidence, [], summary)


def _finding(
    episode: Episode,
    rank: int,
    group: str | None,
    subject: Subject,
    coverage: Coverage,
    evidence: list[Evidence],
    cleared: list[str],
    summary: str,
) -> Finding:
    who = f"rank {rank}" + (f" in {group}" if group else "") + (" link" if episode.cause == "link" else "")
    state = episode.state or "suspected"
    lost_ratio = episode.lost_s / episode.span_s if episode.span_s > 0 else 0.0
    return Finding(
        id=finding_id(subject.cluster, subject.job, subject.attempt, "straggler", who, episode.first_step),
        revision=episode.revision,
        kind="straggler",
        state=state,
        cluster=subject.cluster,
        job=subject.job,
        attempt=subject.attempt,
        cause=episode.cause,
        ranks=[rank],
        stage=subject.stage,
        group=group,
        nodes=[subject.node] if subject.node else [],
        devices=[subject.device] if subject.device else [],
        first_step=episode.first_step,
        last_step=episode.last_step,
        severity=severity(state, lost_ratio),
        confidence=confidence(episode, coverage),
        cost=cost(episode, coverage),
        coverage=coverage,
        evidence=evidence,
        exonerated=cleared,
        summary=summary,
    )


def cost(episode: Episode, coverage: Coverage) -> Cost:
    """What the episode has cost: every rank of the job stood or worked through the seconds lost."""
    ranks = max(coverage.ranks_expected, coverage.ranks_heard, 1)
    ratio = episode.lost_s / episode.span_s if episode.span_s > 0 else 0.0
    return Cost(
        lost_s=round(episode.lost_s, 3),
        gpu_hours=round(episode.lost_s * ranks / 3600, 6),
        throughput_lost_ratio=round(min(max(ratio, 0.0), 1.0), 4),
    )


def confidence(episode: Episode, coverage: Coverage) -> float:
    """How sure: rises with the margin over the bar and with time, falls with what was not heard."""
    heard = coverage.ranks_heard / coverage.ranks_expected if coverage.ranks_expected else 1.0
    margin = episode.evidence.get("margin", 1.0)
    sure = 1.0 - 0.3 / max(margin, 1.0)
    if episode.state == "suspected":
        sure *= 0.7
    return round(min(sure, 0.99) * min(heard, 1.0), 3)


def severity(state: str, lost_ratio: float) -> Severity:
    """How grave: by the share of the time that is lost."""
    if state == "recovered":
        return "info"
    return "critical" if lost_ratio >= _CRITICAL / (1 + _CRITICAL) else "warning"


def _rule(episode: Episode, config: Config) -> str:
    margin = episode.evidence["margin"]
    looks = f"median of {episode.evidence['ticks']:.0f} looks of at least {config.tick_s:g} s"
    return f"{looks}; {margin:.1f} times the bar"


def _work_evidence(episode: Episode, config: Config) -> list[Evidence]:
    seen = episode.evidence
    if not seen:
        return []
    excess = seen["work"] + seen["starved"]
    share = f"share of the step without it ({seen['base'] * _MILLI:.1f} ms); reported from {config.least_excess:g}"
    waited = "shortest wait in collectives is the late rank's: the median peer's wait less its own"
    out = [
        number("own_time", seen["own"], "s/step", seen["peers"], _rule(episode, config)),
        number("excess", excess, "ratio", 0.0, share),
        number("lateness", seen["waited"] * seen["base"], "s/step", 0.0, waited),
    ]
    parts = {name[5:]: value for name, value in seen.items() if name.startswith("part:")}
    for name, value in sorted(parts.items(), key=lambda item: -item[1])[:4]:
        if value > 0.05 * max(seen["own"] - seen["peers"], 0.0):
            out.append(number(f"excess_{name}", value, "s/step", 0.0, "over the median peer"))
    return out + _around(seen)


def _around(seen: dict[str, float]) -> list[Evidence]:
    """What the rank's node and device went through, beside the median peer's."""
    out = []
    mask = int(seen.get("around:mask", 0.0))
    for name, shown, unit, rule in _AROUND:
        value = seen.get(f"around:{name}")
        if value is None or not (value > 0.0):
            continue
        peers = seen.get(f"around:peers_{name}", math.nan)
        if name == "throttled":
            rule = f"{throttle.in_words(mask)}: {rule}"
        out.append(number(shown, value, unit, None if math.isnan(peers) else peers, rule))
    return out


def _by_work(episode: Episode, node: str) -> str:
    seen = episode.evidence
    verb = "The reason is" if episode.state == "confirmed" else "It looks like"
    return _back(episode, episode.rank, node) or (
        f"{_who(episode.rank, node)} works {seen['own'] * _MILLI:.0f} ms a step where its peers work "
        f"{seen['peers'] * _MILLI:.0f} ms, since step {episode.first_step}. "
        f"{verb} {_cause(episode)}; everyone else waits for it."
    )


def _cause(episode: Episode) -> str:
    words = _CAUSES.get(episode.cause, episode.cause)
    mask = int(episode.evidence.get("around:mask", 0.0))
    return f"{words} ({throttle.in_words(mask)})" if episode.cause == "throttling" and mask else words


def _back(episode: Episode, rank: int, node: str) -> str | None:
    """What is said of an episode that is over."""
    if episode.state != "recovered":
        return None
    since = f"it was slow from step {episode.first_step}"
    return f"{_who(rank, node)} is back among its peers at step {episode.last_step}; {since}."


def _who(rank: int, node: str) -> str:
    return f"Rank {rank}" + (f" on {node}" if node else "")


def number(name: str, value: float, unit: str, peers: float | None, rule: str) -> Evidence:
    """One piece of evidence, rounded for the wire."""
    return Evidence(
        name=name, value=_rounded(value), unit=unit, peers=None if peers is None else _rounded(peers), rule=rule
    )


def _rounded(value: float) -> float:
    return round(value, 6) if math.isfinite(value) else 0.0
