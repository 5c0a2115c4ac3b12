"""What routes need of a publisher."""

from typing import Any, Protocol

from paceline.topics import Topic


class Publishes(Protocol):
    """What routes need of `Outgoing`."""

    def check(self) -> None:
        """Refuse a change while the brokers do not answer."""

    def command(self, target: str, action: str, arguments: dict[str, Any], issuer: str, cluster: str) -> str:
        """Ask services of ``cluster`` for something; the command's id."""

    def event(self, topic: Topic, event: Any) -> None:
        """Publish an event."""

    def audit(self, action: str, target: str, issuer: str, reason: str, cluster: str | None = None) -> None:
        """Note a change in the audit log: in ``cluster``, in our own by default."""
