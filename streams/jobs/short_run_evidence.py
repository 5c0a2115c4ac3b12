"""What is said of a run that is too short to judge: its ranks' numbers, and who stands out, without accusing anybody.

Rule of this file: pure words. Nothing here is a verdict: in a few steps any rank may be the last, or the one that
computes longest, by chance.
"""

from collections.abc import Callable, Iterator
from typing import Any

import msgspec
import numpy as np

from paceline.events import Evidence, Finding
from paceline.ranges import ranges
from paceline.words import seconds

from ..episodes.finding import Said, Subject, number
from ..episodes.tracker import Episode, Measured, Tracker
from ..robust import Array, known_or_zero, peers_median
from .short_run import APART_S, Last, RankTimes, ShortRun

#: A job has one beginning.
_JOB = "short run"
#: What is the matter with a run of one rank, however long.
ALONE = "there is no other rank to compare it with"
#: Ranks whose numbers are told: those that stand out first.
MOST_TOLD = 32
_NAMED = 3
#: What stands out: so many times the peers' median, by so much of the whole time; so many times the fair share of last
#: places; and a launch delay of so much of the peers'.
_TIMES, _SHARE = 1.25, 0.02
_OFTEN, _SOON = 1.5, 0.5
_SURE = 0.99
#: The evidence that only such a run has.
_STEPS_HEARD = "steps_heard"

ShortRunEpisode = Episode[str, Measured]


def episode(run: ShortRun) -> ShortRunEpisode:
    """The episode of a run that ended before there was enough to judge."""
    tracker = Tracker(ShortRunEpisode)
    begun = tracker.begin(_JOB, run.first_step)
    begun.last, begun.evidence = float(run.last_step), Measured()
    told = tracker.revise(_JOB, "persistent", 0.0)
    assert told is not None, "a new episode is news"
    return told


def is_short_run(finding: Finding) -> bool:
    """Whether ``finding`` says that the whole run was too short."""
    return any(one.name == _STEPS_HEARD for one in finding.evidence)


def said(run: ShortRun, peers: Callable[[Array], Array], needed: str) -> Said:
    """What is said of a run that is too short to judge.

    Args:
        peers: for each rank the median of those that do the same work, of an array of shape (ranks,).
        needed: what a verdict takes, in words.
    """
    ranks = run.ranks()
    times, last = run.times(ranks), run.last(ranks)
    typical = RankTimes(*(_peers(column, peers) for column in times))
    heard_of = ~np.isnan(times.span) | (last.of > 0)
    heard_of[run.apart()] = True
    steps, heard = int(run.steps.max(initial=0)), int(heard_of.sum())
    steps = steps or max((told.steps for told in run.breakdowns.values()), default=0)
    told = f"{steps} steps of {heard} ranks" if steps else f"{run.calls_heard} calls of collectives, no steps"
    odd = [*_last_most(last), *_longest("computed", times.compute, typical.compute, times.span), *_idle(times, typical)]
    words = "; ".join(odd) or "no rank differs from its peers"
    short = "Too short to judge: a verdict needs"
    if run.apart():
        words += f"; rank {ranges(run.apart())} is not compared: kernels are missing from its trace"
        short = "Not enough to judge: a verdict needs, of all ranks,"
    evidence = [
        number(_STEPS_HEARD, steps, "steps", None, needed),
        *(one for rank in _worth_telling(times, typical, last) for one in _numbers(rank, times, typical, last)),
    ]
    summary = (
        f"One rank, {steps} {'step' if steps == 1 else 'steps'}: {ALONE}."
        if heard == 1 and steps
        else f"{short} {needed}. Received: {told}. Unconfirmed: {words}."
    )
    cleared = ("every rank and device: nothing here is a verdict",)
    return Said(Subject("insufficient_data", _JOB), evidence, summary, cleared, severity="info", confidence=_SURE)


def _peers(column: Array, peers: Callable[[Array], Array]) -> Array:
    """The peers' median, of all others where a rank has no peers."""
    own = peers(column)
    return np.where(np.isnan(own), peers_median(column), own)


def _stands_out(own: Array, typical: Array, span: Array) -> Array:
    """By how much each rank is above its peers, as a share of the whole; 0 where it does not stand out."""
    with np.errstate(invalid="ignore", divide="ignore"):
        more = (own - typical) / span
        return known_or_zero(np.where((own > _TIMES * typical) & (more > _SHARE), more, np.nan))


def _named(ranks: Array, words: Callable[[int], str]) -> str:
    """The first few of ``ranks`` in words."""
    more = len(ranks) - _NAMED
    return ", ".join(words(rank) for rank in ranks[:_NAMED]) + (f", and {more} more" if more > 0 else "")


def _descending(values: Array) -> Any:
    order = np.argsort(-values, kind="stable")
    return order[values[order] > 0].tolist()


def _last_most(last: Last) -> Iterator[str]:
    often = np.where(last.last > np.maximum(_OFTEN * last.fair, 1), last.last, 0)
    ranks = _descending(often.astype(np.float64))
    if ranks:
        who = _named(ranks, lambda rank: f"rank {rank} in {last.last[rank]} of {last.of[rank]}")
        yield f"last in collectives whose ranks came more than {1e3 * APART_S:g} ms apart were {who}"


def _longest(word: str, own: Array, typical: Array, span: Array) -> Iterator[str]:
    ranks = _descending(_stands_out(own, typical, span))
    if ranks:
        yield _named(
            ranks, lambda rank: f"rank {rank} {word} {seconds(own[rank])} (its peers {seconds(typical[rank])})"
        )


def _idle(times: RankTimes, typical: RankTimes) -> Iterator[str]:
    yield from _longest("was idle for", times.idle, typical.idle, times.span)
    with np.errstate(invalid="ignore"):
        soon = times.launch_delay < _SOON * typical.launch_delay
    ranks = _descending(_stands_out(times.idle, typical.idle, times.span) * soon)
    if ranks:
        who = _named(ranks, lambda rank: f"rank {rank} after {seconds(times.launch_delay[rank])}")
        others = seconds(typical.launch_delay[ranks[0]])
        yield f"kernels start soon after their launch, so the device waits for its host: {who} (its peers' {others})"


def _worth_telling(times: RankTimes, typical: RankTimes, last: Last) -> list[int]:
    """The ranks whose numbers are told, in their order: all of them, or those that stand out most."""
    heard = np.flatnonzero(~np.isnan(times.span) | (last.of > 0))
    if heard.size <= MOST_TOLD:
        return list(heard.tolist())
    often = known_or_zero((last.last - last.fair) / np.maximum(last.of, 1))
    odd = often + _stands_out(times.compute, typical.compute, times.span)
    odd += _stands_out(times.idle, typical.idle, times.span)
    return sorted(heard[np.argsort(-odd[heard], kind="stable")[:MOST_TOLD]].tolist())


def _numbers(rank: int, times: RankTimes, typical: RankTimes, last: Last) -> Iterator[Evidence]:
    """One rank's numbers, its peers' beside them."""
    columns = (
        ("compute_s", times.compute, typical.compute, "time at work"),
        ("exposed_communication_s", times.communication, typical.communication, "communication that no work covers"),
        ("exposed_copy_s", times.copies, typical.copies, "copies that nothing else covers"),
        ("idle_s", times.idle, typical.idle, "the device had nothing to do"),
        ("data_s", times.data, typical.data, "waiting for data"),
        ("launch_delay_s", times.launch_delay, typical.launch_delay, "median from a kernel's launch to its start"),
    )
    for name, own, others, rule in columns:
        if not np.isnan(own[rank]):
            beside = None if np.isnan(others[rank]) else float(others[rank])
            yield _of(rank, number(name, float(own[rank]), "s", beside, f"{rule}; unconfirmed"))
    if last.of[rank]:
        rule = f"last of {last.of[rank]} collectives whose ranks came more than {1e3 * APART_S:g} ms apart; unconfirmed"
        yield _of(
            rank, number("last_in_collectives", int(last.last[rank]), "collectives", float(last.fair[rank]), rule)
        )


def _of(rank: int, evidence: Evidence) -> Evidence:
    return msgspec.structs.replace(evidence, rank=rank)
