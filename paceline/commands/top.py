"""``paceline top``: the page's numbers in a terminal.

Rule of this file: options to what runs. Textual is imported only where a terminal is drawn.
"""

import argparse
import os
import shutil
import sys
import time
from importlib import import_module

import msgspec

from paceline.install import install
from paceline.kafka.errors import BusError
from paceline.kafka.reach import wait_for_broker
from paceline.kafka.settings import BrokerSettings, add_brokers_option
from paceline.options import Parser
from paceline.terminal import say
from paceline.top import plain
from paceline.top.picture import Picture
from paceline.top.reader import Reader
from paceline.visible import visible

EPILOG = """keys:
  j k or arrows   up and down; of a job, its ranks are shown below
  tab, shift+tab  the next pane, and the one before
  enter           more of a finding or a suggestion; esc goes back
  /               show only rows that hold some words; esc shows all
  p, q            pause, quit

examples:
  paceline top --brokers kafka-1:9092
  paceline top --once                     plain text, once: for scripts, watch(1) and screen readers
  paceline top --once --job train-7       one job alone
  paceline top --once --json | jq '.jobs[] | select(.state == "slow") | .job'
"""


def parser() -> argparse.ArgumentParser:
    """The command line."""
    made = Parser(
        prog="paceline top",
        description="Show jobs, ranks, findings and suggestions in a terminal, live.\nNeeds a Kafka broker.",
        epilog=EPILOG,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    made.add_argument("--job", metavar="J", help="only this job")
    made.add_argument("--once", action="store_true", help="print plain text once")
    made.add_argument("--json", action="store_true", help="with --once: one JSON object")
    made.add_argument(
        "--wait", type=_seconds, default=20.0, metavar="S", help="with --once: read for at most S seconds (%(default)g)"
    )
    add_brokers_option(made)
    return made


def main(argv: list[str]) -> int:
    """Run the command and return its exit status."""
    args = parser().parse_args(argv)
    if args.json and not args.once:
        _say("--json is for --once")
        return 2
    if args.once:
        return _once(BrokerSettings.from_environ(os.environ, args.brokers), args)
    if not (sys.stdin.isatty() and sys.stdout.isatty()):
        _say("not a terminal; use `paceline top --once` for plain text")
        return 2
    try:
        screen = import_module("paceline.top.screen")
    except ModuleNotFoundError as error:
        _say(f"needs {error.name}; {install('top')}, or use --once, which needs nothing more")
        return 2
    reader = Reader(BrokerSettings.from_environ(os.environ, args.brokers))
    reader.start()
    try:
        screen.Top(reader, args.job).run()
    finally:
        reader.stop()
    return 0


def _once(settings: BrokerSettings, args: argparse.Namespace) -> int:
    end = time.monotonic() + args.wait
    try:
        wait_for_broker(settings, 0.0)
    except BusError as error:
        _say(str(error))
        return 1
    reader = Reader(settings)
    reader.start()
    while not reader.connection.caught_up and time.monotonic() < end:
        time.sleep(0.02)
    picture, connection = reader.picture(None, args.job), reader.connection
    reader.stop()
    _print(picture, args, settings.address)
    if not connection.caught_up:
        _say(f"not all was read within {args.wait:g} s: {connection.cause or 'much is kept'}; --wait waits longer")
        return 1
    return 0


def _print(picture: Picture, args: argparse.Namespace, address: str) -> None:
    """The picture on standard output."""
    if args.json:
        shown = visible(msgspec.json.encode(picture).decode()) + "\n"
    else:
        width = shutil.get_terminal_size().columns if sys.stdout.isatty() else None
        shown = plain.text(picture, width, address, args.job)
    print(shown, end="", flush=True)


def _seconds(raw: str) -> float:
    value = float(raw)
    if not 0 < value <= 3600:
        raise ValueError
    return value


def _say(line: str) -> None:
    say(line, "paceline top")
