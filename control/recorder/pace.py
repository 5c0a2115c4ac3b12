"""How often collectors sample while a session wants it: asked of the collectors anew before each wish expires.

Rule of this file: pure but for ``publish``; time is an argument. Wishes are renewed by ``steady_s``, of a clock that
nobody sets; ``now_s`` is what collectors read a command's end by. A recorder that is killed asks no more, and the
collectors go back to their own interval by themselves.
"""

import secrets
from collections.abc import Callable

from paceline.command_rules import node_target
from paceline.events import SAMPLE, Command
from paceline.topics import COMMAND, Topic

from ..sessions.manifest import Definition
from .progress import Progress

#: A wish holds for so long, and is renewed before it ends; a command that nobody has heard by then is void.
LEASE_S, RENEW_S, EXPIRES_S = 120.0, 60.0, 30.0
#: Nodes that are asked at most, and at a time: commands have a limit of their own.
MOST_NODES, AT_ONCE = 10_000, 50


class PaceRequests:
    """Asks the collectors of a session's nodes to sample as often as ``definition`` wants."""

    def __init__(self, definition: Definition, issuer: str, publish: Callable[[Topic, Command], None]) -> None:
        self._definition, self._issuer, self._publish = definition, issuer[:200], publish
        self._asked_s: dict[str, float] = {}

    def turn(self, progress: Progress, now_s: float, steady_s: float) -> None:
        """Ask whoever is due at ``steady_s``."""
        if self._definition.interval_s is None:
            return
        due = [node for node in progress.heard if steady_s - self._asked_s.get(node, float("-inf")) >= RENEW_S]
        for node in sorted(due)[:AT_ONCE]:
            if node in self._asked_s or len(self._asked_s) < MOST_NODES:
                self._asked_s[node] = steady_s
                self._publish(COMMAND, self._command(node, now_s, LEASE_S))

    def end(self, now_s: float) -> None:
        """The session is over: what was asked for is, too."""
        for node in list(self._asked_s)[:AT_ONCE]:  # The others' wishes expire by themselves.
            self._publish(COMMAND, self._command(node, now_s, 0.0))

    def _command(self, node: str, now_s: float, seconds: float) -> Command:
        own = self._definition
        return Command(
            id=secrets.token_hex(8),
            cluster=own.cluster,
            target=node_target(node)[:256],
            action=SAMPLE,
            arguments={
                "lease": own.id,
                "interval_s": own.interval_s,
                "seconds": seconds,
                "adaptive": own.adaptive,
            },
            expires_s=now_s + EXPIRES_S,
            issuer=self._issuer,
        )
