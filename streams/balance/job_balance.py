"""Proposes how the batches of one job are shared out, where its balancer asks for that (``source`` "kafka").

Rule of this file: pure. A version is proposed once and never with other shares, for ranks may hold the one and the
other. What the ranks follow is what they say that they follow: a plan of their own, made when one ran out of memory,
comes before any of these.
"""

from contextlib import suppress
from typing import Any, NamedTuple

from paceline.balance.controller import Controller, ControllerConfig, Replan
from paceline.balance.plan import MOST_NUMBER, Plan, PlanError
from paceline.balance.split import SplitError
from paceline.events import MOST_SHARE, BalanceObserved, BalancePlan
from paceline.sequences import Sequences

from ..stored import Kept, Stored, StoredDecision

#: Sidecars that may follow each other; the one silent for longest is forgotten first.
MOST_PRODUCERS = 64
#: Observations after which a plan that no rank follows is proposed again, under another version.
PATIENCE = 60


class _Setup(NamedTuple):
    """What holds for a run as long as it lives: another one is another run."""

    ranks: int
    total: int
    tile: int
    conserve: bool
    flex: float
    number: int


class _Run(Stored):
    """A run of a job: its controller, the newest observation, and the newest version that was proposed."""

    setup: Kept[_Setup]
    batch: Kept[int]
    at_s: Kept[float]
    proposed: Kept[int]
    waited: Kept[int]
    late: Kept[int]

    def __init__(self, setup: _Setup, controller: Controller) -> None:
        self.setup = setup
        self.controller = controller
        self.batch, self.at_s = -1, 0.0
        self.proposed, self.waited = -1, 0
        #: Observations in a row that seem to be of earlier than the newest.
        self.late = 0

    def state(self) -> dict[str, Any]:
        """The state, with what the controller has measured."""
        return {**super().state(), "shares": list(self.controller.shares), "controller": self.controller.snapshot()}

    def load(self, data: dict[str, Any]) -> None:
        """Take the state that ``state`` described."""
        self.controller.restore(data["controller"])
        super().load(data)


class JobBalance(StoredDecision):
    """Balances one attempt of one job; every event given to it must be of that one."""

    layout = 3
    sequences: Kept[Sequences]
    run: Kept[_Run | None]

    def __init__(self) -> None:
        self.sequences = Sequences(MOST_PRODUCERS)
        self.run = None

    def update(self, event: BalanceObserved) -> list[BalancePlan]:
        """Take in one observation; the plan that it brings to light, if it does."""
        if not self.sequences.admit(event.producer, event.sequence):
            return []
        if event.source != "kafka" or event.mode != "adaptive" or not event.shares:
            return []
        run = self.run
        if run is not None and event.t0_s < run.at_s and (event.run != run.setup.number or event.batch < run.batch):
            run.late += 1
            if run.late < PATIENCE:
                return []  # A spool held it back: newer ones have come. So many in a row are the truth.
        try:
            run = self.run = _followed(run, event)
            _cap(run.controller, event)
            replan = run.controller.observe(event.version, event.ready_s)
        except (PlanError, SplitError):  # Shares that no planner makes, or caps that hold no batch: ranks keep theirs.
            return []
        run.batch, run.at_s, run.late = event.batch, event.t0_s, 0
        return [] if replan is None else self._propose(run, replan, event)

    def _propose(self, run: _Run, replan: Replan, event: BalanceObserved) -> list[BalancePlan]:
        """``replan`` under a version of its own; none while ranks may still come to follow the last."""
        if run.proposed > run.controller.version:
            run.waited += 1
            if run.waited < PATIENCE:
                return []
        version = max(run.proposed, run.controller.version) + 1
        if version > MOST_NUMBER or max(replan.shares) > MOST_SHARE:
            return []  # No rank of ours comes so far, and no reader could decode it.
        run.proposed, run.waited = version, 0
        plan = BalancePlan(
            cluster=event.cluster,
            job=event.job,
            attempt=event.attempt,
            time_s=event.t0_s,
            version=run.proposed,
            shares=list(replan.shares),
            reason=replan.reason,
            predicted_step_s=replan.predicted_s,
            measured_step_s=replan.measured_s,
            made_by="streams",
            mode=event.mode,
            run=event.run,
        )
        return [plan]

    def element(self, kind: type[Stored], data: dict[str, Any]) -> Stored:
        """The run, with a controller of its own."""
        setup = _Setup(*data["setup"])
        return _Run(setup, Controller(_config(setup), data["shares"]))


def _followed(run: _Run | None, event: BalanceObserved) -> _Run:
    """The run that ``event`` tells of, under the plan that its ranks follow: ``run``, or a new one.

    Raises:
        PlanError: its shares are none that can be planned with.
    """
    shares = tuple(event.shares)
    setup = _Setup(len(shares), event.global_batch or sum(shares), event.tile, event.conserve, event.flex, event.run)
    plan = Plan(event.version, event.batch, shares)
    if run is not None and run.setup == setup:
        if event.version > run.controller.version:
            run.controller.adopt(plan)
        if run.controller.version == event.version and run.controller.shares == shares:
            return run
    made = _Run(setup, Controller(_config(setup), shares))
    made.controller.adopt(plan)
    return made


def _config(setup: _Setup) -> ControllerConfig:
    return ControllerConfig(total=setup.total, tile=setup.tile, conserve=setup.conserve, flex=setup.flex)


def _cap(controller: Controller, event: BalanceObserved) -> None:
    """Hold what ranks have room for; a rank whose share is beyond that is planned for by the ranks, at once."""
    if event.most:
        with suppress(SplitError):
            controller.hold(event.most)
