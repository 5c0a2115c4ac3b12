"""Tokens as weights: the mean over all tokens of a step, of all ranks and of every pass that was accumulated.

The total is known only when the last pass is counted, and the gradients of the passes before have their scale by then.
So every pass is weighted as if the total were the last one, which all ranks know; while gradients are exchanged the
true total is summed up beside them, and then all that has come since the last step is scaled by last / true. Nobody
waits for a count, and where two steps have equally many tokens there is nothing to scale.
"""

from __future__ import annotations

import math
from collections.abc import Iterable

import torch
from torch import nn

from .errors import BalanceError
from .exchange import Exchange, Sum


class TokenRound:
    """Counts tokens; ``used`` once there are any to count.

    All ranks make the same calls: ``weight`` for each pass, ``exchange`` before one that exchanges gradients, ``scale``
    after it, ``step`` when the optimizer takes them or they are thrown away.
    """

    def __init__(self, exchange: Exchange, world: int) -> None:
        self.used = False
        self._exchange, self._world = exchange, world
        self._tokens = 0.0
        #: The total that gradients have the scale of, and what was counted since the last step.
        self._supposed = 0.0
        self._since_step = 0.0
        self._sum: Sum | None = None

    def weight(self, tokens: float | torch.Tensor) -> float:
        """What a loss that is the mean over ``tokens`` of this rank is multiplied by; the first time, ranks meet.

        Raises:
            BalanceError: it is no number of tokens.
        """
        count = float(tokens)
        if not (math.isfinite(count) and count >= 0):
            raise BalanceError(f"tokens={tokens!r}: it takes how many tokens this loss is the mean of, 0 or more")
        self.used = True
        if not self._supposed:
            self._supposed = self._exchange.sum(count).wait() or 1.0
        self._tokens += count
        return self._world * count / self._supposed

    def exchange(self) -> None:
        """The last pass before an exchange of gradients is counted: the sum over all ranks is on its way."""
        self._sum = self._exchange.sum(self._tokens)
        self._tokens = 0.0

    def scale(self, parameters: Iterable[nn.Parameter]) -> None:
        """Gradients get the scale of the true total; where there is no token in it they are all zero."""
        if self._sum is None:
            return
        self._since_step += self._sum.wait()
        self._sum = None
        total, supposed = self._since_step, self._supposed
        if not total or total == supposed:
            return
        self._supposed = total
        gradients = [p.grad for p in parameters if p.grad is not None]
        if gradients:
            torch._foreach_mul_(gradients, supposed / total)

    def step(self) -> None:
        """The optimizer takes the gradients, or they were thrown away: what comes is of the next step."""
        self._since_step = 0.0
