"""What a straggler's episode rests on, and what is said of it.

Rule of this file: numbers and words; no judgement is made here.
"""

from paceline.events import Evidence
from paceline.gpu import throttle

from ..episodes.causes import CAUSES
from ..episodes.finding import Said, number
from ..episodes.tracker import Episode, Measured
from .accused import AccusedRank, back_among_peers
from .rank_conditions import ConditionsSeen
from .straggler_config import StragglerConfig

_MILLI = 1e3
#: The largest parts of the excess that are told, from this share of it on.
_PARTS_TOLD = 4
_PART_LEAST = 0.05


class StragglerEvidence(Measured, frozen=True, kw_only=True):
    """Medians over ``ticks`` ticks, of the late rank and of its peers.

    Seconds are of a step; ``work_ratio``, ``starved_ratio`` (no processor) and ``waited_ratio`` (the peers, for it) are
    shares of ``base_s``, the step without the excess. ``parts_s`` is what the excess consists of, by op.
    """

    own_s: float
    peers_s: float
    work_ratio: float
    starved_ratio: float
    waited_ratio: float
    base_s: float
    ticks: int
    parts_s: dict[str, float]
    conditions: ConditionsSeen | None

    @property
    def excess_ratio(self) -> float:
        """By how much the rank lengthens the step, as a share of the step without it."""
        return self.work_ratio + self.starved_ratio


StragglerEpisode = Episode[int, StragglerEvidence]


def said(
    episode: StragglerEpisode, rank: AccusedRank, cleared: list[str], config: StragglerConfig, tick_s: float
) -> Said:
    """What is said of a rank found by its work, compared with the peers'."""
    seen = episode.measured
    verb = "The reason is" if episode.state == "confirmed" else "It looks like"
    summary = (
        f"{rank.words()} works {seen.own_s * _MILLI:.0f} ms a step where its peers work "
        f"{seen.peers_s * _MILLI:.0f} ms, since step {episode.first_step}. "
        f"{verb} {_cause(episode)}; everyone else waits for it."
    )
    evidence = [*_times(seen, config, tick_s), *_conditions(seen.conditions)]
    return Said(rank.subject(), evidence, summary, tuple(cleared), over=back_among_peers(rank, episode))


def said_by_lateness(episode: StragglerEpisode, rank: AccusedRank, tick_s: float) -> Said:
    """What is said of a rank found by lateness in the collectives of one group alone."""
    seen = episode.measured
    rule = "longest wait of the group less the own wait, summed; " + _rule(seen, tick_s)
    summary = (
        f"{rank.words()} comes {seen.own_s * _MILLI:.0f} ms a step late to the collectives of group "
        f"{rank.group}, its peers {seen.peers_s * _MILLI:.0f} ms, since step {episode.first_step}. "
        "Without phases the reason is unknown."
    )
    evidence = [number("lateness", seen.own_s, "s/step", seen.peers_s, rule)]
    return Said(rank.subject(), evidence, summary, over=back_among_peers(rank, episode))


def _rule(seen: StragglerEvidence, tick_s: float) -> str:
    return f"median of {seen.ticks} looks of at least {tick_s:g} s; {seen.margin:.1f} times the bar"


def _times(seen: StragglerEvidence, config: StragglerConfig, tick_s: float) -> list[Evidence]:
    share = f"share of the step without it ({seen.base_s * _MILLI:.1f} ms); reported from {config.least_excess:g}"
    waited = "shortest wait in collectives is the late rank's: the median peer's wait less its own"
    out = [
        number("own_time", seen.own_s, "s/step", seen.peers_s, _rule(seen, tick_s)),
        number("excess", seen.excess_ratio, "ratio", 0.0, share),
        number("lateness", seen.waited_ratio * seen.base_s, "s/step", 0.0, waited),
    ]
    for name, value in sorted(seen.parts_s.items(), key=lambda item: -item[1])[:_PARTS_TOLD]:
        if value > _PART_LEAST * max(seen.own_s - seen.peers_s, 0.0):
            out.append(number(f"excess_{name}", value, "s/step", 0.0, "over the median peer"))
    return out


def _conditions(seen: ConditionsSeen | None) -> list[Evidence]:
    """What the rank's node and device went through, beside the median peer's."""
    if seen is None:
        return []
    throttled = f"{throttle.in_words(seen.own.mask)}: share of the samples with a reason that slows the clock (NVML)"
    stalled = "share of time in which something stood still for memory (PSI)"
    own, peers = seen.own, seen.peers
    rows = (
        ("throttled_share", own.throttled, peers.throttled, "ratio", throttled),
        ("sm_clock", own.clock, peers.clock, "MHz", "mean over the last seconds"),
        ("major_faults", own.faults_per_s, peers.faults_per_s, "1/s", "pages read back from disk"),
        ("memory_pressure", own.stalled, peers.stalled, "ratio", stalled),
    )
    return [
        number(name, value, unit, None if peer != peer else peer, rule)
        for name, value, peer, unit, rule in rows
        if value > 0.0  # NaN, what is not measured, is not
    ]


def _cause(episode: StragglerEpisode) -> str:
    words, seen = CAUSES[episode.cause].words, episode.measured.conditions
    mask = seen.own.mask if seen is not None else 0
    return f"{words} ({throttle.in_words(mask)})" if episode.cause == "throttling" and mask else words
