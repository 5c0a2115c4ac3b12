"""``paceline ask``: a command to sidecars, collectors or workers, and what came of it.

Rule of this file: one command out, its audit entries in. Whether it is obeyed, and what its arguments must be, is for
those who hear it to say.
"""

import argparse
import getpass
import os
import secrets
import socket
import time
from collections.abc import Callable, Iterator

import msgspec

from paceline import wire
from paceline.command_rules import LONGEST_S, STREAMS, TARGETS
from paceline.events import FULL_ROWS, AuditEntry, Command
from paceline.kafka.errors import BusError
from paceline.kafka.follow import NOW, POLL_S, Follower
from paceline.kafka.outbound import Outbound
from paceline.kafka.settings import BrokerSettings, add_brokers_option
from paceline.kafka.topic_admin import ensure_topics
from paceline.settings import CLUSTER, number
from paceline.terminal import say
from paceline.topics import AUDIT, COMMAND
from paceline.visible import visible

EPILOG = f"""targets:
  job:NAME     {TARGETS["job"]}
  node:NAME    {TARGETS["node"]}
  streams      {TARGETS["streams"]}

actions:
  {FULL_ROWS}    of job:NAME: send every collective, not their sums, for --arg seconds=N (1 to 3600)

examples:
  paceline ask job:resnet-7 full_rows --arg seconds=60     every collective of a job for a minute
  paceline ask job:resnet-7 full_rows --arg seconds=60 --expires 600 --wait 0    nobody waits; heard within ten minutes
  paceline tail audit --from-beginning                     who asked for what, and what came of it

Answers come one line each, or as JSON Lines with --json. Exit status 0: all that answered obey (with --wait 0: it was
sent); 1: somebody does not, nobody answered, or there is no broker; 2: what was asked for is no command.
"""

#: Who is meant answers within a second or so of the others: after so long without another there is none.
SETTLED_S = 3.0
_scalars = msgspec.json.Decoder(None | bool | int | float | str)


def parser() -> argparse.ArgumentParser:
    """The command line."""
    made = argparse.ArgumentParser(
        prog="paceline ask",
        description="Ask sidecars, collectors or workers for something, and print what came of it.",
        epilog=EPILOG,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    made.add_argument("target", metavar="TARGET", type=_target, help="job:NAME, node:NAME or streams")
    made.add_argument("action", metavar="ACTION", help="what they shall do")
    made.add_argument(
        "--arg", metavar="NAME=VALUE", action="append", default=[], type=_argument, help="an argument; may be repeated"
    )
    made.add_argument(
        "--expires",
        metavar="S",
        type=_seconds(1.0, LONGEST_S),
        default=60.0,
        help="who hears it later does not obey (60)",
    )
    made.add_argument(
        "--wait", metavar="S", type=_seconds(0.0, 86_400.0), default=10.0, help="wait so long for answers (10)"
    )
    made.add_argument("--issuer", metavar="NAME", default=_user(), help="who asks (default: %(default)s)")
    made.add_argument("--json", action="store_true", help="answers as JSON Lines")
    add_brokers_option(made)
    return made


def main(argv: list[str]) -> int:
    """Run the command and return its exit status."""
    args = parser().parse_args(argv)
    settings = BrokerSettings.from_environ(os.environ, args.brokers)
    command = Command(
        id=secrets.token_hex(8),
        cluster=CLUSTER.read(os.environ),
        target=args.target,
        action=args.action,
        arguments=dict(args.arg),
        expires_s=time.time() + args.expires,
        issuer=args.issuer,
    )
    try:
        wire.decode(COMMAND, wire.encode(command))
    except (wire.WireError, UnicodeEncodeError) as error:
        _say(f"no command: {error}")
        return 2
    try:
        return _ask(settings, command, args.wait, args.json)
    except BusError as error:
        _say(str(error))
        return 1


def _ask(settings: BrokerSettings, command: Command, wait_s: float, as_json: bool) -> int:
    ensure_topics(settings, (COMMAND, AUDIT))
    with Follower(settings, {AUDIT: NOW}, "paceline-ask", resume=True, on_lost=_wait_for_it) as follower:
        if wait_s > 0:
            follower.connect()
        with Outbound(settings, "paceline-ask") as outbound:
            outbound.send(COMMAND.name, command.target.encode(), wire.encode(command))
        if outbound.refused:
            _say(f"not taken by Kafka at {settings.address}; run `paceline doctor`")
            return 1
        if wait_s <= 0:
            return 0
        outcomes = set()
        for entry in _answers(follower, command, wait_s):
            outcomes.add(entry.outcome)
            line = wire.encode(entry).decode() if as_json else _told(entry)
            print(visible(line), flush=True)
    if not outcomes:
        _say(f"nobody answered within {wait_s:g} s: is {command.target} there, and may it read {COMMAND.name}?")
    return 0 if outcomes == {"accepted"} else 1


def _answers(follower: Follower, command: Command, wait_s: float) -> Iterator[AuditEntry]:
    """The entries that answer ``command``, as they come: for ``wait_s`` seconds, or until no other follows."""
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


def _told(entry: AuditEntry) -> str:
    return f"{entry.service} on {entry.node}: {entry.outcome.replace('_', ' ')}: {entry.reason}"


def _target(raw: str) -> str:
    kind, _, name = raw.partition(":")
    if raw != STREAMS and not (kind in ("job", "node") and name):
        raise argparse.ArgumentTypeError(f"{raw!r}: write job:NAME, node:NAME or streams")
    return raw


def _argument(raw: str) -> tuple[str, object]:
    """Name and value of an argument: numbers, true, false, null and what is quoted as in JSON, all else is text."""
    name, equals, value = raw.partition("=")
    if not name or not equals:
        raise argparse.ArgumentTypeError(f"{raw!r}: write NAME=VALUE")
    try:
        return name, _scalars.decode(value)
    except (msgspec.DecodeError, UnicodeEncodeError):
        return name, value


def _seconds(low: float, high: float) -> Callable[[str], float]:
    def read(raw: str) -> float:
        try:
            return number(low, high)(raw)
        except ValueError as error:
            raise argparse.ArgumentTypeError(f"{raw!r}: {error}; allowed: {low:g} to {high:g}") from None

    return read


def _user() -> str:
    try:
        user = getpass.getuser()
    except (OSError, KeyError):  # A container's user may have no name.
        user = str(os.getuid())
    return f"{user}@{socket.gethostname()}"[:200]


def _wait_for_it(cause: str) -> None:
    _say(f"{cause}; waiting for it")


def _say(line: str) -> None:
    say(line, "paceline ask")
