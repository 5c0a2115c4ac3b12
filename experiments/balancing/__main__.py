"""What uneven shares are worth: Paceline's balancer beside uniform shares, other rules and an oracle.

The exit status is 1 where an aim is missed.
"""

import argparse
import json
import sys
import time
from pathlib import Path

from experiments.balancing import report, simulated
from experiments.machine import headline, machine

EXAMPLES = """\
examples:
  python -m experiments.balancing --only simulated              three minutes on two cores
  python -m experiments.balancing --only simulated --quick      half a minute
  python -m experiments.balancing --only simulated --seed 3000  scenarios that no threshold was seen on
  python -m experiments.balancing --json result.json --markdown result.md
"""
PARTS = ("simulated",)


def main() -> int:
    options = _options()
    began = time.monotonic()
    found = {"machine": machine(), "quick": options.quick, "seed": options.seed}
    if "simulated" in (options.only or PARTS):
        found["simulated"] = simulated.simulate(options.quick, options.seed, options.workers)
    found["took_s"] = round(time.monotonic() - began, 1)
    text = f"{headline(found)}.\n\n{report.text(found['simulated'])}"
    print(text)
    if options.json:
        options.json.write_text(json.dumps(found, indent=1) + "\n", encoding="utf-8")
    if options.markdown:
        options.markdown.write_text(text + "\n", encoding="utf-8")
    return 0 if all(aim.met for aim in report.aims(found["simulated"])) else 1


def _options() -> argparse.Namespace:
    parser = argparse.ArgumentParser(
        prog="python -m experiments.balancing",
        description=__doc__,
        epilog=EXAMPLES,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument("--quick", action="store_true", help="a tenth of the runs")
    parser.add_argument("--only", action="append", choices=PARTS, help="only this part; may be given again")
    parser.add_argument("--seed", type=int, default=0, metavar="N", help="the first seed (default: %(default)s)")
    parser.add_argument("--workers", type=int, default=2, metavar="N", help="processes to simulate in (default: 2)")
    parser.add_argument("--json", type=Path, metavar="FILE", help="write the numbers there, too")
    parser.add_argument("--markdown", type=Path, metavar="FILE", help="write the tables there, too")
    return parser.parse_args()


if __name__ == "__main__":
    sys.exit(main())
