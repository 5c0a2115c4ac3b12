"""Let real ranks hang in each way, again and again: how soon is it reported, and is it the right kind, rank and line?

Rule of this file: runs, a file of their outcomes and a table. A run that is in the file is not run again.
"""

import argparse
import json
import os
import shutil
import statistics
import sys
import tempfile
import time
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor, as_completed
from pathlib import Path

from experiments.forking import forking
from experiments.machine import headline, machine
from experiments.markdown import table
from experiments.processes import free_ports

from .cases import BY_NAME, CASES, RANKS, TORCHRUN, Outcome, hangs_of, judged

EXAMPLES = """examples:
  make bench-hangs                                     every case three times; some forty minutes
  make bench-hangs ARGS='--runs 20 --at-once 4 --out hangs.jsonl'  go on where it was ended, four at a time
  make bench-hangs ARGS='--forked --runs 20 --at-once 6'   ranks forked from one process: a quarter of the time
  make bench-hangs ARGS='--only fifo,stop --runs 1'
"""
HEAD = ["case", "runs", "suspected (s)", "confirmed (s)", "right kind", "right rank", "right line"]


def main(argv: Sequence[str] | None = None) -> int:
    """0 where every run was right."""
    options = _options(argv)
    before, path = machine(), Path(options.out)
    outcomes = _read(path)
    wanted = [
        case
        for number in range(options.runs)
        for case in options.only
        if sum(one.case == case for one in outcomes) <= number
    ]
    with ThreadPoolExecutor(options.at_once) as pool:
        try:
            ports = free_ports(len(wanted)) if options.forked else [0] * len(wanted)
            for ran in as_completed(
                [pool.submit(_run, case, path.parent, port) for case, port in zip(wanted, ports, strict=True)]
            ):
                outcome = ran.result()
                outcomes.append(outcome)
                with path.open("a", encoding="utf-8") as file:
                    file.write(json.dumps(outcome._asdict() | {"load": os.getloadavg()[0]}) + "\n")
                print(f"{outcome.case}: {_said(outcome)}", file=sys.stderr, flush=True)
        finally:
            pool.shutdown(cancel_futures=True)
    shown = [one for one in outcomes if one.case in options.only]
    print(headline({"machine": before, "quick": options.runs < 20, "took_s": os.times().elapsed - options.began_s}))
    print(f"\n{table(HEAD, [_row(case, shown) for case in options.only])}")
    return 0 if all(one.kind and one.ranks and one.line for one in shown) else 1


def _run(case: str, kept: Path, port: int) -> Outcome:
    """What came of one run; the recording of one that is not right stays in ``kept``. At a ``port`` forked ranks meet;
    without one torchrun starts them."""
    with tempfile.TemporaryDirectory(prefix="paceline-") as folder:
        forked = forking(RANKS, Path(folder), port)
        started = ((sys.executable, *forked.command), forked.environ) if port else (TORCHRUN, None)
        outcome = judged(BY_NAME[case], hangs_of(case, Path(folder), *started))
        recording = Path(folder, "run.jsonl.zst")
        if not (outcome.kind and outcome.ranks and outcome.line) and recording.exists():
            wrong = kept / f"hang-{case}-{time.time_ns()}.jsonl.zst"
            shutil.copy(recording, wrong)
            print(f"{case}: kept {wrong}", file=sys.stderr, flush=True)
    return outcome


def _options(argv: Sequence[str] | None) -> argparse.Namespace:
    parser = argparse.ArgumentParser(
        prog="make bench-hangs",
        description=__doc__,
        epilog=EXAMPLES,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    names = [case.name for case in CASES]
    at_once = "runs at a time (1): their ranks wait most of the time, and load each other while they start"
    parser.add_argument("--runs", type=int, default=3, metavar="N", help="runs of each case (3)")
    parser.add_argument("--at-once", type=_positive, default=1, metavar="N", help=at_once)
    forked = "ranks forked from one process that has imported PyTorch, in place of torchrun's"
    parser.add_argument("--forked", action="store_true", help=forked)
    parser.add_argument("--only", type=_names, default=names, metavar="NAMES", help=f"of {', '.join(names)}")
    parser.add_argument("--out", default="build/hangs.jsonl", metavar="FILE", help="outcomes (build/hangs.jsonl)")
    options = parser.parse_args(argv)
    options.began_s = os.times().elapsed
    Path(options.out).parent.mkdir(parents=True, exist_ok=True)
    return options


def _positive(text: str) -> int:
    if (number := int(text)) < 1:
        raise argparse.ArgumentTypeError("at least 1")
    return number


def _names(text: str) -> list[str]:
    names = text.split(",")
    if unknown := [name for name in names if name not in BY_NAME]:
        raise argparse.ArgumentTypeError(f"unknown case {unknown[0]}")
    return names


def _read(path: Path) -> list[Outcome]:
    if not path.exists():
        return []
    lines = path.read_text(encoding="utf-8").split("\n")
    # The run that was ended while it wrote has no end of line.
    rows = [json.loads(line) for line in lines[:-1]]
    path.write_text("".join(f"{line}\n" for line in lines[:-1]), encoding="utf-8")
    return [Outcome(**{name: row[name] for name in Outcome._fields}) for row in rows]


def _said(outcome: Outcome) -> str:
    wrong = [name for name in ("kind", "ranks", "line") if not getattr(outcome, name)]
    times = f"suspected {_seconds([outcome.suspected_s])}, confirmed {_seconds([outcome.confirmed_s])}"
    return f"{times}, {'wrong: ' + ', '.join(wrong) if wrong else 'right'}"


def _row(case: str, outcomes: Sequence[Outcome]) -> list[str]:
    mine = [one for one in outcomes if one.case == case]
    right = [f"{sum(column)} of {len(mine)}" for column in ([getattr(one, name) for one in mine] for name in _FIELDS)]
    times = [_seconds([one.suspected_s for one in mine]), _seconds([one.confirmed_s for one in mine])]
    return [BY_NAME[case].what, str(len(mine)), *times, *right]


_FIELDS = ("kind", "ranks", "line")


def _seconds(values: Sequence[float | None]) -> str:
    """Median and longest of those that are; "-" for none.

    >>> _seconds([12.2, None, 14.0, 12.9]), _seconds([12.24]), _seconds([None])
    ('12.9, at most 14.0', '12.2', '-')
    """
    known = [value for value in values if value is not None]
    if not known:
        return "-"
    if len(known) == 1:
        return f"{known[0]:.1f}"
    return f"{statistics.median(known):.1f}, at most {max(known):.1f}"


if __name__ == "__main__":
    raise SystemExit(main())
