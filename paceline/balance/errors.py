"""What is wrong with a use of the balancer, in a sentence that says what to do."""

from __future__ import annotations


class BalanceError(ValueError):
    """The balancer cannot make exact gradients of what it was given; the message says what to change."""
