"""``paceline doctor``: is everything there that Paceline needs, and if not, how to fix it."""

import argparse
import os
from collections.abc import Iterator
from pathlib import Path

import msgspec

from paceline.commands import checks, running_checks
from paceline.commands.checks import Check
from paceline.delivery.spool_folders import spool_place
from paceline.kafka.errors import BusError, explained
from paceline.kafka.settings import BrokerSettings, add_brokers_option
from paceline.options import Parser
from paceline.rights import SERVICES
from paceline.settings import SettingError
from paceline.visible import visible, without_logins

EPILOG = """exit status: 0 when nothing fails (a "warn" is no failure), 1 otherwise
"-" (in JSON "info"): does not exist, and is not required

examples:
  paceline doctor                            this machine and PACELINE_BROKERS
  paceline doctor --brokers kafka-1:9092     another Kafka
  paceline doctor --ask http://streams-1:6066/readyz    also a worker on another machine
  paceline doctor --spool /var/spool/paceline           also the spool of `collect --spool`
  paceline doctor --service page             the rights of the page's login
  paceline doctor --json | jq 'select(.status == "fail")'
"""


def parser() -> argparse.ArgumentParser:
    """The command line."""
    made = Parser(
        prog="paceline doctor",
        description="Check broker, login, topics, NVML, AMD SMI, clock, versions, archive, lag, spools, dead letters; "
        "print a fix for each problem.\n"
        "Needs nothing: each check names what is missing.",
        epilog=EPILOG,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    add_brokers_option(made)
    made.add_argument(
        "--ask", action="append", default=[], metavar="URL", help="a service that must be ready; may be repeated"
    )
    made.add_argument(
        "--spool", action="append", default=[], metavar="DIR", help="a folder of --spool of `collect`; may be repeated"
    )
    made.add_argument(
        "--service",
        choices=[*SERVICES],
        help="one of `paceline rights`: whether this login may do on the topics what it does there",
    )
    made.add_argument("--json", action="store_true", help="one JSON object a line: name, status, says, fix")
    return made


def main(argv: list[str]) -> int:
    """Run the command and return its exit status."""
    args = parser().parse_args(argv)
    failed = False
    for check in examine(args.brokers, os.environ, args.ask, [Path(folder) for folder in args.spool], args.service):
        failed = failed or check.status == "fail"
        told = msgspec.json.encode(check).decode() if args.json else line(check)
        print(visible(without_logins(told)), flush=True)
    return 1 if failed else 0


def line(check: Check) -> str:
    """A check as a person reads it."""
    fix = f"; fix: {check.fix}" if check.fix else ""
    status = "-" if check.status == "info" else check.status
    return f"{status:<4}  {check.name:<15}  {check.says}{fix}"


def examine(
    brokers: str | None,
    environ: os._Environ[str] | dict[str, str],
    services: list[str] | None = None,
    spools: list[Path] | None = None,
    service: str | None = None,
) -> Iterator[Check]:
    """All checks, each as soon as it is done; those that need a broker last, and only where one answers."""
    yield from checks.versions()
    yield checks.nvml()
    yield from checks.amd_smi()
    yield from running_checks.services(services or [], environ)
    own = spool_place(environ)
    for folder in [*([own] if own else []), *(spools or [])]:
        yield running_checks.spool(folder)
    yield from running_checks.archive(environ)
    try:
        settings = BrokerSettings.from_environ(environ, brokers)
        reached = checks.brokers(settings)
    except SettingError as error:
        yield Check("settings", "fail", str(error), "correct or unset it")
        return
    yield from reached
    if all(check.status == "fail" for check in reached):
        return
    yield checks.login(settings)
    try:
        with explained(settings):
            yield from checks.advertised(settings)
            yield from checks.topics(settings)
            yield from checks.authorizer(settings)
            if service:
                yield checks.rights(settings, service)
            yield checks.clock(settings)
            yield from running_checks.lag(settings)
            yield running_checks.dead_letters(settings)
    except BusError as error:
        yield Check("broker", "fail", f"{error.address}: {error.cause}", error.mend)
