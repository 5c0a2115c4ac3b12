"""``paceline forecaster train``: weights of your own, from recordings."""

import argparse
import os
import sys
from pathlib import Path

import numpy as np

from paceline import recording, topics, wire
from paceline.events import JobDescribed
from paceline.install import install
from paceline.options import Parser
from paceline.terminal import say

from ..history import History
from ..memory import Memory
from ..models import arrays, network
from ..subjects import Subjects
from . import examples
from .synthetic import made_up

EXAMPLES = """\
examples:
  paceline record -o week.jsonl.zst --from-beginning                all that the bus holds
  paceline forecaster train week.jsonl.zst --out network.npz
  paceline forecaster train --from-archive history --out network.npz   the last three days of an archive
  paceline forecaster --network network.npz
"""
#: Made-up series beside the recorded ones, as a share of the pasts.
MADE_UP = 0.15


def main(argv: list[str]) -> int:
    """Train and write the weights; 2 where a recording cannot be used or torch is missing."""
    parser = Parser(
        prog="paceline forecaster train",
        description="Train the global network on the windows in recordings and archives. It needs paceline[training].",
        epilog=EXAMPLES,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument("recordings", nargs="*", type=Path, metavar="RECORDING")
    parser.add_argument("--from-archive", metavar="WHERE", help="also what `paceline archive` has kept there")
    parser.add_argument("--out", type=Path, required=True, metavar="FILE", help="where to write the weights (.npz)")
    parser.add_argument("--pasts", type=int, default=40_000, metavar="N", help="examples to draw (40000)")
    parser.add_argument("--rounds", type=int, default=16, metavar="N", help="how often each is seen (16)")
    parser.add_argument("--members", type=int, default=3, metavar="N", help="networks to average (3)")
    parser.add_argument("--seed", type=int, default=0, metavar="N")
    args = parser.parse_args(argv)
    if not args.recordings and not args.from_archive:
        parser.error("from what? Name recordings, or an archive by --from-archive")
    try:
        drawn = _drawn(gathered(args.recordings, args.from_archive), args)
    except ValueError as error:
        return _refuse(str(error))
    try:
        from .fitting import fit, packed
    except ModuleNotFoundError:
        return _refuse(f"torch is not installed; {install('training')}")
    models = [fit(drawn, args.rounds, args.seed + number) for number in range(args.members)]
    arrays.write(args.out, packed(models))
    network.read(args.out)
    print(f"paceline forecaster: {args.out} written; use it with --network {args.out}", file=sys.stderr)
    return 0


def gathered(recordings: list[Path], archive: str | None) -> list[examples.Recorded]:
    """The series in recordings and in an archive.

    Raises:
        ValueError: one of them cannot be read, or what reads archives is not installed; it says what to do.
    """
    try:
        return recorded(recordings) + (archived(archive) if archive else [])
    except (OSError, recording.RecordingError) as error:
        raise ValueError(str(error)) from error
    except ModuleNotFoundError as error:
        raise ValueError(f"{error}; {install('history')}") from error


def recorded(paths: list[Path]) -> list[examples.Recorded]:
    """The series in recordings of the bus.

    Raises:
        OSError: a file cannot be read.
        ValueError: one is no recording.
    """
    history, subjects = History(), Subjects()
    for path in paths:
        for line in recording.read(str(path)):
            if isinstance(line, recording.Bad) or line.topic not in (topics.WINDOW.name, topics.JOB.name):
                continue
            try:
                event = wire.decode(topics.BY_NAME[line.topic], line.value)
            except wire.WireError:
                continue
            if isinstance(event, JobDescribed):
                subjects.on_job(event)
            for reading in subjects.readings(event):
                history.put(reading.subject, reading.time_s, reading.value)
    return [
        examples.Recorded(track.values(), track.subject.interval_s, track.subject.low, track.subject.high)
        for track in history
    ]


def archived(where: str) -> list[examples.Recorded]:
    """The series in an archive: of its newest days, as many as the service remembers.

    Raises:
        ValueError: it cannot be read.
        ModuleNotFoundError: what reads it is not installed.
    """
    from paceline.history.query import QueryError
    from paceline.history.store import StoreError

    from ..archive import backfill, newest_s

    memory = Memory()
    try:
        backfill(where, os.environ, memory, newest_s(where, os.environ))
    except (QueryError, StoreError) as error:
        raise ValueError(str(error)) from error
    held = (memory.find(line.subject.key) for line in memory.lines())
    return [
        examples.Recorded(one.values, one.subject.interval_s, one.subject.low, one.subject.high)
        for one in held
        if one is not None
    ]


def _drawn(series: list[examples.Recorded], args: argparse.Namespace) -> examples.Examples:
    rng = np.random.default_rng(args.seed)
    parts = [
        examples.drawn(series, int(args.pasts * (1.0 - MADE_UP)), rng),
        examples.drawn(made_up(60, rng), int(args.pasts * MADE_UP), rng),
    ]
    return examples.joined(parts)


def _refuse(reason: str) -> int:
    say(reason, "paceline forecaster")
    return 2


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
