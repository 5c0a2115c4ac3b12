"""Rank-steps a second through broker and Faust to findings, and how soon; beside it other stream processors.

Everything runs on this machine: one Apache Kafka node, one `paceline streams` worker. A rank-step is what a rank tells
of a step: seven phases and one collective. The peers follow in the same run, on one-row messages, with as many
partitions.
"""

import argparse
import contextlib
import json
import sys
import time
from pathlib import Path
from typing import Any

from paceline.kafka.errors import BusError

from ..machine import machine
from ..processes import RunError, apache_kafka, busy
from . import beside, report
from .jobs import Load
from .load import preload_rows
from .runs import analyzed, delay, say, throughput

EXAMPLES = """\
examples:
  python -m experiments.throughput                      everything, about a quarter of an hour
  python -m experiments.throughput --quick              the same with less of everything, about eight
  python -m experiments.throughput --only throughput    one part: throughput, analyze, delay or peers
  python -m experiments.throughput --only delay --load "100,000 ranks"   and of it, loads whose name begins so
  python -m experiments.throughput --only delay --load "10,000 ranks" --busy 2   beside two busy processes
  python -m experiments.throughput --json result.json   the numbers as JSON, too
"""
PARTS = ("throughput", "analyze", "delay", "peers")
ROWS_TOPIC = "bench-rows"


def loads(quick: bool) -> list[Load]:
    """What the worker gets pre-loaded, in seconds of the jobs' own time."""
    return [
        Load("12 jobs of 8 ranks", 12, 8, 0.1, 300 if quick else 1500),
        Load("200 jobs of 8 ranks", 200, 8, 0.1, 20 if quick else 90),
        Load("1,000 jobs of 2 ranks", 1000, 2, 0.1, 10 if quick else 40),
        Load("1,000 ranks", 1, 1000, 0.1, 60 if quick else 300, late=5),
        Load("1,000 ranks, 8 micro-batches", 1, 1000, 0.1, 30 if quick else 120, late=5, microbatches=8),
        Load("10,000 ranks", 1, 10_000, 0.1, 9 if quick else 24, late=10),
    ]


def recorded(quick: bool) -> list[Load]:
    """What `paceline analyze` reads."""
    seconds = 20 if quick else 60
    return [
        Load("1,000 ranks", 1, 1000, 0.1, seconds, late=5),
        Load("1,000 ranks, 8 micro-batches", 1, 1000, 0.1, seconds, late=5, microbatches=8),
        Load("1,000 ranks, 0.5 steps/s", 1, 1000, 2.0, 10 * seconds, late=5),
    ]


def paces(quick: bool) -> list[Load]:
    """What comes at its own pace. Jobs of slow steps take their time until there is enough evidence.

    No more ranks turn late than are reported one by one: the last words of those that one finding then speaks for are
    about steps of long before.
    """
    return [
        Load("12 jobs of 8 ranks, paced", 12, 8, 0.1, 18 if quick else 60),
        Load("1,000 ranks, paced", 1, 1000, 0.1, 18 if quick else 60, late=8),
        Load("10,000 ranks x 2 steps/s", 1, 10_000, 0.5, 36 if quick else 90, late=8),
        Load("100,000 ranks x 0.2 steps/s", 1, 100_000, 5.0, 150 if quick else 300, late=5),
    ]


def peers(quick: bool) -> list[dict[str, Any]]:
    """Every peer's rows a second, on a topic that all share."""
    found = []
    with apache_kafka() as settings:
        number = max(peer.quick_rows if quick else peer.rows for peer in beside.PEERS)
        say(f"peers: loading {number:,} one-row messages")
        preload_rows(settings, ROWS_TOPIC, number)
        for peer in beside.PEERS:
            say(f"peers: {peer.name}")
            one = beside.measure(settings, peer, ROWS_TOPIC, quick)
            say(f"peers: {peer.name}: {one.get('skipped') or '{rows_per_s:,.0f} rows/s'.format(**one)}")
            found.append(one)
    return found


def main() -> int:
    parser = argparse.ArgumentParser(
        prog="python -m experiments.throughput",
        description=__doc__,
        epilog=EXAMPLES,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument("--quick", action="store_true", help="less of everything")
    parser.add_argument("--only", action="append", choices=PARTS, help="only this part; may be given again")
    parser.add_argument("--load", default="", metavar="NAME", help="only loads whose name begins so")
    parser.add_argument("--busy", type=int, default=0, metavar="N", help="busy processes beside it (0)")
    parser.add_argument("--json", type=Path, metavar="FILE", help="write the numbers there, too")
    options = parser.parse_args()
    wanted = options.only or PARTS
    found: dict[str, Any] = {"machine": machine(), "quick": options.quick, "busy": options.busy}
    began = time.monotonic()

    def chosen(among: list[Load]) -> list[Load]:
        return [load for load in among if load.name.startswith(options.load)]

    running = contextlib.ExitStack()
    try:
        running.enter_context(busy(options.busy))
        if "throughput" in wanted:
            found["throughput"] = [throughput(load) for load in chosen(loads(options.quick))]
        if "analyze" in wanted:
            found["analyze"] = [analyzed(load) for load in chosen(recorded(options.quick))]
        if "peers" in wanted:
            found["peers"] = peers(options.quick)
        if "delay" in wanted:
            found["delay"] = [delay(load) for load in chosen(paces(options.quick))]
    except (RunError, BusError) as error:
        say(str(error))
        return 1
    finally:
        running.close()
    found["took_s"] = round(time.monotonic() - began, 1)
    print(report.text(found))
    if options.json:
        options.json.write_text(json.dumps(found, indent=2) + "\n")
    return 0


if __name__ == "__main__":
    sys.exit(main())
