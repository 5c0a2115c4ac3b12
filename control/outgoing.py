"""What control publishes: commands, thresholds, plans, tombstones of sessions, and its own lines in the audit log.

Rule of this file: no change waits for the brokers. One that they could not receive is refused beforehand.
"""

import secrets
import socket
import time
from collections.abc import Callable
from typing import Any

from paceline import wire
from paceline.delivery.publisher import Publisher
from paceline.events import AuditEntry, Command, SessionState
from paceline.topics import AUDIT, COMMAND, SESSION, Topic
from paceline.web.failures import RefusedError

#: A command that nobody has heard by then is void.
EXPIRES_S = 60.0


class Outgoing:
    """Publishes for ``cluster`` through ``publisher``; ``waits`` says why the brokers do not answer, None: they do."""

    def __init__(self, publisher: Publisher, cluster: str, waits: Callable[[], str | None]) -> None:
        self._publisher, self._cluster, self._waits = publisher, cluster, waits
        self._node = socket.gethostname()[:200]

    def check(self) -> None:
        """Whether a change can be made now.

        Raises:
            RefusedError: 503 the brokers do not answer; the text says why.
        """
        if cause := self._waits():
            raise RefusedError(503, "brokers", f"{cause}; nothing was changed, see /readyz"[:1000])

    def command(self, target: str, action: str, arguments: dict[str, Any], issuer: str, cluster: str) -> str:
        """Ask services of ``cluster`` for something; the command's id.

        Raises:
            RefusedError: 503 the brokers are away, 422 it is no command.
        """
        command = Command(
            id=secrets.token_hex(8),
            cluster=cluster,
            target=target,
            action=action,
            arguments=arguments,
            expires_s=time.time() + EXPIRES_S,
            issuer=issuer,
        )
        self.event(COMMAND, command)
        return command.id

    def event(self, topic: Topic, event: Any) -> None:
        """Publish an event.

        Raises:
            RefusedError: 503 the brokers are away, 422 it is none: no reader would take it.
        """
        try:
            wire.decode(topic, wire.encode(event))
        except (wire.WireError, UnicodeEncodeError) as error:
            raise RefusedError(422, topic.short, f"no {topic.short}: {error}"[:1000]) from None
        self.check()
        self._publisher.publish(topic, event)

    def session(self, name: str, state: SessionState | None) -> None:
        """Tell how a session stands; None: it is deleted."""
        if state is None:
            self._publisher.publish_encoded(SESSION.name, name, b"")
        else:
            self._publisher.publish(SESSION, state)

    def audit(self, action: str, target: str, issuer: str, reason: str, cluster: str | None = None) -> None:
        """Note in the audit log what was changed here, and for whom: in ``cluster``, in our own by default."""
        entry = AuditEntry(
            command_id=secrets.token_hex(8),
            cluster=self._cluster if cluster is None else cluster,
            target=target[:256],
            action=action,
            issuer=issuer,
            time_s=time.time(),
            service="control",
            node=self._node,
            outcome="accepted",
            reason=reason[:500],
        )
        self._publisher.publish(AUDIT, entry)
