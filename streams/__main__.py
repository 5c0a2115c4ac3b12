"""``paceline streams``: one worker in this process, started again from what is stored whenever the broker goes away."""

import argparse
import logging
import os
import socket
import sys

from paceline.command_rules import Reader
from paceline.health import add_web_options
from paceline.identity import node_of
from paceline.kafka.settings import BrokerSettings, add_brokers_option, add_no_commands_option
from paceline.options import Parser
from paceline.patience import patient
from paceline.settings import ALLOWED_HOSTS, CLUSTER, MOST_RANKS, NO_COMMANDS
from paceline.terminal import log_to_stderr, say

from .advice_thresholds import thresholds
from .garbage import collect_seldom

EXAMPLES = """\
examples:
  paceline streams                                   one worker on PACELINE_BROKERS (default 127.0.0.1:9092)
  paceline streams --brokers kafka-1:9092,kafka-2:9092
  paceline streams --web-port 6066                   with /healthz, /readyz and /metrics on 127.0.0.1:6066
Start it on as many machines as you like (up to 12): they share the jobs. State is kept on the broker.
"""


def main(argv: list[str] | None = None) -> int:
    """Run one worker until SIGTERM; its exit status."""
    args = _parse(sys.argv[1:] if argv is None else argv)
    log_to_stderr(args.log_level)
    for noisy in ("faust", "mode", "aiokafka"):
        logging.getLogger(noisy).setLevel(logging.ERROR if args.log_level != "debug" else logging.INFO)
    settings = BrokerSettings.from_environ(os.environ, args.brokers)
    settings.ssl_context()
    return _work(args, settings)


def _parse(argv: list[str]) -> argparse.Namespace:
    parser = Parser(
        prog="paceline streams",
        description="Read timings from Kafka, find stragglers and causes, write findings to Kafka.\n"
        "Needs a Kafka broker.",
        epilog=EXAMPLES,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    add_brokers_option(parser)
    add_no_commands_option(parser)
    add_web_options(parser)
    parser.add_argument("--wait", type=float, default=60.0, metavar="S", help="seconds to wait for a broker (60)")
    parser.add_argument("--log-level", choices=["debug", "info", "warning", "error"], default="info")
    return parser.parse_args(argv)


def _work(args: argparse.Namespace, settings: BrokerSettings) -> int:
    most_ranks, further_hosts = MOST_RANKS.read(os.environ), ALLOWED_HOSTS.read(os.environ)
    obeys = not (args.no_commands or NO_COMMANDS.read(os.environ))
    advice_config = thresholds(os.environ)
    reader = Reader("streams", node_of(os.environ, socket.gethostname()), CLUSTER.read(os.environ))
    collect_seldom()
    # Faust takes a second to import: help and what is wrong with an option or a setting come before.
    from .cluster_advice import AdviceSettings
    from .worker import READY_S, WorkerSetup
    from .worker_loop import WorkerLoop

    setup = WorkerSetup(
        settings=settings,
        web=(args.web_address, args.web_port),
        further_hosts=further_hosts,
        most_ranks=most_ranks,
        advice=AdviceSettings(reader.node, obeys, advice_config),
        ready_s=patient(READY_S, os.environ),
    )
    return WorkerLoop(setup, reader, obeys=obeys, say=_say).run(args.wait)


def _say(line: str) -> None:
    say(line, "paceline streams")


if __name__ == "__main__":
    sys.exit(main())
