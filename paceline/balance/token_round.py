"""Tokens as weights: the mean over all tokens of a round, of all ranks and of every pass that was accumulated.

The total is known only when the last pass is counted, and the gradients of the passes before have their scale by then.
So every pass of a round is weighted as if the total were the last round's, which all ranks know; while gradients are
exchanged the true total is summed up beside them, and in the end they are scaled by last / true. Nobody waits for a
count, and where two rounds have equally many tokens there is nothing to scale.
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

    A rank makes the same calls in each round: ``weight`` for each pass, ``exchange`` before the one that exchanges
    gradients, ``scale`` after it.
    """

    def __init__(self, exchange: Exchange, world: int) -> None:
        self.used = False
        self._exchange, self._world = exchange, world
        self._tokens = 0.0
        self._supposed = 0.0
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
        """The round's last pass is counted: its sum over all ranks is on its way."""
        self._sum = self._exchange.sum(self._tokens)
        self._tokens = 0.0

    def scale(self, parameters: Iterable[nn.Parameter]) -> None:
        """Gradients get the scale of the true total; where there is no token in it they are all zero."""
        if self._sum is None:
            return
        total, supposed = self._sum.wait(), self._supposed
        self._sum = None
        if not total or total == supposed:
            return
        self._supposed = total
        gradients = [p.grad for p in parameters if p.grad is not None]
        if gradients:
            torch._foreach_mul_(gradients, supposed / total)
