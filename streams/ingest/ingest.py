"""The way into a job: each message is admitted once, its ranks are placed once, and its rows are tabulated once.

Rule of this file: pure, and it judges nothing. Steps and collectives come on two topics whose order against each other
is not promised, so each has a roster of its own; a message waits for a few others, and what follows does not depend on
that.
"""

from collections import deque
from collections.abc import Sequence
from typing import NamedTuple

from paceline.events import CollectiveCalls, StepTimings
from paceline.sequences import MOST_PRODUCERS

from ..stored import Kept, Stored
from .collective_batch import CollectiveBatch, CollectiveMessage, collective_batch
from .coverage import CoverageTracker
from .gather import Gather, enough
from .roster import JointRoster, Roster
from .speakers import RankSpeakers, SpeakersHeard
from .step_rows import StepRows, step_rows
from .steps import Step, Steps, StepsConfig


class Admitted(NamedTuple):
    """A message that is new, about ranks below the bound alone, and the ranks that it speaks for; ``fresh``: it does so
    for the first time, or otherwise than before."""

    message: CollectiveMessage
    who: RankSpeakers
    fresh: bool


class Batch(NamedTuple):
    """A few messages as one: those about steps, and the steps that they complete; those about collectives.

    ``rows`` is None where the steps were foreseen; ``collectives`` is None where no message is about any.
    """

    of_steps: list[StepTimings]
    rows: StepRows | None
    steps: list[Step]
    of_collectives: list[CollectiveMessage]
    collectives: CollectiveBatch | None


class _Foreseen(NamedTuple):
    """A message to be taken in next: the steps that it completes, and what is odd about its rows."""

    message: StepTimings
    steps: list[Step]
    odd: dict[str, int]


class Ingest(Stored):
    """What all who judge a job or sum it up know of its messages."""

    roster: Kept[Roster]
    calls_roster: Kept[Roster]
    coverage: Kept[CoverageTracker]
    collectives_coverage: Kept[CoverageTracker]
    gather: Kept[Gather[CollectiveMessage]]
    steps: Kept[Steps]
    nodes: Kept[dict[int, str]]
    devices: Kept[dict[int, str]]
    units: Kept[dict[int, tuple[str, str]]]
    reporting: Kept[set[str]]

    def __init__(self, config: StepsConfig, most_ranks: int) -> None:
        self.most_ranks = most_ranks
        #: Who reports steps, and who reports collectives one by one.
        self.roster, self.calls_roster = Roster(), Roster()
        self.coverage = CoverageTracker(self.roster)
        self.collectives_coverage = CoverageTracker(JointRoster(self.roster, self.calls_roster))
        self._speakers, self._callers = SpeakersHeard(), SpeakersHeard()
        self.gather = Gather()
        self.steps = Steps(config, self.coverage)
        self._foreseen: deque[_Foreseen] = deque()
        #: Where each rank runs: its node and device; the switch of that node, and its tensor group.
        self.nodes = {}
        self.devices = {}
        self.units = {}
        #: Producers that may report more steps: they have not said goodbye.
        self.reporting = set()

    def admit(self, message: CollectiveMessage) -> Admitted | None:
        """``message`` as those who judge it take it; None for one that has come before."""
        calls = isinstance(message, CollectiveCalls)
        roster = self.calls_roster if calls else self.roster
        if not roster.admit(message.producer, message.sequence):
            return None
        if isinstance(message, StepTimings):
            self._count_reporting(message)
        message, who, fresh, beyond = (self._callers if calls else self._speakers).hear(message, self.most_ranks)
        for coverage in (self.collectives_coverage,) if calls else (self.coverage, self.collectives_coverage):
            coverage.leave_out(beyond, self.most_ranks)
        if fresh:
            # Where a rank runs is said by who reports its steps, if any does: the order of two topics is not promised.
            placed = self.roster.worlds if calls else {}
            self._place(message.node, who, [at for at, rank in enumerate(who.ranks) if rank not in placed])
            roster.hear(who.ranks, who.world_sizes)
        return Admitted(message, who, fresh)

    def _count_reporting(self, message: StepTimings) -> None:
        if message.ended:
            self.reporting.discard(message.producer)
            return
        self.reporting.add(message.producer)
        if len(self.reporting) > 2 * MOST_PRODUCERS:
            self.reporting &= self.roster.last.keys()

    def _place(self, node: str, who: RankSpeakers, places: list[int]) -> None:
        """Take down where ranks run, of those that ``who`` has at these ``places``."""
        groups = who.tensor_groups() or [""] * len(who.ranks)
        for at in places:
            rank = who.ranks[at]
            self.nodes[rank], self.devices[rank] = node, who.devices[at]
            self.units[rank] = (who.switch, groups[at])

    @property
    def ended(self) -> bool:
        """Whether all ranks have reported steps, and all their producers have said goodbye."""
        ranks = len(self.roster.worlds)
        return ranks > 0 and not self.reporting and ranks >= self.roster.expected

    def goes_on(self, message: StepTimings, before: int) -> bool:
        """Whether ``message``, once so many ``before`` it are taken in, is its producer's next, whose ranks go on as
        they are: then what its steps come to depends on nothing else that is in it or in those before it."""
        return (
            self.roster.last.get(message.producer) == message.sequence - before - 1
            and not message.ended
            and self._speakers.knows(message, self.most_ranks)
        )

    def push(self, message: CollectiveMessage, *, backlog: bool) -> list[CollectiveMessage]:
        """Take in a message that was admitted; those to be judged now, in order of arrival."""
        if isinstance(message, CollectiveCalls) and (message.summed or message.by_nccl):
            return []  # Its node has summed it as well, or it is another view of what others report.
        producers = self.roster.producers + self.calls_roster.producers
        return self.gather.push(message, enough(producers, backlog=backlog))

    def foresee(self, messages: Sequence[StepTimings]) -> list[Step]:
        """The steps that ``messages``, the next ones, each of which goes on, will complete."""
        self._foreseen.clear()
        for message in messages:
            steps = self.steps.update(step_rows([message]))
            self._foreseen.append(_Foreseen(message, steps, self.steps.take_notes()))
        return [step for one in self._foreseen for step in one.steps]

    def batch(self, messages: list[CollectiveMessage]) -> Batch:
        """``messages``, which waited for each other, as one."""
        of_steps = [one for one in messages if isinstance(one, StepTimings)]
        rows, steps = self._tabulate(of_steps) if of_steps else (None, [])
        of_collectives = [one for one in messages if _about_collectives(one)]
        collectives = collective_batch(of_collectives, self.collectives_coverage) if of_collectives else None
        return Batch(of_steps, rows, steps, of_collectives, collectives)

    def _tabulate(self, messages: list[StepTimings]) -> tuple[StepRows | None, list[Step]]:
        if self._foreseen and self._foreseen[0].message is messages[0]:
            foreseen = [self._foreseen.popleft() for _ in messages]
            for one in foreseen:
                self.coverage.note_all(one.odd)
            return None, [step for one in foreseen for step in one.steps]
        rows = step_rows(messages)
        steps = self.steps.update(rows)
        self.coverage.note_all(self.steps.take_notes())
        return rows, steps


def _about_collectives(message: CollectiveMessage) -> bool:
    """Whether ``message`` has anything to say of collectives or links."""
    return isinstance(message, CollectiveCalls) or message.collectives is not None or message.links is not None
