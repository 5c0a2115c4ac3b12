"""One suggestion as it is remembered: what speaks for it, its state, and as it was reported last.

Rule of this file: it merges what several sources say of one case into one suggestion; it changes no state.
"""

import hashlib
from collections.abc import Iterable
from typing import Any

import msgspec

from paceline.events import SEVERITIES, Evidence
from paceline.events.suggestions import Effect, Gain, Suggestion

from .gains import NOTHING_WAITS, added
from .lifecycle import State
from .precedence import About
from .proposal import Case, Proposal
from .trial import Trial

#: Sources of one suggestion that are kept, and what of them is told.
MOST_SOURCES = 256
MOST_TOLD, MOST_EVIDENCE = 64, 24
_LONGEST_TEXT = 2000
_LONGEST_TARGET = 250
#: How a suggestion on a job that has ended begins: its title and its reason.
_NEXT_RUN, _ENDED = "Next run: ", "The job has ended; this is for its next run. "


class Entry(msgspec.Struct, kw_only=True):
    """A case: held back while ``state`` is None. Times are what had passed by the cluster's clock, s."""

    action: str
    target: str
    order: int
    serial: int
    sources: dict[str, Proposal]
    state: State | None = None
    since_s: float = 0.0
    until_s: float = 0.0
    told: Suggestion | None = None
    #: Nothing speaks for it any more; its last source is kept for its words.
    recovered: bool = False
    trial: Trial = msgspec.field(default_factory=Trial)

    @property
    def case(self) -> Case:
        """What it is about."""
        return Case(self.action, self.target)

    @property
    def about(self) -> About:
        """What it is about, as others are compared with it."""
        sources = self.sources.values()
        job = next((one.job for one in sources if one.job), "")
        return About(self.action, job, frozenset(node for one in sources for node in one.nodes))

    def add(self, proposal: Proposal) -> bool:
        """Take in what a source says; whether it is another source than those it has."""
        if self.recovered:
            self.sources, self.recovered = {}, False
        for source in [source for source, one in self.sources.items() if one.replaced_by == proposal.source]:
            del self.sources[source]
        fresh = proposal.source not in self.sources
        if not fresh or len(self.sources) < MOST_SOURCES:
            self.sources[proposal.source] = proposal
        return fresh

    def strongest(self) -> Proposal:
        """The source that its words come from: the gravest, with most to gain, that lasts least; then the first."""
        return max(
            self.sources.values(),
            key=lambda one: (SEVERITIES.index(one.severity), _worth(one.gain), -(one.lasts_s or float("inf"))),
        )

    @property
    def has_moment(self) -> bool:
        """Whether it can be followed until a moment alone."""
        return any(one.lasts_s is not None for one in self.sources.values())

    def worth(self) -> tuple[int, float]:
        """By which it is reported before others."""
        best = self.strongest()
        return SEVERITIES.index(best.severity), _worth(best.gain)


def _worth(gain: Gain) -> float:
    return gain.gpu_hours_per_day or gain.throughput_ratio or 0.0


def suggestion(entry: Entry, cluster: str, now_s: float, expires_s: float) -> Suggestion:
    """``entry`` as it is reported first; a source that is no more the strongest still counts as evidence."""
    best, sources = entry.strongest(), list(entry.sources.values())
    return Suggestion(
        id=suggestion_id(cluster, entry.case, sources[0].began, entry.serial),
        revision=1,
        cluster=cluster,
        action=entry.action,
        target=entry.target,
        state=entry.state or "new",
        created_s=now_s,
        updated_s=now_s,
        expires_s=expires_s,
        **_content(best, sources),
    )


def _content(best: Proposal, sources: list[Proposal]) -> dict[str, Any]:
    evidence: list[Evidence] = list(best.evidence)
    for one in sources:
        if len(evidence) < MOST_EVIDENCE:
            evidence += [number for number in one.evidence if number not in evidence]
    afterwards = best.afterwards if _of_next_run(best) else ()
    return {
        "severity": best.severity,
        "job": best.job,
        "attempt": best.attempt,
        "nodes": _all(name for one in sources for name in one.nodes),
        "devices": _all(name for one in sources for name in one.devices),
        "ranks": sorted({rank for one in sources for rank in one.ranks})[:MOST_TOLD],
        "title": (_NEXT_RUN + best.title if _of_next_run(best) else best.title)[:_LONGEST_TEXT],
        "reason": (_ENDED + best.reason if _of_next_run(best) else best.reason)[:_LONGEST_TEXT],
        "findings": _all(one.finding for one in sources if one.finding),
        "evidence": evidence[:MOST_EVIDENCE],
        "gain": _gain(best, sources),
        "risk": best.risk,
        "risk_reason": best.risk_reason,
        "steps": list(afterwards or best.steps),
        "apply": [] if afterwards else _all(line for one in sources for line in one.apply),
        "manifest": best.manifest,
    }


def _gain(best: Proposal, sources: list[Proposal]) -> Gain:
    """What it brings; a job that stood still and has ended holds no devices any more."""
    if _of_next_run(best) and best.lost_ratio >= 1.0:
        return NOTHING_WAITS
    return added([one.gain for one in sources if one.adds]) if best.adds else best.gain


def _of_next_run(proposal: Proposal) -> bool:
    """Whether it is about a job, and no node, that has ended."""
    return proposal.ended and proposal.target.startswith("job:")


def _all(words: Iterable[str]) -> list[str]:
    return list(dict.fromkeys(words))[:MOST_TOLD]


def updated(entry: Entry, now_s: float, expires_s: float) -> Suggestion:
    """The suggestion that was told of ``entry``, with what its sources say now."""
    told = entry.told
    assert told is not None, "what is updated was told"
    content = _content(entry.strongest(), list(entry.sources.values()))
    return msgspec.structs.replace(told, **content, **_next(told, now_s), expires_s=expires_s)


def moved(
    told: Suggestion,
    state: State,
    now_s: float,
    *,
    by: str | None = None,
    because: str | None = None,
    effect: Effect | None = None,
    expires_s: float | None = None,
) -> Suggestion:
    """``told`` in its next state."""
    return msgspec.structs.replace(
        told,
        state=state,
        by=told.by if by is None else by,
        because=told.because if because is None else because,
        effect=effect or told.effect,
        expires_s=told.expires_s if expires_s is None else expires_s,
        **_next(told, now_s),
    )


def _next(told: Suggestion, now_s: float) -> dict[str, Any]:
    return {"revision": told.revision + 1, "updated_s": max(now_s, told.updated_s)}


def suggestion_id(cluster: str, case: Case, began: str, serial: int) -> str:
    """The id of an episode of a case: the same in every replay.

    >>> suggestion_id("default", Case("rebalance", "job:demo"), "straggler-0ebee0f92a8738f4", 0)
    'rebalance-5823b1fd92ba596f'
    """
    text = "\x1f".join((cluster, *case, began, str(serial)))
    return f"{case.action[:40]}-{hashlib.sha256(text.encode(errors='surrogatepass')).hexdigest()[:16]}"
