"""The worker's part in commands: it answers those for ``streams``, and asks sidecars for full rows.

Rule of this file: a door beside the events' own, with clients and threads of its own: whatever is wrong with commands,
no event waits for it. It outlives a worker that starts again.
"""

import logging
import secrets
import time

from paceline.command_reader import CommandReader
from paceline.command_rules import STREAMS, CommandRules, Reader
from paceline.delivery.publisher import Publisher
from paceline.events import Event
from paceline.kafka.errors import BusError
from paceline.kafka.settings import BrokerSettings
from paceline.kafka.topic_admin import ensure_topics
from paceline.topics import AUDIT, COMMAND

from .full_rows import FullRowsRequests

log = logging.getLogger(__name__)

#: What is left to be sent gets so long at the end.
CLOSE_S = 2.0


class CommandDoor:
    """Commands in, audit entries and commands out; who does not ``obey`` commands gives none either."""

    def __init__(self, settings: BrokerSettings, reader: Reader, *, obeys: bool) -> None:
        """Make the topics where they are missing. A worker that may not do that works without commands."""
        try:
            ensure_topics(settings, (COMMAND, AUDIT))
        except BusError as error:
            log.warning("no commands: %s", error)
        self._publisher = Publisher(settings, client_id="paceline-streams-commands", on_warning=log.warning)
        rules = CommandRules(reader, {}, obeys=obeys, since_s=time.time())
        self._reader = CommandReader(settings, "paceline-streams-commands", rules, self._publisher.publish, _not_heard)
        self._requests = FullRowsRequests(f"streams-{secrets.token_hex(6)}") if obeys else None

    def hear(self, event: Event) -> None:
        """The worker has published ``event``."""
        if self._requests is not None:
            self._requests.update(event, time.monotonic())

    def turn(self) -> None:
        """Answer what was asked, ask what is due; never waits."""
        self._reader.turn((STREAMS,))
        if self._requests is not None:
            for command in self._requests.tick(time.monotonic(), time.time()):
                self._publisher.publish(COMMAND, command)

    def close(self) -> None:
        """The worker ends."""
        self._reader.close()
        self._publisher.close(CLOSE_S)


def _not_heard(cause: str) -> None:
    log.warning("commands are not received: %s", cause)
