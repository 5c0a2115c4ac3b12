"""What uneven shares are worth: Paceline's balancer beside uniform shares, other rules and an oracle.

The exit status is 1 where an aim is missed.
"""

import argparse
import json
import signal
import sys
import time
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any

from experiments.balancing import plots, real, real_report, report, simulated, staleness
from experiments.balancing.models import KINDS
from experiments.balancing.quota import QuotaError
from experiments.machine import headline, machine
from paceline.terminal import say

EXAMPLES = """\
examples:
  python -m experiments.balancing --only simulated              six minutes on two cores
  python -m experiments.balancing --only simulated --quick      a minute
  python -m experiments.balancing --only simulated --seed 3000  scenarios that no threshold was seen on
  python -m experiments.balancing --only staleness              local steps beside synchronous ones, eight minutes
  python -m experiments.balancing --only resnet --plot resnet.png       real processes, root, half an hour
  python -m experiments.balancing --json result.json --markdown all.md  all of it, two hours and a half
"""
#: Parts on real processes: none takes 40 minutes.
REAL: dict[str, Callable[[], Any]] = {
    **{kind: partial(real.both, kind) for kind in KINDS},
    "equal": real.equal,
    "ablations": real.ablations,
    "convergence": real.convergence,
}
PARTS = ("simulated", "staleness", *REAL)


def main() -> int:
    options = _options()
    signal.signal(signal.SIGTERM, signal.default_int_handler)
    began = time.monotonic()
    found = {"machine": machine(), "quick": options.quick, "seed": options.seed}
    chosen = options.only or PARTS
    try:
        if "simulated" in chosen:
            found["simulated"] = simulated.simulate(options.quick, options.seed, options.workers)
        if "staleness" in chosen:
            found["staleness"] = staleness.staleness()
        found |= {part: measure() for part, measure in REAL.items() if part in chosen}
    except QuotaError as error:
        say(str(error))
        return 2
    except KeyboardInterrupt:
        say("interrupted: nothing is written")
        return 130
    found["took_s"] = round(time.monotonic() - began, 1)
    text, met = _told(found)
    print(text)
    if options.json:
        options.json.write_text(json.dumps(found, indent=1) + "\n", encoding="utf-8")
    if options.markdown:
        options.markdown.write_text(text + "\n", encoding="utf-8")
    if options.plot:
        plots.draw({kind: found[kind] for kind in KINDS if kind in found}, options.plot)
    return 0 if met else 1


def _told(found: dict[str, Any]) -> tuple[str, bool]:
    """The report, and whether every aim is met."""
    texts, aims = [f"{headline(found)}."], []
    if "simulated" in found:
        texts.append(report.text(found["simulated"]))
        aims += report.aims(found["simulated"])
    if "staleness" in found:
        texts.append(staleness.text(found["staleness"]))
        aims += staleness.aims(found["staleness"])
    if any(part in found for part in REAL):
        texts.append(real_report.text(found))
        aims += real_report.aims(found)
    return "\n\n".join(texts), all(aim.met for aim in aims)


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
    parser.add_argument("--plot", type=Path, metavar="FILE", help="draw the real runs there")
    parser.add_argument("--markdown", type=Path, metavar="FILE", help="write the tables there, too")
    return parser.parse_args()


if __name__ == "__main__":
    sys.exit(main())
