"""Ranks of one process, each on a thread, that exchange by a barrier: switching without gloo."""

import threading
from collections.abc import Callable, Sequence
from typing import Any

from paceline.balance.controller import Controller
from paceline.balance.errors import BalanceError
from paceline.balance.handout import Handed, Handout
from paceline.balance.link import Link
from paceline.balance.parts import part_of
from paceline.balance.plan import Plan
from paceline.balance.ready_time import Ready
from paceline.balance.replan import ControllerConfig
from paceline.balance.switching import Switching
from paceline.training.balance_messages import BalanceObserved, BalancePlan, ProposedPlan
from tests.patience import PATIENCE_S

#: The number of the run that these ranks drew.
RUN = 7


def proposal(version: int, shares: tuple[int, ...], run: int = RUN) -> ProposedPlan:
    """A plan from outside, for these ranks."""
    return ProposedPlan(version, shares, run)


class Meeting:
    """What all tell one another."""

    def __init__(self, world: int) -> None:
        self.barrier = threading.Barrier(world)
        self.told: list[list[float]] = [[]] * world
        self.exchanges = 0


class Seat:
    """One rank's exchange."""

    def __init__(self, meeting: Meeting, rank: int) -> None:
        self._meeting, self._rank = meeting, rank

    def gather(self, numbers: Sequence[float]) -> list[list[float]]:
        self._meeting.told[self._rank] = [float(number) for number in numbers]
        self._meeting.barrier.wait(PATIENCE_S)
        found = [list(row) for row in self._meeting.told]
        if self._meeting.barrier.wait(PATIENCE_S) == 0:
            self._meeting.exchanges += 1
        return found

    def gather_later(self, numbers: Sequence[float]) -> "Rows":
        return Rows(self.gather(numbers))


class Rows:
    """What was told, for who waits for it."""

    def __init__(self, rows: list[list[float]]) -> None:
        self._rows = rows

    def wait(self) -> list[list[float]]:
        return self._rows


class Channel:
    """A sidecar's link that a test fills."""

    def __init__(self) -> None:
        self.plan: ProposedPlan | None = None
        self.observed: list[BalanceObserved] = []
        self.followed: list[BalancePlan] = []
        self.run = 0

    def begin(self, run: int) -> None:
        self.run = run

    def report(self, observed: BalanceObserved) -> None:
        self.observed.append(observed)

    def adopted(self, plan: BalancePlan) -> None:
        self.followed.append(plan)

    def proposed(self) -> ProposedPlan | None:
        return self.plan


class Rank:
    """One rank's side: batches handed out ahead, rounds, plans."""

    def __init__(
        self,
        rank: int,
        shares: Sequence[int],
        meeting: Meeting,
        config: ControllerConfig,
        source: str,
        most: Sequence[int | None] | None,
    ) -> None:
        self.rank, self.channel = rank, Channel()
        self.handout = Handout(Plan(0, 0, tuple(shares)))
        self.handout.followed = True
        self._turn, self._number = self.handout.begin()
        link: Any = Link(self.channel, rank, config, "adaptive", source, RUN)  # type: ignore[arg-type]
        seat: Any = Seat(meeting, rank)
        caps = [None] * len(shares) if most is None else list(most)
        self.switching = Switching(seat, self.handout, Controller(config, shares, caps), caps, link)

    def hand_out(self) -> None:
        plan = self.handout.plan_at(self._number)
        part = part_of(self.rank, plan.shares, 0, 10**6, drop_last=True)
        assert part is not None
        self.handout.add(self._turn, Handed(self._number, 0, part, plan))
        self._number += 1

    def resume(self, number: int, version: int, shares: tuple[int, ...]) -> None:
        """A checkpoint is loaded."""
        self.handout.resume(number, version, shares)
        self._turn, self._number = self.handout.begin()

    def train(self, seconds: Callable[[Handed], float | None], *, failed: bool = False) -> Handed:
        """One round, whose time is ``seconds`` of its batch."""
        batch = self.handout.take().batch
        took = seconds(batch)
        heard = [] if took is None else [Ready(batch.plan.version, batch.number, took)]
        self.switching.round(batch, heard, failed=failed)
        return batch


class Lockstep:
    """All ranks; rank r has handed out ``ahead[r]`` batches more than it trained on."""

    def __init__(
        self,
        shares: Sequence[int],
        ahead: Sequence[int] | None = None,
        source: str = "inband",
        most: Sequence[int | None] | None = None,
    ) -> None:
        self.meeting = Meeting(len(shares))
        config = ControllerConfig(total=sum(shares))
        self.ranks = [Rank(rank, shares, self.meeting, config, source, most) for rank in range(len(shares))]
        for rank, count in zip(self.ranks, ahead or [0] * len(shares), strict=True):
            for _ in range(count):
                rank.hand_out()

    def round(self, seconds: Callable[[int, Handed], float | None], failed: Sequence[int] = ()) -> list[Handed]:
        """One round of all; the batches that they trained on."""
        found: dict[int, Handed] = {}
        raised: list[BaseException] = []

        def run(rank: Rank) -> None:
            try:
                rank.hand_out()
                found[rank.rank] = rank.train(lambda batch: seconds(rank.rank, batch), failed=rank.rank in failed)
            except threading.BrokenBarrierError:
                pass
            except BaseException as error:
                raised.append(error)
                self.meeting.barrier.abort()

        threads = [threading.Thread(target=run, args=(rank,)) for rank in self.ranks]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        if raised:
            raise raised[0]
        return [found[rank.rank] for rank in self.ranks]

    @property
    def plans(self) -> list[Plan]:
        """The newest plan that each rank knows."""
        return [rank.handout.plan for rank in self.ranks]


__all__ = ["BalanceError", "Lockstep", "proposal"]
