"""The link between a balancer and the sidecar of its node: what it reports goes out, plans of others come back.

Rule of this file: a box with two sides and nothing that waits. The training thread puts in and takes out; the thread
that ships marks carries. Where the sidecar is slow, gone or of an earlier version, the newest is kept and training
goes on under the plan that it has.
"""

from __future__ import annotations

import os
from collections import deque

from paceline.training.balance_messages import (
    BalanceObserved,
    BalancePlan,
    BalanceWord,
    ProposedPlan,
    decode_told,
    encode,
)
from paceline.training.messages import SOCKET_VARIABLE

#: An observation is sent this often: the newest.
OBSERVED_EVERY_S = 1.0
#: Plans that wait for a sidecar; of more the newest.
MOST_PLANS = 64


class BalanceLink:
    """One process's link. Its balancer calls ``begin``, and then ``report``, ``adopted`` and ``proposed``."""

    def __init__(self) -> None:
        self._run = 0
        self._observed: BalanceObserved | None = None
        self._plans: deque[BalancePlan] = deque(maxlen=MOST_PLANS)
        self._followed: BalancePlan | None = None
        self._proposed: ProposedPlan | None = None
        #: Whether plans of others are waited for, and whether the sidecar knows that; whether it understands us.
        self.awaits = False
        self._asked = False
        self._hears = False
        self._observed_at_s = float("-inf")
        #: Messages that were too large for the socket.
        self.unsent = 0

    # --- the balancer's side ------------------------------------------------------------------------------------------

    def begin(self, run: int) -> None:
        """A balancer starts, and its ranks have drawn ``run``: what was here of an earlier one is forgotten."""
        self._run, self._observed, self._followed, self._proposed = run, None, None, None
        self._plans.clear()
        self.awaits = self._asked = False

    def report(self, observed: BalanceObserved) -> None:
        """Tell what all ranks measured (rank 0 alone): of what comes within a second, the newest is sent."""
        self._observed = observed

    def adopted(self, plan: BalancePlan) -> None:
        """Tell which plan is followed from now on (rank 0 alone)."""
        self._followed = plan
        self._plans.append(plan)

    def proposed(self) -> ProposedPlan | None:
        """The plan from outside that came last; None while there is none. Whether it may be followed, others decide.

        The first call asks the sidecar to listen for them, so every rank whose balancer follows Kafka calls it.
        """
        self.awaits = True
        return self._proposed

    # --- the shipping thread's side -----------------------------------------------------------------------------------

    def connect(self) -> None:
        """Another sidecar is at the other end, of whom nothing is known: it receives again what still holds."""
        self._hears = self._asked = False
        if self._followed is not None and not self._plans:
            self._plans.append(self._followed)

    def due(self, now_s: float) -> list[bytes]:
        """The messages to be sent at ``now_s`` (monotonic); each is handed out once."""
        if not self._hears:
            return []
        words = []
        if self.awaits and not self._asked:
            self._asked = True
            words.append(BalanceWord(awaits=True, run=self._run))
        while self._plans:
            words.append(BalanceWord(plan=self._plans.popleft(), run=self._run))
        if self._observed is not None and now_s - self._observed_at_s >= OBSERVED_EVERY_S:
            observed, self._observed, self._observed_at_s = self._observed, None, now_s
            words.append(BalanceWord(observed=observed, run=self._run))
        made = [encode(word) for word in words]
        self.unsent += made.count(None)
        return [data for data in made if data is not None]

    def hear(self, told: bytes) -> None:
        """Take in what the sidecar sent; a plan replaces the one before it, so that a bad one never blocks the next."""
        hears, plan = decode_told(told)
        self._hears = self._hears or hears
        if plan is not None:
            self._proposed = plan


def connected() -> BalanceLink | None:
    """This process's link; None where no ``paceline run`` or ``training.watch`` is around it."""
    from paceline.training.activation import current  # whose session holds a link

    running = current()
    if running is None or not os.environ.get(SOCKET_VARIABLE):
        return None
    return running.balance
