"""How often `paceline compare` calls equal runs slower, and a slower run slower: ``make bench-compare``.

Rule of this file: pairs of simulated runs that share nothing, each with a seed of its own, through the very windows and
comparison of the command. Devices of simulated runs differ by half a percent, and so do equal ones.
"""

import argparse
import json
import sys
from collections.abc import Iterable

from paceline import topics
from simulator.fault import parse
from simulator.job import Job
from simulator.spec import Spec
from streams.job_state import JobState
from streams.processor import Processor
from streams.reports.comparison import SLOWER, compare
from streams.reports.run import Run, Runs

SLOWDOWN = "slowdown:size=0.12"


def run(seed: int, ranks: int, steps: int, faults: Iterable[str] = ()) -> Run:
    """One simulated run, by its windows."""
    spec = Spec(ranks=ranks, steps=steps, seed=seed, faults=tuple(map(parse, faults)))
    processor, runs = Processor({topics.OP.name: (JobState,)}), Runs()
    for message in Job(spec).messages():
        if message.topic is topics.JOB:
            runs.update(message.event)
        elif message.topic is topics.OP:
            for topic, window in processor.update(message.topic, message.event):
                if topic is topics.WINDOW:
                    runs.update(window)
    return runs.of(None)[0]


def main() -> int:
    """Print the counts as JSON."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--pairs", type=int, default=200)
    parser.add_argument("--slow-pairs", type=int, default=20)
    parser.add_argument("--ranks", type=int, default=8)
    parser.add_argument("--steps", type=int, default=160)
    args = parser.parse_args()
    alarms, at_nothing, seen = 0, 0, 0
    for pair in range(args.pairs):
        first, second = (run(2 * pair + side, args.ranks, args.steps) for side in (0, 1))
        made = compare(first, second, 0.05)
        alarms += made.verdict == SLOWER
        at_nothing += made.step.low > 0
    for pair in range(args.slow_pairs):
        seed = 100_000 + 2 * pair
        slower = run(seed + 1, args.ranks, args.steps, [SLOWDOWN])
        seen += compare(run(seed, args.ranks, args.steps), slower, 0.05).verdict == SLOWER
    told = {"equal_pairs": args.pairs, "alarms_at_5_percent": alarms, "interval_above_0": at_nothing}
    print(json.dumps(told | {"slower_pairs": args.slow_pairs, "seen_at_5_percent": seen}))
    return 0


if __name__ == "__main__":
    sys.exit(main())
