"""Has a rank of the job ended too early: which one first, why, at which line of code, and who only lost a peer.

Rule of this file: pure. It collects how ranks ended, and says so once; who is named is decided in ``first_death``. A
verdict is confirmed once all ranks have ended, or their node has waited for a while for the others to.
"""

from collections.abc import Mapping, Sequence
from typing import Any

from paceline.accused_units import ENDED_FIRST
from paceline.events import RANK_LIMIT, RankEnd

from ..episodes.finding import Blocked, Said, Subject, number
from ..episodes.lifecycle import Signal
from ..episodes.tracker import Episode, Measured, Policy, Tracker
from ..stored import Kept, Stored
from .first_death import Blockage, End, FirstDeath, first_death
from .hang_findings import plain_ranks

#: A rank that ended alone is confirmed after so long, in seconds of its own node's clock.
CONFIRM_S = 10.0
#: Ends that are kept, and ranks that are named as the first or as victims.
MOST_ENDS, MOST_NAMED = 16_384, 64
#: Of a job with more ends than this, the verdict is made again when a tenth more have come, or all.
ALL_JUDGED = 256
#: A job ends once.
_JOB = "job"


class DeathEvidence(Measured, frozen=True, kw_only=True):
    """The verdict in words, whom it names, who else ended, and the seconds between both on one node (None: unknown).

    ``accused`` ended first and ``lost`` only lost a peer: the lists hold the first of them.
    """

    ranks: list[int]
    accused: int
    why: str
    line: str
    sure: str
    next: str
    victims: list[int]
    lost: int
    ended: int
    before_s: float | None
    group: str
    seq: int | None
    operation: str
    hung: bool = False


DeathEpisode = Episode[str, DeathEvidence]


class Deaths(Stored):
    """How the ranks of one job ended."""

    ends: Kept[dict[int, End]]
    judged: Kept[int]
    hang: Kept[Blockage | None]
    tracker: Kept[Tracker[Any, Any]]

    def __init__(self) -> None:
        self.ends = {}
        #: How many there were when the last verdict was made.
        self.judged = 0
        #: What the job hung in before the first of them.
        self.hang = None
        self.tracker = Tracker(DeathEpisode, Policy(growth_at=frozenset()))

    def update(
        self,
        node: str,
        ends: Sequence[RankEnd],
        *,
        expected: int,
        now_s: float | None,
        last_step: int,
        hang: Blockage | None = None,
    ) -> DeathEpisode | None:
        """Take in how ranks of ``node`` ended, and that its clock shows ``now_s``; the episode where it has news.

        ``hang``: what the job hung in before its first rank ended, if it did.
        """
        if not self.ends:
            self.hang = hang
        for one in ends:
            if one.rank < RANK_LIMIT and (one.rank in self.ends or len(self.ends) < MOST_ENDS):
                words = {name: getattr(one, name) for name in one.__struct_fields__}
                self.ends[one.rank] = End(node=node, **words)
        if not self.ends or not (self._is_due(expected) if ends else self._waits(node, now_s)):
            return None
        return self._judge(expected, last_step, settled=not ends)

    def conclude(self, expected: int, last_step: int) -> DeathEpisode | None:
        """The job has ended: what is only suspected holds."""
        return self._judge(expected, last_step, settled=True) if self.ends else None

    def come_again(self, ranks: Sequence[int], since_s: float, *, expected: int, last_step: int) -> DeathEpisode | None:
        """These ranks run since ``since_s`` of their node's clock: what ended before was an earlier process."""
        again = [rank for rank in ranks if rank in self.ends and self.ends[rank].time_s <= since_s] if self.ends else []
        for rank in again:
            del self.ends[rank]
        return self._judge(expected, last_step, settled=False) if again else None

    def _is_due(self, expected: int) -> bool:
        ended = len(self.ends)
        return ended <= ALL_JUDGED or ended == expected or ended >= 1.1 * self.judged

    def _waits(self, node: str, now_s: float | None) -> bool:
        """Whether the other ranks of ``node`` have gone on for long enough after those named."""
        episode = self.tracker.get(_JOB)
        if now_s is None or episode is None or episode.state != "suspected" or episode.evidence is None:
            return False
        named = [self.ends[rank] for rank in episode.evidence.ranks if rank in self.ends]
        return any(one.node == node and now_s - one.time_s >= CONFIRM_S for one in named)

    def _judge(self, expected: int, last_step: int, *, settled: bool) -> DeathEpisode | None:
        self.judged = len(self.ends)
        found = first_death(self.ends, max(expected, 1), self.hang)
        episode = self.tracker.get(_JOB)
        if found is None:
            return self.tracker.revise(_JOB, "calm", 0.0) if episode is not None else None
        episode = episode or self.tracker.begin(_JOB, last_step, "memory_pressure" if found.memory else "unknown")
        evidence = self._evidence(found)
        before = episode.evidence
        news = before is not None and (before.ranks, before.why) != (evidence.ranks, evidence.why)
        episode.evidence, episode.cause = evidence, "memory_pressure" if found.memory else "unknown"
        signal: Signal = "persistent" if settled or len(self.ends) >= expected else "late"
        return self.tracker.revise(_JOB, signal, 0.0, news=news)

    def _evidence(self, found: FirstDeath) -> DeathEvidence:
        named = [self.ends[rank] for rank in found.ranks]
        ranks = set(found.ranks)
        others = sorted(rank for rank, one in self.ends.items() if rank not in ranks and not one.left())
        first = named[0] if named else None
        return DeathEvidence(
            margin=3.0 if found.sure == "certain" else 1.2 if found.sure == "likely" else 1.0,
            ranks=list(found.ranks[:MOST_NAMED]),
            accused=len(found.ranks),
            why=found.why,
            line=found.line,
            sure=found.sure,
            next=found.next,
            victims=others[:MOST_NAMED],
            lost=len(others),
            ended=len(self.ends),
            before_s=self._before_s(named, others),
            group=first.group if first else "",
            seq=first.seq if first else None,
            operation=first.operation if first else "",
            hung=found.hung,
        )

    def _before_s(self, named: Sequence[End], others: Sequence[int]) -> float | None:
        """How long before the first of the others, where one node's clock tells."""
        nodes = {one.node for one in named} | {self.ends[rank].node for rank in others}
        if len(nodes) != 1 or not named or not others:
            return None
        gap_s = min(self.ends[rank].time_s for rank in others) - min(one.time_s for one in named)
        return gap_s if gap_s >= 0 else None


def said(episode: DeathEpisode, nodes: Mapping[int, str]) -> Said:
    """What is said of a job whose ranks ended. ``nodes``: where each rank runs."""
    seen = episode.measured
    evidence = [number("ended", seen.ended, "ranks", None, "processes that have ended")]
    if seen.accused > len(seen.ranks):
        rule = f"before the others; the finding names {len(seen.ranks)} of them"
        evidence.append(number(ENDED_FIRST, seen.accused, "ranks", None, rule))
    if seen.before_s is not None:
        evidence.append(number("ended_before", seen.before_s, "s", None, "before the first of the others"))
    on = tuple(sorted({nodes[rank] for rank in seen.ranks if rank in nodes}))
    where = f"rank {seen.ranks[0]}" if len(seen.ranks) == 1 else "ranks" if seen.ranks else "job"
    subject = Subject("died", "job", ranks=tuple(seen.ranks), group=seen.group or None, nodes=on)
    blocked = Blocked(
        line=seen.line,
        others_line="",
        victims=tuple(seen.victims),
        seq=seen.seq,
        operation=seen.operation,
        next=seen.next,
        sure=seen.sure,
    )
    summary = f"{_sentence(seen)}. Next: {seen.next}."
    over = f"The processes of {where} have ended, and run again."
    return Said(subject, evidence, summary, over=over, severity="critical", blocked=blocked)


def _sentence(seen: DeathEvidence) -> str:
    """
    >>> words = {"line": "", "next": "", "ended": 4, "group": "", "seq": None, "operation": "", "sure": "certain"}
    >>> words |= {"why": "ValueError at train.py:8 step", "before_s": 3.1}
    >>> _sentence(DeathEvidence(ranks=[2], accused=1, victims=[0, 1], lost=2, **words))
    'Died: rank 2, 3 s before the others: ValueError at train.py:8 step; ranks 0 and 1 only lost a peer'
    """
    if seen.hung:
        return f"Died: no rank failed by itself; {seen.why}"
    if not seen.ranks:
        return f"Died: no rank is to blame: {seen.why}"
    early = f", {seen.before_s:.0f} s before the others" if seen.before_s is not None and seen.before_s >= 1 else ""
    victims = f"; {plain_ranks(seen.victims, seen.lost)} only lost a peer" if seen.victims else ""
    first = plain_ranks(seen.ranks, seen.accused)
    if seen.sure == "unsure":
        return f"Died: {first}, and one of them was first{early}: {seen.why}"
    return f"Died: {first}{early}: {seen.why}{victims}"
