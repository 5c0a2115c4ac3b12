"""A run that is too short to judge: what can be said of its ranks without accusing any.

Rule of this file: pure and bounded. What is told is kept until there is enough for a verdict, and then let go of.
Nothing here is a verdict: in a few steps any rank may be the last, or the one that computes longest, by chance.
"""

from collections.abc import Callable, Iterator, Sequence
from typing import Any, NamedTuple

import msgspec
import numpy as np

from paceline.events import OP_INDEX, OPS, Evidence, Finding, RankBreakdown

from ..collective_batch import CollectiveBatch
from ..episodes.finding import Said, Subject, number
from ..episodes.tracker import Episode, Measured, Tracker
from ..limits import ABSURD_S
from ..raw_columns import Ints
from ..robust import Array, known_or_zero, peers_median
from ..runs import lengths, starts
from ..step_rows import TOTAL, StepRows
from .ticks import WORK

#: A job has one beginning.
_JOB = "short run"
#: Collectives are kept for so many ranks and calls; those that come after are counted by nobody.
MOST_CALLS = 200_000
#: Who is last tells something where the first and the last are this far apart.
APART_S = 1e-3
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
_IDLE, _DATA, _WAIT = (OP_INDEX[name] for name in ("idle", "data", "communication"))
_COMPUTE = [OP_INDEX[name] for name in WORK if name not in ("idle", "data")]

ShortRunEpisode = Episode[str, Measured]


class Last(NamedTuple):
    """Of the collectives that all their heard ranks came to more than ``APART_S`` apart: ``of`` how many each rank was
    a member, and in how many of them the last. Both have shape (ranks,)."""

    of: Ints
    last: Ints

    @property
    def fair(self) -> Array:
        """How often a rank would be the last if all were alike: its share of the collectives that had a last."""
        members = self.of.sum()
        return np.asarray(self.of * (self.last.sum() / members if members else 0.0))


class RankTimes(NamedTuple):
    """Seconds of each rank over all that was heard, each of shape (ranks,), NaN where nobody told; by the trace of its
    device where there is one, else by its phases. ``span`` is the whole."""

    span: Array
    compute: Array
    communication: Array
    copies: Array
    idle: Array
    data: Array
    launch_delay: Array


class ShortRun:
    """What is told of one job until there is enough to judge."""

    def __init__(self) -> None:
        self.enough = False
        self._begin()

    def _begin(self) -> None:
        self.seconds = np.zeros((len(OPS), 0))
        self.steps = np.zeros(0, dtype=np.int64)
        self.first_step = self.last_step = -1
        self.breakdowns: dict[int, RankBreakdown] = {}
        self.groups: dict[str, int] = {}
        #: Rank, group, number and seconds of each collective.
        self.calls: list[tuple[Ints, Ints, Ints, Array]] = []
        self.calls_heard = 0
        self.calls_left_out = 0

    @property
    def heard(self) -> bool:
        """Whether anything was told that a verdict could rest on."""
        return bool(self.steps.any() or self.breakdowns or self.calls_heard)

    def forget(self) -> None:
        """There is enough: verdicts say the rest."""
        if not self.enough:
            self.enough = True
            self._begin()

    def update_steps(self, rows: StepRows, plausible_ranks: int) -> None:
        """Take in what ranks say of their steps."""
        if self.enough:
            return
        sound = (rows.rank >= 0) & (rows.rank < plausible_ranks) & (rows.step >= 0)
        rank, step, seconds = rows.rank[sound], rows.step[sound], rows.seconds[:, sound]
        if not rank.size:
            return
        self._widen(int(rank.max()) + 1)
        seconds = np.where((seconds >= 0) & (seconds <= ABSURD_S), seconds, np.nan)
        np.add.at(self.seconds.T, rank, known_or_zero(seconds).T)
        whole = ~np.isnan(seconds[TOTAL])
        np.add.at(self.steps, rank[whole], 1)
        low, high = int(step.min()), int(step.max())
        self.first_step = low if self.first_step < 0 else min(low, self.first_step)
        self.last_step = max(high, self.last_step)

    def update_breakdowns(self, told: Sequence[RankBreakdown]) -> None:
        """Take in what traces say of ranks' devices."""
        if not self.enough:
            self.breakdowns |= {one.rank: one for one in told}

    def update_collectives(self, batch: CollectiveBatch) -> None:
        """Take in who was how long in which collective."""
        calls = batch.calls
        if self.enough or not calls.rank.size:
            return
        room = MOST_CALLS - self.calls_heard
        self.calls_left_out += max(0, calls.rank.size - room)
        if room <= 0:
            return
        numbers = np.full(len(batch.groups), -1, dtype=np.int64)
        for group in np.unique(calls.group[:room]).tolist():  # a name without a call would be kept without bound
            numbers[group] = self.groups.setdefault(batch.groups[group], len(self.groups))
        columns = (calls.rank, numbers[calls.group], calls.seq, calls.duration_s)
        self.calls.append(tuple(column[:room].copy() for column in columns))  # type: ignore[arg-type]
        self.calls_heard += min(room, calls.rank.size)

    def _widen(self, ranks: int) -> None:
        more = ranks - self.steps.size
        if more > 0:
            self.seconds = np.pad(self.seconds, ((0, 0), (0, more)))
            self.steps = np.pad(self.steps, (0, more))

    def ranks(self) -> int:
        """One more than the highest rank that was heard."""
        highest = max((int(rank.max()) for rank, *_ in self.calls), default=-1)
        return max(self.steps.size, highest + 1, max(self.breakdowns, default=-1) + 1)

    def times(self, ranks: int) -> RankTimes:
        """Where the time of the first ``ranks`` ranks went."""
        seconds = np.full((len(OPS), ranks), np.nan)
        heard = np.flatnonzero(self.steps)
        seconds[:, heard] = self.seconds[:, heard]
        none = np.full(ranks, np.nan)
        idle = seconds[_IDLE] if self.seconds[_IDLE].any() else none.copy()
        data = seconds[_DATA] if self.seconds[_DATA].any() else none.copy()
        compute = seconds[_COMPUTE].sum(axis=0)
        times = RankTimes(seconds[TOTAL].copy(), compute, seconds[_WAIT].copy(), none.copy(), idle, data, none.copy())
        for rank, told in self.breakdowns.items():
            delay = np.nan if told.launch_delay_s is None else told.launch_delay_s
            parts = (told.span_s, told.compute_s, told.exposed_communication_s, told.exposed_copy_s, told.idle_s)
            for column, value in zip(times, (*parts, data[rank], delay), strict=True):
                column[rank] = value
        return times

    def last(self, ranks: int) -> Last:
        """Who came last: all leave a collective together, so its last rank is in it for the shortest time."""
        of, last = np.zeros(ranks, dtype=np.int64), np.zeros(ranks, dtype=np.int64)
        if not self.calls:
            return Last(of, last)
        rank, group, seq, seconds = (np.concatenate(column) for column in zip(*self.calls, strict=True))
        # A rank that tells a collective twice counts once.
        order = np.lexsort((seconds, rank, seq, group))
        once = order[starts(group[order], seq[order], rank[order])]
        rank, group, seq, seconds = rank[once], group[once], seq[once], seconds[once]
        order = np.lexsort((rank, seconds, seq, group))
        rank, group, seq, seconds = rank[order], group[order], seq[order], seconds[order]
        begin = starts(group, seq)
        members = lengths(begin, rank.size)
        longest = seconds[begin + members - 1]
        apart = (members > 1) & (longest - seconds[begin] > APART_S)
        np.add.at(last, rank[begin[apart]], 1)
        np.add.at(of, rank[np.repeat(apart, members)], 1)
        return Last(of, last)

    def snapshot(self) -> dict[str, Any]:
        """The state as plain data and arrays."""
        return {
            "enough": self.enough,
            "seconds": self.seconds,
            "steps": self.steps,
            "first_step": self.first_step,
            "last_step": self.last_step,
            "breakdowns": [msgspec.to_builtins(told) for told in self.breakdowns.values()],
            "groups": list(self.groups),
            "calls": [list(part) for part in self.calls],
            "calls_left_out": self.calls_left_out,
        }

    def load(self, data: dict[str, Any]) -> None:
        """Take the state that ``snapshot`` described."""
        self.enough, self.seconds, self.steps = bool(data["enough"]), data["seconds"], data["steps"]
        self.first_step, self.last_step = data["first_step"], data["last_step"]
        try:
            told = msgspec.convert(data["breakdowns"], list[RankBreakdown])
        except msgspec.ValidationError as error:
            raise ValueError(f"not a snapshot: {error}") from error
        self.breakdowns = {one.rank: one for one in told}
        self.groups = {name: index for index, name in enumerate(data["groups"])}
        self.calls = [(rank, group, seq, seconds) for rank, group, seq, seconds in data["calls"]]
        self.calls_heard = sum(int(rank.size) for rank, *_ in self.calls)
        self.calls_left_out = data["calls_left_out"]


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
    steps, heard = int(run.steps.max(initial=0)), int((~np.isnan(times.span) | (last.of > 0)).sum())
    steps = steps or max((told.steps for told in run.breakdowns.values()), default=0)
    told = f"{steps} steps of {heard} ranks" if steps else f"{run.calls_heard} calls of collectives and no steps"
    odd = [*_last_most(last), *_longest("computed", times.compute, typical.compute, times.span), *_idle(times, typical)]
    words = "; ".join(odd) or "no rank stands out"
    evidence = [
        number(_STEPS_HEARD, steps, "steps", None, needed),
        *(one for rank in _worth_telling(times, typical, last) for one in _numbers(rank, times, typical, last)),
    ]
    summary = f"Not enough to judge: {told} were heard, and a verdict takes {needed}. Unconfirmed: {words}."
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
        yield _named(ranks, lambda rank: f"rank {rank} {word} {_ms(own[rank])} (its peers {_ms(typical[rank])})")


def _idle(times: RankTimes, typical: RankTimes) -> Iterator[str]:
    yield from _longest("was idle for", times.idle, typical.idle, times.span)
    with np.errstate(invalid="ignore"):
        soon = times.launch_delay < _SOON * typical.launch_delay
    ranks = _descending(_stands_out(times.idle, typical.idle, times.span) * soon)
    if ranks:
        who = _named(ranks, lambda rank: f"rank {rank} after {_ms(times.launch_delay[rank])}")
        others = _ms(typical.launch_delay[ranks[0]])
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


def _ms(seconds: float) -> str:
    return f"{seconds:.3g} s" if seconds >= 1 else f"{1e3 * seconds:.3g} ms"
