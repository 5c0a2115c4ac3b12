"""``paceline suggestions``: what should be done, ranked by what it brings; accepted or dismissed from here.

Rule of this file: it reads the topic and sends commands. What is suggested, and whether a command is obeyed, is for the
workers to say; what history suggests is for whoever offers that command.
"""

import argparse
import contextlib
import os
import secrets
import time
from importlib.metadata import entry_points

from paceline import service_modules, wire
from paceline.command_rules import suggestion_target
from paceline.commands.asking import ask, issuer, refusal, seconds, told
from paceline.commands.suggestion_list import SuggestionList, concerns, lines, no_single
from paceline.events import ACCEPT, DISMISS, Command, Suggestion
from paceline.install import install
from paceline.kafka.errors import BusError
from paceline.kafka.follow import BEGINNING, Follower
from paceline.kafka.follow_words import reports
from paceline.kafka.settings import BrokerSettings, add_brokers_option
from paceline.kafka.start_budget import StartBudget
from paceline.options import Parser
from paceline.patience import patient
from paceline.prometheus import PrometheusError
from paceline.settings import number
from paceline.terminal import Progress, say
from paceline.this_node import this_node
from paceline.topics import SUGGESTION
from paceline.visible import visible

EPILOG = """examples:
  paceline suggestions                                     open suggestions, largest gain first
  paceline suggestions --all --json | jq .title            all suggestions, one JSON object per line
  paceline suggestions --watch                             also new and changed ones, until Ctrl-C
  paceline suggestions --accept rebalance-f089             the beginning of the id is enough
  paceline suggestions --dismiss rebalance-f089 --because "the node is replaced on Monday"
  paceline suggestions --prometheus http://prometheus:9090 --days 7    suggestions from dcgm-exporter's history

Exit status 0: listed, or the command was accepted; 1: it was refused or not answered, there is no such suggestion, or
no broker; 2: wrong options.
"""
#: A broker that is there has told all suggestions by then.
CAUGHT_UP_S = 20.0
EXPIRES_S = 60.0
LONGEST_REASON = 256
PROGRAM = "paceline suggestions"
#: What offers to recommend from a history: entry points.
RECOMMENDERS = "paceline.recommenders"


def parser() -> argparse.ArgumentParser:
    """The command line."""
    made = Parser(
        prog=PROGRAM,
        description="List suggestions by expected gain; accept or dismiss one.\nNeeds a Kafka broker, or --prometheus.",
        epilog=EPILOG,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    what = made.add_mutually_exclusive_group()
    what.add_argument("--accept", metavar="ID", help="accept it; its effect is measured afterwards")
    what.add_argument("--dismiss", metavar="ID", help="dismiss it; needs --because")
    what.add_argument(
        "--prometheus", metavar="URL", help="make suggestions from the GPU metrics of this Prometheus; needs no broker"
    )
    what.add_argument("--watch", action="store_true", help="list, then print new and changed ones until Ctrl-C")
    made.add_argument("--because", metavar="TEXT", type=_reason, default="", help="why, in 256 characters at most")
    made.add_argument("--all", action="store_true", help="also what is dismissed, expired, withdrawn or measured")
    made.add_argument(
        "--days", metavar="N", type=_days, default=7.0, help="with --prometheus: of how many days (7; 365 at most)"
    )
    made.add_argument("--job", metavar="J", help="only about this job")
    made.add_argument("--cluster", metavar="C", help="only of this cluster")
    made.add_argument("--json", action="store_true", help="suggestions (or the answer) as JSON Lines")
    made.add_argument(
        "--wait", metavar="S", type=seconds(1.0, 86_400.0), default=10.0, help="seconds to wait for the answer (10)"
    )
    made.add_argument(
        "--issuer", metavar="NAME", default=issuer(), help="your name, for the audit log (default: %(default)s)"
    )
    add_brokers_option(made)
    return made


def main(argv: list[str]) -> int:
    """Run the command and return its exit status."""
    args = parser().parse_args(argv)
    if args.dismiss is not None and not args.because.strip():
        return _refuse("--dismiss wants --because TEXT: who reads the audit log asks why")
    if args.because and args.accept is None and args.dismiss is None:
        return _refuse("--because is for --accept and --dismiss")
    try:
        if args.prometheus is not None:
            return _recommend(args)
        settings = BrokerSettings.from_environ(os.environ, args.brokers)
        if args.accept is not None or args.dismiss is not None:
            return _decide(settings, args)
        return _list(settings, args)
    except (BusError, PrometheusError) as error:
        say(str(error), PROGRAM)
        return 1


def _list(settings: BrokerSettings, args: argparse.Namespace) -> int:
    held = SuggestionList()
    with _follower(settings, held) as follower:
        _catch_up(settings, follower, held)
        _show(held, args)
        while args.watch:
            for record in (record for _, records in follower.poll() for record in records):
                heard = held.hear(record.value)
                if heard is not None and concerns(heard, args.job, args.cluster):
                    _print(heard, time.time(), as_json=args.json)
    return 0


def _show(held: SuggestionList, args: argparse.Namespace) -> None:
    now_s = time.time()
    chosen = held.chosen(now_s, all_=args.all, job=args.job, cluster=args.cluster)
    for suggestion in chosen:
        _print(suggestion, now_s, as_json=args.json)
    if not chosen:
        over = len(held.chosen(now_s, all_=True, job=args.job, cluster=args.cluster))
        say(f"nothing is suggested{f'; {over} are over (--all)' if over else ''}", PROGRAM)


def _recommend(args: argparse.Namespace) -> int:
    """What the history suggests, by whoever of the services offers that."""
    held, progress = SuggestionList(), Progress()
    for entry in entry_points(group=RECOMMENDERS, name="prometheus"):
        try:
            recommend = service_modules.load(entry)
        except ModuleNotFoundError as error:
            return _refuse(f"--prometheus needs {error.name}; {install('streams')}")
        for suggestion in recommend(args.prometheus, args.days, time.time(), progress.tell):
            held.hear(wire.encode(suggestion))
        progress.end()
        _show(held, args)
        return 0
    return _refuse(f"--prometheus: not installed here; {install('streams')}")


def _decide(settings: BrokerSettings, args: argparse.Namespace) -> int:
    held, start = SuggestionList(), args.accept if args.accept is not None else args.dismiss
    with _follower(settings, held) as follower:
        _catch_up(settings, follower, held)
    found = [one for one in held.find(start) if concerns(one, args.job, args.cluster)]
    if len(found) != 1:
        there = held.chosen(time.time(), all_=args.all, job=args.job, cluster=args.cluster)
        say(no_single(start, found, there), PROGRAM)
        return 1
    command = Command(
        id=secrets.token_hex(8),
        cluster=found[0].cluster,
        target=suggestion_target(found[0].id),
        action=ACCEPT if args.accept is not None else DISMISS,
        arguments={"because": args.because},
        expires_s=time.time() + EXPIRES_S,
        issuer=args.issuer,
    )
    if reason := refusal(command):
        return _refuse(reason)
    on_lost = reports(_say)["on_lost"]
    with contextlib.closing(ask(settings, command, args.wait, "paceline-suggestions", on_lost)) as answers:
        entry = next(answers, None)
    if entry is None:
        say(f"no answer within {args.wait:g} s: is `paceline streams` running, and may it read commands?", PROGRAM)
        return 1
    print(visible(wire.encode(entry).decode() if args.json else told(entry)), flush=True)
    return 0 if entry.outcome == "accepted" else 1


def _follower(settings: BrokerSettings, held: SuggestionList) -> Follower:
    def begin_cluster(cause: str) -> None:
        _say(cause)
        held.held.clear()  # It may have suggestions of the same ids.

    return Follower(
        settings,
        {SUGGESTION: BEGINNING},
        "paceline-suggestions",
        resume=True,
        on_cluster=begin_cluster,
        budget=StartBudget(),
        **reports(_say),
    )


def _catch_up(settings: BrokerSettings, follower: Follower, held: SuggestionList) -> None:
    """Read all that the topic holds; nothing where it is not there yet.

    Raises:
        BusError: the brokers are away, or do not tell all of it in time.
    """
    follower.connect()
    limit_s = patient(CAUGHT_UP_S, os.environ)
    end = time.monotonic() + limit_s
    while follower.follows(SUGGESTION) and not follower.caught_up:
        for record in (record for _, records in follower.poll() for record in records):
            held.hear(record.value)
        if time.monotonic() > end:
            cause = follower.cause or f"{SUGGESTION.name} was not read to its end in {limit_s:g} s"
            raise BusError(settings.address, cause, "run `paceline doctor`")


def _print(suggestion: Suggestion, now_s: float, *, as_json: bool) -> None:
    text = [wire.encode(suggestion).decode()] if as_json else lines(suggestion, now_s, this_node())
    print("\n".join(visible(line) for line in text), flush=True)


def _days(raw: str) -> float:
    try:
        return number(1 / 24, 365.0)(raw)
    except ValueError as error:
        raise argparse.ArgumentTypeError(f"{raw!r}: {error}; allowed: 1/24 (0.0417) to 365") from None


def _reason(raw: str) -> str:
    if len(raw) > LONGEST_REASON:
        raise argparse.ArgumentTypeError(f"{len(raw)} characters; allowed: {LONGEST_REASON} at most")
    return raw


def _say(line: str) -> None:
    say(line, PROGRAM)


def _refuse(reason: str) -> int:
    say(reason, PROGRAM)
    return 2
