"""What a worker holds, stores and takes to come back, against ranks and jobs; what more bring; what 1,000 GPUs need.

Everything runs on this machine. States are measured in a process of their own each, without a broker; restarts and
scaling with real `paceline streams` workers on one Apache Kafka node.
"""

import argparse
import json
import sys
import time
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any

from paceline.kafka.errors import BusError

from ..machine import machine
from ..markdown import write
from ..processes import RunError
from ..throughput.jobs import Load
from . import report, states, workers

EXAMPLES = """\
examples:
  python -m experiments.growth                     everything, some ten minutes
  python -m experiments.growth --quick             the same with less of everything, some three
  python -m experiments.growth --only scaling      one part: sizing, states, recovery or scaling
  python -m experiments.growth --write docs/operations.md --plot docs/images/growth.png
"""
PARTS = ("sizing", "states", "recovery", "scaling")


def sizes() -> list[Load]:
    """Jobs at the paces that the sizing table is for."""
    return [
        Load("growth", jobs, ranks, step_s, 60)
        for step_s in (1.0, 0.1)
        for jobs, ranks in ((25, 8), (4, 64), (1, 1000))
    ]


def grown(quick: bool) -> list[Load]:
    """One job that grows, then more and more jobs."""
    ranks = (8, 64, 512, 1000, 10_000) if quick else (8, 64, 512, 1000, 10_000, 100_000)
    jobs = (10, 100, 1000) if quick else (10, 100, 1000, 5000)
    # The more there are, the fewer steps: half a minute of steps a second fills most of what a job keeps.
    one = [Load("growth", 1, each, 1.0, 30 if each >= 10_000 else 120) for each in ranks]
    return one + [Load("growth", each, 8, 1.0, 120 if each < 100 else 30 if each < 1000 else 10) for each in jobs]


def restarted(quick: bool) -> list[tuple[Load, bool]]:
    """What a worker has judged when another takes over, and whether it was killed."""
    runs = [
        (Load("growth", 1, 8, 0.1, 20), False),
        (Load("growth", 100, 8, 0.1, 20), False),
        (Load("growth", 100, 8, 0.1, 20), True),
        (Load("growth", 1000, 8, 0.1, 6), False),
        (Load("growth", 1, 1000, 0.1, 20), False),
        (Load("growth", 1, 10_000, 0.5, 20), False),
    ]
    return runs[:4] if quick else [*runs, (Load("growth", 1, 100_000, 5.0, 30), False)]


def shared(quick: bool) -> tuple[Load, tuple[int, ...]]:
    """What workers share, and how many they are."""
    return Load("growth", 24, 64, 0.1, 15 if quick else 30), ((1, 2) if quick else (1, 2, 4, 12))


def main() -> int:
    parser = argparse.ArgumentParser(
        prog="python -m experiments.growth",
        description=__doc__,
        epilog=EXAMPLES,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument("--quick", action="store_true", help="less of everything")
    parser.add_argument("--only", action="append", choices=PARTS, help="only this part; may be given again")
    parser.add_argument("--json", type=Path, metavar="FILE", help="the numbers as JSON; parts that are there are kept")
    parser.add_argument("--plot", type=Path, metavar="FILE", help="a picture of memory, snapshots and restarts")
    parser.add_argument("--write", type=Path, metavar="PAGE", help="put the tables between the marks of this page")
    options = parser.parse_args()
    wanted = options.only or PARTS
    found: dict[str, Any] = {}
    if options.json and options.json.exists():
        found = json.loads(options.json.read_text())
    found |= {"machine": machine(), "quick": options.quick}
    began = time.monotonic()
    try:
        if "sizing" in wanted:
            found["sizing"] = [_told(load, states.alone) for load in sizes()]
        if "states" in wanted:
            found["states"] = [_told(load, states.alone) for load in grown(options.quick)]
        if "recovery" in wanted:
            found["recovery"] = [
                _told(load, partial(workers.recovery, killed=killed)) for load, killed in restarted(options.quick)
            ]
        if "scaling" in wanted:
            load, counts = shared(options.quick)
            found["scaling"] = [_told(load, partial(workers.scaling, workers=count)) for count in counts]
    except (RunError, BusError) as error:
        _say(str(error))
        return 1
    found["took_s"] = round(time.monotonic() - began, 1)
    tables = report.text(found)
    print(tables)
    if options.json:
        options.json.write_text(json.dumps(found, indent=2) + "\n")
    if options.plot:
        report.picture(found, options.plot)
    if options.write:
        write(options.write, "growth", tables)
    return 0


def _told(load: Load, measure: Callable[[Load], dict[str, Any]]) -> dict[str, Any]:
    began = time.monotonic()
    measured = measure(load)
    _say(f"{load.jobs:,} jobs of {load.ranks:,} ranks: {measured}, took {time.monotonic() - began:.0f} s")
    return measured


def _say(line: str) -> None:
    print(f"bench-growth: {line}", file=sys.stderr, flush=True)


if __name__ == "__main__":
    sys.exit(main())
