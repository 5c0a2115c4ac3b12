"""``paceline simulate fleet``: many jobs on many nodes, as a recording or on the bus.

Rule of this file: options to a fleet, messages to a file or a broker.
"""

import argparse
import contextlib
import re
import time
from pathlib import Path

from paceline.kafka.settings import add_brokers_option
from paceline.options import Parser
from paceline.pace import speed
from paceline.recording import check_writable
from paceline.terminal import Progress, say
from paceline.yaml_document import LONGEST

from .fleet import Fleet
from .fleet_file import FleetError, read
from .fleet_spec import FleetSpec
from .moments import seconds, unix
from .sink import Sink, exit_status, published, recorded
from .truth import as_json

EXAMPLES = """examples:
  paceline simulate fleet simulator/examples/fleet.yaml --record fleet.jsonl.zst --truth fleet.json
  paceline simulate fleet simulator/examples/fleet.yaml --record - | paceline analyze -
  paceline simulate fleet simulator/examples/fleet.yaml --brokers localhost:9092 --speed 10
  paceline simulate fleet simulator/examples/days.yaml --start 3d --brokers localhost:9092 --speed max

docs/simulate.md has every key of the description, with what it means and how it is bounded."""


def parser() -> argparse.ArgumentParser:
    """The options."""
    made = Parser(
        prog="paceline simulate fleet",
        description="Simulate many jobs on many nodes, with known faults and silences.\n"
        "Needs a Kafka broker, or -o FILE.",
        epilog=EXAMPLES,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    made.add_argument("spec", metavar="SPEC.yaml", help="the description of the fleet, or - for standard input")
    made.add_argument("-o", "--record", metavar="FILE", help="write a recording: .jsonl, .jsonl.gz, .jsonl.zst, or -")
    add_brokers_option(made, "send it to these Kafka brokers instead")
    made.add_argument("--speed", type=speed, default=1.0, metavar="N", help="on the bus N times as fast, or max")
    made.add_argument("--seed", type=int, metavar="N", help="instead of the description's; same seed, same bytes")
    made.add_argument(
        "--start",
        metavar="WHEN",
        help="instead of the description's: 2026-01-05T00:00:00Z, now, or 3d for so long ago",
    )
    made.add_argument("--truth", metavar="FILE", help="write the injected faults as JSON")
    return made


def main(argv: list[str]) -> int:
    """Simulate a fleet; the exit status."""
    options = parser().parse_args(argv)
    if bool(options.record) == bool(options.brokers):
        say("simulate fleet: name a recording with --record FILE, or a broker with --brokers HOST:PORT")
        return 2
    return exit_status(lambda: _simulate(options), options.record or options.brokers)


def _simulate(options: argparse.Namespace) -> None:
    fleet = Fleet(_spec(options))
    if options.truth:
        check_writable(options.truth)
    with _sink(options, fleet) as sink:
        _run(fleet, sink)
    if options.truth:
        Path(options.truth).write_bytes(as_json(fleet.truth()))


def _spec(options: argparse.Namespace) -> FleetSpec:
    file = options.spec
    try:
        # One character more than is read: that a file is too long is found without reading all of it.
        with open(0 if file == "-" else file, encoding="utf-8", closefd=file != "-") as stream:
            text = stream.read(LONGEST + 1)
    except OSError as error:
        raise FleetError(f"cannot read {file}: {error.strerror}") from error
    except UnicodeDecodeError as error:
        raise FleetError(f"{file}: no UTF-8 text") from error
    if options.seed is not None and not 0 <= options.seed <= 2**53:
        raise FleetError(f"--seed {options.seed}: 0 to 2**53")
    return read(
        text,
        "standard input" if file == "-" else file,
        seed=options.seed,
        start_s=None if options.start is None else _start_s(options.start),
        otherwise_s=time.time() if options.brokers else None,
    )


def _start_s(text: str) -> float:
    """Unix time of ``--start``."""
    try:
        if text == "now":
            return time.time()
        return unix(text) if re.match(r"\d{4}-\d", text) else time.time() - seconds(text)
    except ValueError as error:
        raise FleetError(f"--start: {error}") from error


def _sink(options: argparse.Namespace, fleet: Fleet) -> contextlib.AbstractContextManager[Sink]:
    if options.record:
        return recorded(options.record)
    return published(options.brokers, options.speed, fleet.begin_s)


def _run(fleet: Fleet, sink: Sink) -> None:
    progress, count = Progress(), 0
    whole_s = fleet.end_s - fleet.begin_s
    for message in fleet.messages():
        sink(message)
        count += 1
        if count % 100 == 0:
            now_s = message.time_s - fleet.begin_s
            progress.tell(f"{count} messages, {now_s:.0f} of {whole_s:.0f} s of the fleet ({now_s / whole_s:.0%})")
    progress.end()
    say(f"{count} messages, {whole_s:.0f} s of {len(fleet.spec.jobs)} jobs on {len(fleet.spec.groups)} nodes")
