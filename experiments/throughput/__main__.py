"""Rows a second through broker and Faust to findings, and how soon; beside it other stream processors.

Everything runs on this machine: one Apache Kafka node, one `paceline streams` worker. The peers follow in the same run,
on one-row messages, with as many partitions.
"""

import argparse
import json
import os
import platform
import sys
import time
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from paceline.kafka.errors import BusError

from ..processes import RunError, apache_kafka
from . import beside, report
from .jobs import Load
from .load import preload_rows
from .runs import delay, say, throughput

EXAMPLES = """\
examples:
  python -m experiments.throughput                      everything, about ten minutes
  python -m experiments.throughput --quick              the same with less of everything, about three
  python -m experiments.throughput --only throughput    one part: throughput, delay or peers
  python -m experiments.throughput --json result.json   the numbers as JSON, too
"""
PARTS = ("throughput", "delay", "peers")
ROWS_TOPIC = "bench-rows"


def loads(quick: bool) -> list[Load]:
    """What the worker gets pre-loaded, in seconds of the jobs' own time."""
    return [
        Load("12 jobs of 8 ranks", 12, 8, 0.1, 50, 20 if quick else 60),
        Load("1,000 ranks", 1, 1000, 0.1, 10, 15 if quick else 40, late=5),
        Load("10,000 ranks", 1, 10_000, 0.1, 5, 9 if quick else 18, late=10),
    ]


def paces(quick: bool) -> list[Load]:
    """What comes at its own pace: some 50 thousand rows a second each."""
    seconds = 18 if quick else 60
    return [
        Load("12 jobs of 8 ranks, paced", 12, 8, 0.1, 50, seconds),
        Load("1,000 ranks, paced", 1, 1000, 0.1, 5, seconds, late=10),
        Load("10,000 ranks, paced", 1, 10_000, 0.2, 1, seconds, late=20),
        Load("50 jobs of 8 ranks, phases", 50, 8, 0.1, 0, seconds),
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


def machine() -> dict[str, Any]:
    """Where and when, and how busy the machine was before."""
    lines = Path("/proc/cpuinfo").read_text().splitlines()
    model = next((line.partition(":")[2].strip() for line in lines if line.startswith("model name")), "unknown")
    return {
        "date": datetime.now(UTC).date().isoformat(),
        "processor": model,
        "cores": len(os.sched_getaffinity(0)),
        "python": platform.python_version(),
        "load_before": os.getloadavg()[0],
    }


def main() -> int:
    parser = argparse.ArgumentParser(
        prog="python -m experiments.throughput",
        description=__doc__,
        epilog=EXAMPLES,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument("--quick", action="store_true", help="less of everything, under three minutes")
    parser.add_argument("--only", action="append", choices=PARTS, help="only this part; may be given again")
    parser.add_argument("--json", type=Path, metavar="FILE", help="write the numbers there, too")
    options = parser.parse_args()
    wanted = options.only or PARTS
    found: dict[str, Any] = {"machine": machine(), "quick": options.quick}
    began = time.monotonic()
    try:
        if "throughput" in wanted:
            found["throughput"] = [throughput(load) for load in loads(options.quick)]
        if "peers" in wanted:
            found["peers"] = peers(options.quick)
        if "delay" in wanted:
            found["delay"] = [delay(load) for load in paces(options.quick)]
    except (RunError, BusError) as error:
        say(str(error))
        return 1
    found["took_s"] = round(time.monotonic() - began, 1)
    print(report.text(found))
    if options.json:
        options.json.write_text(json.dumps(found, indent=2) + "\n")
    return 0


if __name__ == "__main__":
    sys.exit(main())
