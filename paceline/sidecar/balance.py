"""Balancing on a node: what rank 0 tells becomes events, and plans that others made go to the ranks that wait for them.

Rule of this file: pure; time is an argument. A rank's word changes nothing but its own job's events. A plan of the bus
comes from whoever may write there: it is forwarded only where it can be meant for these very ranks, else refused and
counted. The rules are those of ``plan.refusal``, by what every sidecar of the job knows: so all hold the same plan, the
one that came last. What only the ranks know (the version in force, memory), they check, and agree on the batch.
"""

from collections import Counter
from collections.abc import Iterable
from dataclasses import dataclass, field, replace
from typing import NamedTuple

from paceline.balance.plan import Standing, refusal
from paceline.events import BalanceObserved as ObservedEvent
from paceline.events import BalancePlan as PlanEvent
from paceline.sidecar.batch import Batcher
from paceline.topics import BALANCE, PLAN
from paceline.training.balance_messages import BalanceObserved, BalancePlan, BalanceWord, ProposedPlan

#: A rank tells what it observed once a second; what comes much sooner is left out.
LEAST_APART_S = 0.5
#: Who made the plans that are passed on.
PROPOSE = ("streams", "control")

#: Runs of one attempt that are held: one, and the ones before it whose last words may still come.
MOST_RUNS = 8

JobKey = tuple[str, int]


class Speaker(NamedTuple):
    """Who says something: a rank of a job's attempt, and how many ranks it believes there are."""

    job: JobKey
    rank: int
    world_size: int


@dataclass
class _Run:
    """One run of one attempt of a job with a balancer: the same attempt may be started again."""

    observed_s: float | None = None
    told_version: int = -1
    #: The size of the world where ranks wait for plans, and the one that came last for them.
    waiting_world: int | None = None
    proposed: PlanEvent | None = None


@dataclass
class Balance:
    """What is known of the balanced jobs here; events go out by ``batcher``."""

    batcher: Batcher
    cluster: str
    #: Why plans and reports were refused, and how many of each.
    refused: Counter[str] = field(default_factory=Counter)
    #: By job and attempt, and by the number that the ranks drew when they started.
    _jobs: dict[JobKey, dict[int, _Run]] = field(default_factory=dict)

    def take(self, who: Speaker, word: BalanceWord, now_s: float) -> None:
        """Take in what a rank says at ``now_s`` (Unix time)."""
        run = self._run(who.job, word.run)
        if word.awaits and run.waiting_world != who.world_size:
            run.waiting_world, run.proposed = who.world_size, None
        told = [one for one in (word.observed, word.plan) if one is not None]
        if told and who.rank != 0:
            self.refused["sent by another rank than 0"] += 1
            return
        if any(not _fits(one, who.world_size) for one in told):
            self.refused["for another number of ranks"] += 1
            return
        if word.plan is not None and word.plan.version > run.told_version:
            run.told_version = word.plan.version
            self._tell_plan(who.job, word.run, _reasoned(word.plan, run.proposed), now_s)
        if word.observed is not None and (
            run.observed_s is None or not 0.0 <= now_s - run.observed_s < LEAST_APART_S  # a clock may be set back
        ):
            run.observed_s = now_s
            self.batcher.tell(who.job, BALANCE, ObservedEvent, t0_s=now_s, run=word.run, **vars(word.observed))

    def _run(self, key: JobKey, number: int) -> _Run:
        """What is held of a run; of more than a few of one attempt, the first go."""
        runs = self._jobs.setdefault(key, {})
        while number not in runs and len(runs) >= MOST_RUNS:
            del runs[next(iter(runs))]
        return runs.setdefault(number, _Run())

    def _tell_plan(self, key: JobKey, number: int, plan: BalancePlan, now_s: float) -> None:
        self.batcher.tell(
            key,
            PLAN,
            PlanEvent,
            time_s=now_s,
            version=plan.version,
            first_batch=plan.first_batch,
            shares=plan.shares,
            reason=plan.reason,
            predicted_step_s=plan.predicted_s,
            measured_step_s=plan.measured_s,
            made_by=plan.made_by,
            mode=plan.mode,
            run=number,
        )

    def awaiting(self) -> frozenset[str]:
        """The jobs whose ranks here wait for plans that others make."""
        return frozenset(name for (name, attempt) in self._jobs if self._waiting((name, attempt)))

    def _waiting(self, key: JobKey) -> dict[int, _Run]:
        """The runs of ``key`` whose ranks wait for plans."""
        return {number: run for number, run in self._jobs.get(key, {}).items() if run.waiting_world is not None}

    def propose(self, plans: Iterable[PlanEvent]) -> None:
        """Take in plans of the bus, oldest first; of those for ranks that wait here, the last is held for them.

        Not the one of the highest version: a bad plan would then keep out all good ones that follow it.
        """
        for plan in plans:
            if plan.cluster != self.cluster or plan.made_by not in PROPOSE or plan.first_batch is not None:
                continue  # Another cluster's, or the ranks' own word of what they follow.
            waiting = self._waiting((plan.job, plan.attempt))
            run = waiting.get(plan.run)
            if not waiting:
                self.refused["for another attempt"] += plan.job in self.awaiting()
            elif run is None or run.waiting_world is None:
                self.refused["for another run"] += 1
            elif refusal(Standing(run.waiting_world, plan.run), *_proposal(plan)) is not None:
                self.refused["that do not fit the run"] += 1
            else:
                run.proposed = plan

    def proposed(self, key: JobKey, number: int) -> ProposedPlan | None:
        """The plan that came last for the ranks of run ``number`` of a job."""
        run = self._jobs.get(key, {}).get(number)
        return _proposal(run.proposed) if run is not None and run.proposed is not None else None

    def told_refused(self, unreadable: int) -> str:
        """What was refused, with ``unreadable`` messages, in words; "" where nothing was."""
        counts = self.refused + Counter({"that could not be read": unreadable})
        return ", ".join(f"{count} {reason}" for reason, count in sorted(counts.items()))


def _proposal(plan: PlanEvent) -> ProposedPlan:
    return ProposedPlan(plan.version, tuple(plan.shares), plan.run)


def _reasoned(plan: BalancePlan, proposed: PlanEvent | None) -> BalancePlan:
    """``plan`` with why it was made, which the ranks that follow a plan of others do not know."""
    if plan.reason or proposed is None or (proposed.version, proposed.shares) != (plan.version, plan.shares):
        return plan
    predicted_s, measured_s = proposed.predicted_step_s, proposed.measured_step_s
    return replace(plan, reason=proposed.reason, predicted_s=predicted_s, measured_s=measured_s)


def _fits(told: BalanceObserved | BalancePlan, world_size: int) -> bool:
    """Whether ``told`` has an entry a rank."""
    if len(told.shares) != world_size:
        return False
    if isinstance(told, BalancePlan):
        return True
    return len(told.ready_s) == world_size and {len(told.most), len(told.ran_out)} <= {0, world_size}
