"""``paceline archive``: the service.

Rule of this file: options to what runs, nothing more.
"""

import argparse
import logging
import os
import signal
import sys
import threading
from collections.abc import Callable

from paceline.health import add_web_options
from paceline.history.spans import seconds
from paceline.history.store import StoreError
from paceline.kafka.settings import add_brokers_option
from paceline.options import Parser
from paceline.settings import ARCHIVE, DATABASE, SettingError, number
from paceline.terminal import log_to_stderr, say

EPILOG = """\
examples:
  paceline archive --to history                              into a folder; paceline history jobs --from history
  paceline archive --to s3://training/paceline               into a bucket (AWS_ACCESS_KEY_ID, AWS_ENDPOINT_URL, …)
  paceline archive --to history --topic window --topic finding --topic job      without raw rows
  paceline archive --to history --iceberg                    for Spark and Trino: Iceberg tables of the same files
  paceline archive --to history --keep-raw-days 30 --detail-days 31
  PACELINE_DATABASE_FILE=database.url paceline archive --to history     jobs and findings also to PostgreSQL
  paceline archive --to history --prometheus http://prometheus:9090       fill gaps in GPU data from Prometheus
  paceline archive --to history --sacct                                   and the jobs of Slurm's accounting

Committed data survives any end of the process, without duplicates: each commit also stores the offsets that were read.
Only one process writes an archive.
"""


def parser() -> argparse.ArgumentParser:
    """The command line."""
    made = Parser(
        prog="paceline archive",
        description="Store events as Parquet files, in a folder or a bucket.\nNeeds a Kafka broker.",
        epilog=EPILOG,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    made.add_argument("--to", metavar="WHERE", help=f"a folder or s3://BUCKET/PREFIX (default: {ARCHIVE.name})")
    made.add_argument(
        "--topic", metavar="NAME", dest="topics", action="append", default=[], help="only this one; repeatable"
    )
    made.add_argument(
        "--commit-seconds", metavar="S", type=_within(1, 3600), default=60.0, help="between commits (%(default)g)"
    )
    _add_days(made, "raw", 7, "what was measured row by row")
    _add_days(made, "windows", 400, "windows")
    _add_days(made, "documents", 1100, "jobs, findings, suggestions and other documents")
    made.add_argument(
        "--detail-days",
        metavar="N",
        type=_within(0.1, 36500),
        default=7.0,
        help="how old windows become before those of ranks, GPUs and hosts are merged into such of 5 min, and those of "
        "jobs below 60 s are let go of (%(default)g)",
    )
    made.add_argument(
        "--iceberg",
        nargs="?",
        const="",
        metavar="CATALOG-URI",
        help="keep tables of Apache Iceberg up to it, in this catalog (default: one in the archive's folder)",
    )
    made.add_argument(
        "--no-database", action="store_true", help=f"keep no jobs, findings and suggestions in {DATABASE.name}"
    )
    _add_sources(made)
    add_web_options(made)
    add_brokers_option(made)
    made.add_argument("--log-level", choices=["debug", "info", "warning", "error"], default="info")
    return made


def _add_days(made: argparse.ArgumentParser, name: str, default: float, what: str) -> None:
    made.add_argument(
        f"--keep-{name}-days",
        metavar="N",
        type=_within(0.1, 36500),
        default=float(default),
        help=f"how long {what} are kept (%(default)g)",
    )


def _add_sources(made: argparse.ArgumentParser) -> None:
    made.add_argument(
        "--prometheus", metavar="URL", help="fill in what this Prometheus saw of GPUs at times that the bus missed"
    )
    _add_schedule(made, "prometheus", "1h", 7, "how far back gaps are filled, in days")
    made.add_argument("--sacct", action="store_true", help="and the jobs of Slurm's accounting, where this node has it")
    _add_schedule(made, "sacct", "5m", 7, "about how many days it is asked")


def _add_schedule(made: argparse.ArgumentParser, name: str, every: str, days: float, what: str) -> None:
    made.add_argument(
        f"--{name}-every", metavar="TIME", type=_every, default=_every(every), help=f"how often it is asked ({every})"
    )
    made.add_argument(
        f"--{name}-days", metavar="N", type=_within(0.1, 400), default=float(days), help=f"{what} (%(default)g)"
    )


def _every(raw: str) -> float:
    try:
        told = seconds(raw)
    except ValueError as error:
        raise argparse.ArgumentTypeError(str(error)) from None
    if not 10.0 <= told <= 7 * 86_400.0:
        raise argparse.ArgumentTypeError(f"{raw!r}: allowed: 10s to 7d")
    return told


def _within(low: float, high: float) -> Callable[[str], float]:
    read = number(low, high)

    def parse(raw: str) -> float:
        try:
            return read(raw)
        except ValueError as error:
            raise argparse.ArgumentTypeError(f"{raw!r}: {error}; allowed: {low:g} to {high:g}") from None

    return parse


def main(argv: list[str] | None = None) -> int:
    """Archive until SIGTERM; the exit status."""
    made = parser()
    args = made.parse_args(argv)
    args.to = args.to or ARCHIVE.read(os.environ)
    if not args.to:
        made.error(f"--to: where? Name a folder or s3://BUCKET/PREFIX, or set {ARCHIVE.name}")
    log_to_stderr(args.log_level)
    logging.getLogger("alembic").setLevel(logging.WARNING)  # It reports each of its plugins.
    stop = threading.Event()
    for signal_number in (signal.SIGTERM, signal.SIGINT):
        signal.signal(signal_number, lambda *_: stop.set())
    from .service import chosen, run

    try:
        topics = chosen(args.topics)
    except KeyError as error:
        made.error(f"--topic: {error.args[0]}")
    try:
        return run(args, topics, stop)
    except (SettingError, StoreError) as error:
        say(str(error), "paceline archive")
        return 2


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
