"""Link: what goes between the balancer and the sidecar beside the process, where a run has one.

Rule of this file: it translates, and is silent where there is no sidecar; the balancer never waits for it.
"""

from __future__ import annotations

from collections.abc import Sequence
from time import monotonic
from typing import Any, Protocol

from .handout import Handed
from .plan import Plan

#: Seconds between two reports.
EVERY_S = 1.0


class Channel(Protocol):
    """What ``paceline.training.balance_link`` offers."""

    def report(self, observed: Any) -> None: ...

    def proposed(self) -> Plan | None: ...


class Link:
    """``decides``: plans come from outside; else they are made in band and only told."""

    def __init__(self, channel: Channel, *, decides: bool) -> None:
        self.decides = decides
        self._channel = channel
        self._told_s = -EVERY_S

    def report(self, batch: Handed, version: int, times_s: Sequence[float | None]) -> None:
        raise NotImplementedError

    def proposed(self) -> Plan | None:
        """The newest plan that has come from outside."""
        return self._channel.proposed()
