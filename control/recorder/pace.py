"""How often collectors sample while a session wants it: asked of the collectors anew before each wish expires.

Rule of this file: pure but for ``publish``; time is an argument, of a clock that nobody sets. When a command expires is
told by ``wall``, which those who obey it read too. A recorder that is killed asks no more, and the collectors go back
to their own interval by themselves.
"""

import secrets
import time
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

    def __init__(
        self,
        definition: Definition,
        issuer: str,
        publish: Callable[[Topic, Command], None],
        wall: Callable[[], float] = time.time,
    ) -> None:
        self._definition, self._issuer, self._publish, self._wall = definition, issuer[:200], publish, wall
        self._asked_s: dict[tuple[str, str], float] = {}

    def turn(self, progress: Progress, now_s: float) -> None:
        """Ask whoever is due at ``now_s``."""
        if self._definition.interval_s is None:
            return
        due = [node for node in progress.heard if now_s - self._asked_s.get(node, 0.0) >= RENEW_S]
        for node in sorted(due)[:AT_ONCE]:
            if node in self._asked_s or len(self._asked_s) < MOST_NODES:
                self._asked_s[node] = now_s
                self._publish(COMMAND, self._command(node, LEASE_S))

    def end(self) -> None:
        """The session is over: what was asked for is, too."""
        for node in list(self._asked_s)[:AT_ONCE]:  # The others' wishes expire by themselves.
            self._publish(COMMAND, self._command(node, 0.0))

    def _command(self, of: tuple[str, str], seconds: float) -> Command:
        own, (cluster, node) = self._definition, of
        return Command(
            id=secrets.token_hex(8),
            cluster=cluster,
            target=node_target(node)[:256],
            action=SAMPLE,
            arguments={
                "lease": own.id,
                "interval_s": own.interval_s,
                "seconds": seconds,
                "adaptive": own.adaptive,
            },
            expires_s=self._wall() + EXPIRES_S,
            issuer=self._issuer,
        )
