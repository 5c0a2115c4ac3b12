"""What a straggler's episode rests on, and what is said of it.

Rule of this file: numbers and words; no judgement is made here.
"""

from paceline.events import CPU_THROTTLED, QUOTA_LEAST, Evidence
from paceline.gpu import throttle
from paceline.words import seconds, step_time

from ..episodes.causes import CAUSES, COMPUTING
from ..episodes.finding import Said, number
from ..episodes.tracker import Episode, Measured
from .accused import Accused, Speaker, back_among_peers, replaced_by, spoken_for
from .rank_conditions import ConditionsSeen
from .straggler_config import StragglerConfig

_MILLI = 1e3
#: The largest parts of the excess that are told, from this share of it on.
_PARTS_TOLD = 4
_PART_LEAST = 0.05
_PART_RULE = "over the median peer, less what other parts took less"
_HOST_BOUND = "share of its own time at whose end the device had nothing queued: it waited for its host to launch more"
#: What a host may do in place of launching, where it is told apart, and the least share of the excess that is named.
_HOST_WORK = {"gc": "garbage collection", "cpu_wait": "waiting for a processor", "data": "its loader"}
_HOST_LEAST = 0.2
#: Parts in which programs, not devices, work, and the least share of the excess that is named.
_PROGRAM = {"checkpoint": "its checkpoints", "evaluation": "its evaluations", "other": "outside of all phases"}
_PROGRAM_LEAST = 0.2


class StragglerEvidence(Measured, frozen=True, kw_only=True):
    """Medians over ``ticks`` ticks, of the late rank and of its peers.

    Seconds are of a step; ``work_ratio``, ``starved_ratio`` (no processor) and ``waited_ratio`` (the peers, for it) are
    shares of ``base_s``, the step without the excess. ``host_bound_ratio`` is the share of its own time in which the
    rank's device waited for its host. ``parts_s`` is what the excess consists of, by op. ``recognised``: forward,
    backward or optimizer are measured. ``members`` are the late ranks of a unit, of whose typical rank all this is then
    told. ``cleared`` is what does not explain it, with the number.
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
    host_bound_ratio: float = 0.0
    peers_host_bound_ratio: float = 0.0
    recognised: bool = False
    members: tuple[int, ...] = ()
    cleared: tuple[str, ...] = ()

    @property
    def excess_ratio(self) -> float:
        """By how much the rank lengthens the step, as a share of the step without it."""
        return self.work_ratio + self.starved_ratio


StragglerEpisode = Episode[int, StragglerEvidence]


def said(
    episode: StragglerEpisode,
    rank: Accused,
    config: StragglerConfig,
    tick_s: float,
    within: Speaker | None = None,
) -> Said:
    """What is said of a rank or unit found by its work, compared with the peers'.

    ``within``: the unit that speaks for it from now on, where that ended it.
    """
    seen = episode.measured
    summary = (
        f"{rank.words()} works {step_time(seen.own_s)} a step where its peers work "
        f"{step_time(seen.peers_s)}, since about step {episode.first_step}. "
        f"{_reason(episode)} {_cause(episode)}; everyone else waits for it.{rank.caveat()}"
    )
    evidence = [*_times(seen, config, tick_s), *_members(seen), *_conditions(seen.conditions)]
    over, by = _over(rank, episode, within), replaced_by(rank, within)
    return Said(rank.subject(), evidence, summary, seen.cleared, over=over, replaced_by=by)


def said_of_stalls(
    episode: StragglerEpisode,
    rank: Accused,
    config: StragglerConfig,
    tick_s: float,
    *,
    replaced: bool,
    by: Speaker | None,
    steady: bool,
) -> Said:
    """What is said of a rank that long ticks alone show: its numbers are means over all steps.

    ``replaced``: another finding speaks for it from now on, that on ``by`` where that still is open. ``steady``: it is
    slow by little, but in most steps.
    """
    seen = episode.measured
    summary = (
        f"{rank.words()}{'' if steady else ' stalls now and then: it'} works {step_time(seen.own_s)} a step on average "
        f"where its peers work {step_time(seen.peers_s)}, since about step {episode.first_step}. "
        f"{_reason(episode)} {_cause(episode)}; everyone else waits for it."
    )
    over = back_among_peers(rank, episode)
    if replaced:
        since = f"it was so on average from step {episode.first_step}"
        over = f"{rank.words()} is slow in most steps now, which another finding reports; {since}."
    evidence = [*_times(seen, config, tick_s), *_conditions(seen.conditions)]
    other = replaced_by(rank, by)
    return Said(rank.subject("now and then"), evidence, summary, seen.cleared, over=over, replaced_by=other)


def said_by_lateness(episode: StragglerEpisode, rank: Accused, tick_s: float, within: Speaker | None = None) -> Said:
    """What is said of a rank or unit found by lateness in the collectives of one group alone."""
    seen = episode.measured
    rule = "longest wait of the group less the own wait, summed; " + _rule(seen, tick_s)
    summary = (
        f"{rank.words()} comes {step_time(seen.own_s)} a step late to the collectives of group "
        f"{rank.group}, its peers {step_time(seen.peers_s)}, since about step {episode.first_step}. "
        f"Without phases the reason is unknown.{rank.caveat()}"
    )
    evidence = [number("lateness", seen.own_s, "s/step", seen.peers_s, rule), *_members(seen)]
    over, by = _over(rank, episode, within), replaced_by(rank, within)
    return Said(rank.subject(), evidence, summary, over=over, replaced_by=by)


def _over(rank: Accused, episode: StragglerEpisode, within: Speaker | None) -> str:
    return back_among_peers(rank, episode) if within is None else spoken_for(rank, within, episode)


def _members(seen: StragglerEvidence) -> list[Evidence]:
    """How many of a unit's ranks are late; the other numbers are those of its middle one."""
    if not seen.members:
        return []
    rule = "late with the unit; its other numbers are its middle rank's, where more than half of its ranks are late"
    return [number("ranks_late", len(seen.members), "ranks", None, rule)]


def _rule(seen: StragglerEvidence, tick_s: float) -> str:
    return f"median of {seen.ticks} measurements of at least {tick_s:g} s; {seen.margin:.1f} times the threshold"


def _times(seen: StragglerEvidence, config: StragglerConfig, tick_s: float) -> list[Evidence]:
    share = f"share of the step without it ({seen.base_s * _MILLI:.1f} ms); reported from {config.least_excess:g}"
    waited = "shortest wait in collectives is the late rank's: the median peer's wait less its own"
    out = [
        number("own_time", seen.own_s, "s/step", seen.peers_s, _rule(seen, tick_s)),
        number("excess", seen.excess_ratio, "ratio", 0.0, share),
        number("lateness", seen.waited_ratio * seen.base_s, "s/step", 0.0, waited),
    ]
    parts = {name: value for name, value in seen.parts_s.items() if name != "host_bound"}  # which has its own number
    for name, value in sorted(parts.items(), key=lambda item: -item[1])[:_PARTS_TOLD]:
        if value > _PART_LEAST * max(seen.own_s - seen.peers_s, 0.0):
            out.append(number(f"excess_{name}", value, "s/step", 0.0, _PART_RULE))
    if seen.host_bound_ratio > 0.0 or seen.peers_host_bound_ratio > 0.0:
        out.append(number("host_bound", seen.host_bound_ratio, "ratio", seen.peers_host_bound_ratio, _HOST_BOUND))
    return out


def _conditions(seen: ConditionsSeen | None) -> list[Evidence]:
    """What the rank's node and device went through, beside the median peer's."""
    if seen is None:
        return []
    throttled = f"{throttle.in_words(seen.own.mask)}: share of the samples with a reason that slows the clock (NVML)"
    stalled = "share of time in which a process waited for memory (PSI)"
    own, peers = seen.own, seen.peers
    rows = (
        ("throttled_share", own.throttled, peers.throttled, "ratio", throttled),
        ("sm_clock", own.clock, peers.clock, "MHz", "mean over the last seconds"),
        ("major_faults", own.faults_per_s, peers.faults_per_s, "1/s", "pages read back from disk"),
        ("memory_pressure", own.stalled, peers.stalled, "ratio", stalled),
        ("cpu_quota", own.quota, peers.quota, "CPUs", "what its control group may use (cpu.max, cpu.cfs_quota_us)"),
        (CPU_THROTTLED, own.held_back, peers.held_back, "ratio", "share of the quota's periods (cpu.stat)"),
    )
    return [
        number(name, value, unit, None if peer != peer else peer, rule)
        for name, value, peer, unit, rule in rows
        if value > 0.0  # NaN, what is not measured, is not
    ]


def _reason(episode: StragglerEpisode) -> str:
    return "The reason is" if episode.state == "confirmed" else "It looks like"


def _cause(episode: StragglerEpisode) -> str:
    words, seen = CAUSES[episode.cause].words, episode.measured.conditions
    mask = seen.own.mask if seen is not None else 0
    if episode.cause == "cpu_contention" and seen is not None and seen.own.held_back >= QUOTA_LEAST:
        share = f"was throttled in {seen.own.held_back:.0%} of its periods"
        return f"{words} (its container may use {seen.own.quota:.3g} CPUs (quota) and {share})"
    if episode.cause == "host_bound" and episode.measured.host_bound_ratio > 0.0:
        return f"{words} ({_host_did(episode.measured)})"
    if episode.cause == "throttling" and mask:
        return f"{words} ({throttle.in_words(mask)})"
    program = _in_program(episode.measured) if episode.cause in COMPUTING else ""
    return f"{words} ({program})" if program else words


def _in_program(seen: StragglerEvidence) -> str:
    """What of the excess lies where the program works, and no device; "" where that is little.

    What is outside of all phases is told where some are recognised: else it would be all.
    """
    least_s = _PROGRAM_LEAST * max(seen.own_s - seen.peers_s, 0.0)
    named = [name for name in _PROGRAM if seen.recognised or name != "other"]
    told = [name for name in named if seen.parts_s.get(name, 0.0) > least_s]
    return ", ".join(f"{_PROGRAM[name]} +{seconds(seen.parts_s[name])}" for name in told)


def _host_did(seen: StragglerEvidence) -> str:
    """What kept the host from launching, as far as it is told."""
    excess = max(seen.own_s - seen.peers_s, 0.0)
    parts = {words: seen.parts_s.get(name, 0.0) for name, words in _HOST_WORK.items()}
    told = [f"{words} +{seconds(value)}" for words, value in parts.items() if value > _HOST_LEAST * excess]
    return ", ".join(told) or "no other cause was found: Python between the launches"
