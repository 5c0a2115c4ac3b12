"""Link: what goes between the balancer and the sidecar beside the process, where a run has one.

Rule of this file: it translates, and the balancer never waits for it. Rank 0 tells what all measured and which plans
are followed; every rank gets the plans that come from outside, and whether one may be followed is not decided here.
"""

from __future__ import annotations

import contextlib
import sys
from collections.abc import Sequence

from paceline.training.balance_link import BalanceLink
from paceline.training.balance_messages import BalanceObserved, BalancePlan, ProposedPlan

from .plan import Plan
from .replan import ControllerConfig, Replan


class Link:
    """``source`` is who makes plans: ``inband``, or ``kafka`` for the stream processors; ``run`` the ranks' number."""

    def __init__(
        self, channel: BalanceLink, rank: int, config: ControllerConfig, mode: str, source: str, run: int
    ) -> None:
        self._channel, self._tells, self._config = channel, rank == 0, config
        self._mode, self._source = mode, source
        self.run = run
        channel.begin(run)

    def warn(self, text: str) -> None:
        """One line of rank 0; not a Python warning, which a script may have made an error."""
        if self._tells:
            with contextlib.suppress(Exception):  # a closed stream is no reason to stop training
                print(f"paceline: {text}; training goes on", file=sys.stderr, flush=True)

    @property
    def decides(self) -> bool:
        """Whether plans come from outside."""
        return self._source == "kafka"

    def observed(
        self,
        plan: Plan,
        batch: int,
        times_s: Sequence[float | None],
        most: Sequence[int | None],
        ran_out: Sequence[int],
    ) -> None:
        """What all ranks measured under ``plan``, up to batch ``batch``; how often each has run out of memory."""
        if not self._tells:
            return
        config = self._config
        caps = list(most) if any(cap is not None for cap in most) else []
        self._channel.report(
            BalanceObserved(
                version=plan.version,
                batch=batch,
                shares=list(plan.shares),
                ready_s=list(times_s),
                source=self._source,
                mode=self._mode,
                global_batch=config.total,
                tile=config.tile,
                conserve=config.conserve,
                flex=config.flex,
                most=caps,
                ran_out=list(ran_out) if any(ran_out) else [],
            )
        )

    def followed(self, plan: Plan, replan: Replan | None) -> None:
        """``plan`` is followed from its first batch on, for ``replan``'s reason; None: it came from outside."""
        if not self._tells:
            return
        self._channel.adopted(
            BalancePlan(
                version=plan.version,
                first_batch=plan.first_batch,
                shares=list(plan.shares),
                reason=replan.reason if replan is not None else "",
                predicted_s=replan.predicted_s if replan is not None else None,
                measured_s=replan.measured_s if replan is not None else None,
                made_by="inband" if replan is not None else "streams",
                mode=self._mode,
            )
        )

    def proposed(self) -> ProposedPlan | None:
        """The plan from outside that came last; None where they are made here."""
        return self._channel.proposed() if self.decides else None
