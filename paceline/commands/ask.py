"""``paceline ask``: a command to sidecars, collectors or workers, and what came of it.

Rule of this file: one command out, its audit entries in. Whether it is obeyed, and what its arguments must be, is for
those who hear it to say.
"""

import argparse
import os
import secrets
import time

import msgspec

from paceline import wire
from paceline.command_rules import LONGEST_S, STREAMS, SUGGESTION, TARGETS
from paceline.commands.asking import ask, issuer, refusal, seconds, told
from paceline.decoders import json_decoder
from paceline.events import ACCEPT, CAPTURE, DISMISS, FULL_ROWS, SAMPLE, Command
from paceline.kafka.errors import BusError
from paceline.kafka.follow_words import reports
from paceline.kafka.settings import BrokerSettings, add_brokers_option
from paceline.options import Parser
from paceline.reported_reader import read_reported
from paceline.settings import CLUSTER
from paceline.terminal import say
from paceline.topics import COMMAND
from paceline.visible import visible

EPILOG = f"""targets:
  job:NAME        {TARGETS["job"]}
  node:NAME       {TARGETS["node"]}
  suggestion:ID   {TARGETS[SUGGESTION]}
  streams         {TARGETS["streams"]}

actions:
  {FULL_ROWS}       of job:NAME: send every collective, not their sums, for --arg seconds=N (1 to 3600)
  {CAPTURE}         of job:NAME: used by `paceline capture`, which fetches the traces
  {SAMPLE}          of node:NAME: sample more often, with --arg lease=NAME --arg interval_s=0.2 --arg seconds=60
  {ACCEPT}, {DISMISS} of suggestion:ID, with --arg because=TEXT; `paceline suggestions` lists them

examples:
  paceline ask job:resnet-7 full_rows --arg seconds=60     every collective of a job for a minute
  paceline ask job:resnet-7 full_rows --arg seconds=60 --expires 600 --wait 0    do not wait; valid for ten minutes
  paceline tail audit --from-beginning                     all requests and their outcomes

Answers come one per line, or as JSON Lines with --json. Exit status 0: all that answered accepted (with --wait 0: it
was sent); 1: one refused, none answered, or there is no broker; 2: no such action, or the job does not run, or the
node has not reported.
"""

_scalars = json_decoder(None | bool | int | float | str)


def parser() -> argparse.ArgumentParser:
    """The command line."""
    made = Parser(
        prog="paceline ask",
        description="Send a request to sidecars, collectors or workers, and print the outcome.\nNeeds a Kafka broker.",
        epilog=EPILOG,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    made.add_argument("target", metavar="TARGET", type=_target, help="job:NAME, node:NAME, suggestion:ID or streams")
    made.add_argument("action", metavar="ACTION", help="the action; see below")
    made.add_argument(
        "--arg", metavar="NAME=VALUE", action="append", default=[], type=_argument, help="an argument; may be repeated"
    )
    made.add_argument(
        "--expires",
        metavar="S",
        type=seconds(1.0, LONGEST_S),
        default=60.0,
        help="seconds until the request is ignored (60)",
    )
    made.add_argument(
        "--wait", metavar="S", type=seconds(0.0, 86_400.0), default=10.0, help="seconds to wait for answers (10)"
    )
    made.add_argument("--cluster", metavar="C", help="the cluster that it is sent to (default: PACELINE_CLUSTER)")
    made.add_argument(
        "--anyway", action="store_true", help="send it even if no such job or node has reported yet: see --expires"
    )
    made.add_argument(
        "--issuer", metavar="NAME", default=issuer(), help="your name, for the audit log (default: %(default)s)"
    )
    made.add_argument("--json", action="store_true", help="answers as JSON Lines")
    add_brokers_option(made)
    return made


def main(argv: list[str]) -> int:
    """Run the command and return its exit status."""
    args = parser().parse_args(argv)
    settings = BrokerSettings.from_environ(os.environ, args.brokers)
    command = Command(
        id=secrets.token_hex(8),
        cluster=args.cluster or CLUSTER.read(os.environ),
        target=args.target,
        action=args.action,
        arguments=dict(args.arg),
        expires_s=time.time() + args.expires,
        issuer=args.issuer,
    )
    if reason := refusal(command):
        _say(reason)
        return 2
    outcomes = set()
    try:
        if not args.anyway and (reason := _nobody(settings, command)):
            _say(f"{reason}; send it nevertheless with --anyway")
            return 2
        for entry in ask(settings, command, args.wait, "paceline-ask", reports(_say)["on_lost"]):
            outcomes.add(entry.outcome)
            print(visible(wire.encode(entry).decode() if args.json else told(entry)), flush=True)
    except BusError as error:
        _say(str(error))
        return 1
    if args.wait > 0 and not outcomes:
        _say(f"no answer within {args.wait:g} s: is {command.target} running, and may it read {COMMAND.name}?")
    return 0 if args.wait <= 0 or outcomes == {"accepted"} else 1


def _nobody(settings: BrokerSettings, command: Command) -> str | None:
    """Why nobody would answer ``command``, with who would; None where somebody may."""
    if not command.target.startswith(("job:", "node:")):
        return None
    reported = read_reported(settings, command.cluster, "paceline-ask")
    return reported.refuses_target(command.target) if reported else None


def _target(raw: str) -> str:
    kind, _, name = raw.partition(":")
    if raw != STREAMS and not (kind in ("job", "node", SUGGESTION) and name):
        raise argparse.ArgumentTypeError(f"{raw!r}: write job:NAME, node:NAME, suggestion:ID or streams")
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


def _say(line: str) -> None:
    say(line, "paceline ask")
