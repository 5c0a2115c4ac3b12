"""Balancing on a node: what rank 0 tells becomes events, and plans that others made go to the ranks that wait for them.

Rule of this file: pure; time is an argument. A rank's word changes nothing but its own job's events. A plan of the bus
comes from whoever may write there: it is passed on only where it can be meant for these very ranks, else refused and
counted. Whether they follow it, and from which batch, the ranks agree on among themselves.
"""

from collections import Counter
from collections.abc import Iterable
from dataclasses import dataclass, field, replace
from typing import NamedTuple

from paceline.events import BalanceObserved as ObservedEvent
from paceline.events import BalancePlan as PlanEvent
from paceline.sidecar.batch import Batcher
from paceline.topics import BALANCE, PLAN
from paceline.training.balance_messages import BalanceObserved, BalancePlan, BalanceWord, ProposedPlan

#: A rank tells what it observed once a second; what comes much sooner is left out.
LEAST_APART_S = 0.5
#: Who made the plans that are passed on.
PROPOSE = ("streams", "control")

JobKey = tuple[str, int]


class Speaker(NamedTuple):
    """Who says something: a rank of a job's attempt, and how many ranks it believes there are."""

    job: JobKey
    rank: int
    world_size: int


@dataclass
class _Job:
    """One attempt of a job with a balancer."""

    observed_s: float | None = None
    told_version: int = -1
    #: The size of the world where ranks wait for plans, and the newest that was made for them.
    waiting_world: int | None = None
    proposed: PlanEvent | None = None


@dataclass
class Balance:
    """What is known of the balanced jobs here; events go out by ``batcher``."""

    batcher: Batcher
    cluster: str
    #: Why plans and reports were refused, and how many of each.
    refused: Counter[str] = field(default_factory=Counter)
    _jobs: dict[JobKey, _Job] = field(default_factory=dict)

    def take(self, who: Speaker, word: BalanceWord, now_s: float) -> None:
        """Take in what a rank says at ``now_s`` (Unix time)."""
        job = self._jobs.setdefault(who.job, _Job())
        if word.awaits and job.waiting_world != who.world_size:
            job.waiting_world, job.proposed = who.world_size, None
        told = [one for one in (word.observed, word.plan) if one is not None]
        if told and who.rank != 0:
            self.refused["told by another rank than 0"] += 1
            return
        if any(not _fits(one, who.world_size) for one in told):
            self.refused["told of another number of ranks"] += 1
            return
        if word.plan is not None and word.plan.version > job.told_version:
            job.told_version = word.plan.version
            self._tell_plan(who.job, _reasoned(word.plan, job.proposed), now_s)
        if word.observed is not None and (
            job.observed_s is None or not 0.0 <= now_s - job.observed_s < LEAST_APART_S  # a clock may be set back
        ):
            job.observed_s = now_s
            self._tell_observed(who.job, word.observed, now_s)

    def _tell_plan(self, key: JobKey, plan: BalancePlan, now_s: float) -> None:
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
        )

    def _tell_observed(self, key: JobKey, observed: BalanceObserved, now_s: float) -> None:
        self.batcher.tell(key, BALANCE, ObservedEvent, t0_s=now_s, **vars(observed))

    def awaiting(self) -> frozenset[str]:
        """The jobs whose ranks here wait for plans that others make."""
        return frozenset(name for (name, _), job in self._jobs.items() if job.waiting_world is not None)

    def propose(self, plans: Iterable[PlanEvent]) -> None:
        """Take in plans of the bus, oldest first; those for ranks that wait here are held for them."""
        for plan in plans:
            if plan.cluster != self.cluster or plan.made_by not in PROPOSE or plan.first_batch is not None:
                continue  # Another cluster's, or the ranks' own word of what they follow.
            job = self._jobs.get((plan.job, plan.attempt))
            if job is None or job.waiting_world is None:
                self.refused["for another attempt"] += plan.job in self.awaiting()
            elif len(plan.shares) != job.waiting_world:
                self.refused["for another number of ranks"] += 1
            elif job.proposed is not None and plan.version < job.proposed.version:
                self.refused["of a version that goes back"] += 1
            elif job.proposed is None or plan.version > job.proposed.version:
                job.proposed = plan

    def proposed(self, key: JobKey) -> ProposedPlan | None:
        """The newest plan that was made for the ranks of a job."""
        job = self._jobs.get(key)
        if job is None or job.proposed is None:
            return None
        return ProposedPlan(job.proposed.version, tuple(job.proposed.shares))

    def told_refused(self, unreadable: int) -> str:
        """What was refused, with ``unreadable`` messages, in words; "" where nothing was."""
        counts = self.refused + Counter({"that could not be read": unreadable})
        return ", ".join(f"{count} {reason}" for reason, count in sorted(counts.items()))


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
