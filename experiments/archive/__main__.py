"""A month of 10,000 GPUs in an archive: its size, how soon it answers, and how fast rows come in.

The month is made up and written by the archive's own writer: windows of five minutes of every GPU, as they are after
seven days, windows of jobs, what jobs are and what was found on them. It takes 9 GB of disk and some 20 minutes on two
cores; `--keep` leaves it there for the next run.
"""

import argparse
import json
import shutil
import sys
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from paceline.history.store import open_store

from ..kernel_counters import memory_peak_bytes
from ..machine import machine
from ..markdown import write
from ..processes import RunError
from . import fleet, month, questions, rates, report
from .windows import SHAPES

EXAMPLES = """\
examples:
  python -m experiments.archive                                       everything
  python -m experiments.archive --quick                               400 GPUs for three days
  python -m experiments.archive --to /data/month --keep               leave the month there
  python -m experiments.archive --to /data/month --only questions     ask one that is there
  python -m experiments.archive --only rates                          needs no month
  python -m experiments.archive --write docs/benchmarks.md
"""
PARTS = ("month", "questions", "rates")
#: 1 November 2026.
START_S = 1_793_491_200.0
TIMES = 10


def options() -> argparse.ArgumentParser:
    """The command line."""
    made = argparse.ArgumentParser(
        prog="python -m experiments.archive",
        description=__doc__,
        epilog=EXAMPLES,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    made.add_argument(
        "--to", type=Path, metavar="FOLDER", help="where the month is, or is made (default: a folder of ours)"
    )
    made.add_argument("--keep", action="store_true", help="leave it there")
    made.add_argument("--quick", action="store_true", help="less of everything")
    made.add_argument("--only", action="append", choices=PARTS, help="only this part; may be given again")
    made.add_argument("--gpus", type=int, metavar="N")
    made.add_argument("--days", type=int, metavar="N")
    made.add_argument("--json", type=Path, metavar="FILE", help="the numbers as JSON; parts that are there are kept")
    made.add_argument("--write", type=Path, metavar="PAGE", help="put the tables between the marks of this page")
    return made


def main() -> int:
    told = options().parse_args()
    wanted = told.only or PARTS
    found: dict[str, Any] = json.loads(told.json.read_text()) if told.json and told.json.exists() else {}
    found |= {"machine": machine(), "quick": told.quick}
    began = time.monotonic()
    folder = told.to or Path(tempfile.mkdtemp(prefix="paceline-month-"))
    folder.mkdir(parents=True, exist_ok=True)
    try:
        if "month" in wanted:
            found["month"] = _month(folder, told)
        if "questions" in wanted:
            found["questions"] = list(_questions(folder, 3 if told.quick else TIMES))
        if "rates" in wanted:
            found["rates"] = list(_rates(told.quick))
    except (RunError, month.SpaceError) as error:
        say(str(error))
        return 1
    finally:
        if told.to is None and not told.keep:
            shutil.rmtree(folder)
    found["took_s"] = round(time.monotonic() - began, 1)
    tables = report.text(found)
    print(tables)
    if told.json:
        told.json.write_text(json.dumps(found, indent=2) + "\n")
    if told.write:
        write(told.write, "archive", tables)
    return 0


def _month(folder: Path, told: argparse.Namespace) -> dict[str, Any]:
    gpus, days = (told.gpus or (400 if told.quick else 10_000)), (told.days or (3 if told.quick else 30))
    held = open_store(str(folder), {}).newest()
    took_s, jobs = 0.0, 0
    if held is None:
        free = month.check_room(folder, gpus, days)
        say(f"some {month.needed_bytes(gpus, days) / 1e9:.1f} GB of the {free / 1e9:.0f} GB that are free")
        began = time.monotonic()
        # More than find a place in the month: who does not is left out.
        made = fleet.made_up(gpus // fleet.GPUS, days, gpus * days // 90, START_S, len(SHAPES) - 1)
        month.make(folder, made, gpus * days // 6, say)
        took_s, jobs = time.monotonic() - began, len(made.jobs)
    return described(folder) | {
        "gpus": gpus,
        "days": days,
        "took_s": took_s,
        "jobs": jobs,
        "memory_bytes": memory_peak_bytes(),
    }


def described(folder: Path) -> dict[str, Any]:
    """Rows, files and bytes of each table."""
    held = open_store(str(folder), {}).newest()
    tables: dict[str, dict[str, int]] = {}
    for file in held.files if held else []:
        one = tables.setdefault(file.table, {"rows": 0, "files": 0, "bytes": 0})
        one["rows"] += file.rows
        one["files"] += 1
        one["bytes"] += file.bytes
    return {"tables": tables}


def _questions(folder: Path, times: int) -> Iterator[dict[str, Any]]:
    jobs = questions.chosen(str(folder))
    long = list(questions.AIMS)[-questions.LONG :]
    for question, aim_s in questions.AIMS.items():
        asked = min(times, questions.FEW) if question in long else times
        one: dict[str, Any] = {"question": question, "aim_s": aim_s}
        for name, cold in (("cold", True), ("warm", False)):
            measured = questions.measured(str(folder), question, jobs, asked, cold)
            one |= {name: measured, "rows": measured["rows"]}
            say(f"{question}, {name}: {measured['median_s']:.2f} s, at worst {measured['worst_s']:.2f} s")
        yield one


def _rates(quick: bool) -> Iterator[dict[str, Any]]:
    for load in rates.loads(quick):
        one = rates.in_process(load) | {"how": "messages to committed files, in one process"}
        say(f"{load.name}: {one['timings_a_processor_s']:,.0f} timings a processor second")
        yield one
        one = rates.end_to_end(load) | {"how": "`paceline archive` from the embedded broker, its start too"}
        say(f"{load.name}: from a broker {one['timings_a_s']:,.0f} timings/s")
        yield one


def say(line: str) -> None:
    """Progress goes to standard error."""
    print(f"bench-archive: {line}", file=sys.stderr, flush=True)


if __name__ == "__main__":
    sys.exit(main())
