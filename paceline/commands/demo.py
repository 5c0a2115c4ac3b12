"""``paceline demo``: a real training run on this machine whose slow rank is named, live.

Rule of this file: nothing is staged. The training run is a real one, started by ``paceline run`` like anybody's; the
findings come off the bus, from the same workers that ``paceline up`` starts.
"""

import argparse
import contextlib
import os
import secrets
import signal
import sys
import time
from collections.abc import Iterator

from paceline.commands import log_folders
from paceline.commands.demo_run import DemoRun
from paceline.commands.services import ServiceError, Services
from paceline.commands.slow_link import LinkError, SlowLink, namespace
from paceline.commands.stack import StackError, add_service_options, broker, check_ports, require, wanted
from paceline.kafka.embedded import EmbeddedBrokerError
from paceline.kafka.errors import BusError
from paceline.kafka.settings import add_brokers_option
from paceline.options import Parser
from paceline.terminal import say

#: Where fewer samples take the time away.
BALANCED = ("none", "compute", "cpu")
FAULTS = ("none", "compute", "input", "cpu", "gc", "link", "hang")
EXAMPLES = """examples:
  paceline demo                                             one rank computes too much; the page shows it
  paceline demo --fault input --rank 1                      one rank waits for its data
  paceline demo --fault hang                                one rank hangs: the page names the line of code
  paceline demo --headless --json --fault compute --rank 2  findings as JSON Lines on standard output
  paceline demo --seconds 60                                exit after 60 s of training; else the page runs until Ctrl-C
  paceline demo --fault compute --balance                   give the slow rank less work, and regain the lost time
  paceline demo --brokers localhost:9092                    on an existing Apache Kafka"""


def parser() -> argparse.ArgumentParser:
    """The options."""
    made = Parser(
        prog="paceline demo",
        description="Run a small training job with one slow rank, and find it live.\n"
        "Needs Paceline's extras for `up`, and PyTorch.",
        epilog=EXAMPLES,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    made.add_argument("--fault", choices=FAULTS, default="compute", help="what makes one rank slow (default: compute)")
    made.add_argument("--rank", type=int, default=2, metavar="R", help="which rank (default: 2)")
    made.add_argument("--ranks", type=int, default=4, metavar="N", help="training processes (default: 4)")
    made.add_argument(
        "--seconds",
        type=float,
        metavar="N",
        help="training time (default: 90; 120 without a fault); then end, with the page",
    )
    made.add_argument("--balance", action="store_true", help="give slow ranks fewer samples (docs/balancing.md)")
    made.add_argument("--headless", action="store_true", help="no page; exit when training ends")
    made.add_argument(
        "--json",
        action="store_true",
        help="every finding, suggestion and revision of one as JSON Lines on standard output",
    )
    add_service_options(made)
    add_brokers_option(made, "use this Kafka instead of an embedded broker")
    return made


def main(argv: list[str]) -> int:
    """Run the demo; 0 only if the training run went through."""
    options = parser().parse_args(argv)
    options.timed = options.seconds is not None
    if options.seconds is None:
        options.seconds = 120.0 if options.fault == "none" else 90.0
    if options.ranks < 1 or not 0 <= options.rank < options.ranks or options.seconds <= 0:
        say(
            f"--rank {options.rank}, --ranks {options.ranks}: ranks count from 0 to {options.ranks - 1}, seconds from 1"
        )
        return 2
    if options.balance and options.fault not in BALANCED:
        say(f"--balance gives a rank that computes longer fewer samples; --fault {options.fault} is no computing")
        return 2
    for number in (signal.SIGINT, signal.SIGTERM):
        signal.signal(number, _interrupted)
    try:
        return _demo(options)
    except KeyboardInterrupt as interrupted:
        return 128 + int(interrupted.args[0] if interrupted.args else signal.SIGINT)
    except (StackError, EmbeddedBrokerError, LinkError) as error:
        say(str(error))
        return 2
    except (BusError, ServiceError) as error:
        say(str(error))
        return 1


def _interrupted(number: int, _: object) -> None:
    raise KeyboardInterrupt(number)


def _demo(options: argparse.Namespace) -> int:
    require("streams", "collect", "training", *_shown(options))
    check_ports(options)
    job = f"demo-{options.fault}-{secrets.token_hex(2)}"
    folder = log_folders.new_folder(os.environ, time.time())
    with _link(options.fault) as link, broker(options.brokers, 0, folder) as settings, Services(folder) as services:
        return DemoRun(options, job, services, settings, link, sys.stdout).run()


def _shown(options: argparse.Namespace) -> list[str]:
    """What is started beside training and the stream processors."""
    if options.headless:
        return [] if options.brokers else ["broker"]
    return ["ui", *wanted(options)]


@contextlib.contextmanager
def _link(fault: str) -> Iterator[SlowLink | None]:
    if fault != "link":
        yield None
        return
    with namespace() as link:
        yield link
