"""One command out, its audit entries in: what commands have in common that ask services for something.

Rule of this file: it sends, and hands on what is answered. Whether a command is obeyed is for those who hear it.
"""

import argparse
import getpass
import os
import socket
import time
from collections.abc import Callable, Generator, Iterator

from paceline import wire
from paceline.events import AuditEntry, Command
from paceline.kafka.errors import BusError
from paceline.kafka.follow import NOW, POLL_S, Follower
from paceline.kafka.outbound import Outbound
from paceline.kafka.settings import BrokerSettings
from paceline.kafka.topic_admin import ensure_topics
from paceline.settings import number
from paceline.topics import AUDIT, COMMAND

#: Who is meant answers within a second or so of the others: after so long without another there is none.
SETTLED_S = 3.0


def issuer() -> str:
    """Who asks, unless somebody says otherwise: user@host."""
    try:
        user = getpass.getuser()
    except (OSError, KeyError):  # A container's user may have no name.
        user = str(os.getuid())
    return f"{user}@{socket.gethostname()}"[:200]


def seconds(low: float, high: float) -> Callable[[str], float]:
    """A parser of an option's seconds, from ``low`` to ``high``."""

    def read(raw: str) -> float:
        try:
            return number(low, high)(raw)
        except ValueError as error:
            raise argparse.ArgumentTypeError(f"{raw!r}: {error}; allowed: {low:g} to {high:g}") from None

    return read


def refusal(command: Command) -> str | None:
    """Why ``command`` is none that anybody would read, or None."""
    try:
        wire.decode(COMMAND, wire.encode(command))
    except (wire.WireError, UnicodeEncodeError) as error:
        return f"no command: {error}"
    return None


def ask(
    settings: BrokerSettings, command: Command, wait_s: float, program: str, on_lost: Callable[[str], None]
) -> Generator[AuditEntry, None, None]:
    """Send ``command``, and give the entries that answer it as they come: for ``wait_s``, or until no other follows.

    Raises:
        BusError: the brokers are away, or do not take it.
    """
    ensure_topics(settings, (COMMAND, AUDIT))
    with Follower(settings, {AUDIT: NOW}, program, resume=True, on_lost=on_lost) as follower:
        if wait_s > 0:
            follower.connect()
        with Outbound(settings, program) as outbound:
            outbound.send(COMMAND.name, command.target.encode(), wire.encode(command))
        if outbound.refused:
            raise BusError(settings.address, "the command was not taken", "run `paceline doctor`")
        if wait_s > 0:
            yield from _answers(follower, command, wait_s)


def _answers(follower: Follower, command: Command, wait_s: float) -> Iterator[AuditEntry]:
    end = latest = time.monotonic() + wait_s
    while (left_s := end - time.monotonic()) > 0:
        for record in (record for _, records in follower.poll(min(POLL_S, left_s)) for record in records):
            try:
                entry = wire.decode(AUDIT, record.value or b"")
            except wire.WireError:
                continue  # Whatever that is, it is no answer.
            if entry.command_id == command.id:
                yield entry
                end = min(latest, time.monotonic() + SETTLED_S)


def told(entry: AuditEntry) -> str:
    """An entry as a line for a person."""
    return f"{entry.service} on {entry.node}: {entry.outcome.replace('_', ' ')}: {entry.reason}"
