"""Make GPU traces, break them down with HolisticTraceAnalysis and with ours, and show both with the difference.

Rule of this file: the files on disk are all that the two share.
"""

import argparse
import json
import sys
import tempfile
import time
from importlib.metadata import version
from pathlib import Path
from typing import NamedTuple

from experiments.markdown import table
from importers.kineto import read
from importers.notes import Notes

from .traces import Made, document

#: How far the two may be apart, as a share of the trace's span.
MOST_APART = 0.01
KINDS = {
    "device behind its host": Made(steps=4, layers=48),
    "device waits for its host": Made(steps=4, layers=48, kernel_us=300, launch_us=1500),
    "all kernels in another step": Made(steps=4, layers=48, behind_us=150_000),
    "slow collectives": Made(steps=4, layers=48, collective_us=9000),
    "slow loader": Made(steps=4, layers=48, data_us=120_000),
}


class Parts(NamedTuple):
    """Seconds of one rank."""

    compute: float
    idle: float
    rest: float


def main() -> int:
    """Compare; 1 where they are further apart than they may be."""
    parser = argparse.ArgumentParser(prog="make bench-breakdown", description=__doc__.partition("\n")[0])
    parser.add_argument("--ranks", type=int, default=4)
    options = parser.parse_args()
    rows, worst = [], 0.0
    for kind, made in KINDS.items():
        with tempfile.TemporaryDirectory(prefix="paceline-") as folder:
            files = _write(Path(folder), made, options.ranks)
            before_s = time.perf_counter()
            ours = {rank: _ours(path) for rank, path in files.items()}
            between_s = time.perf_counter()
            theirs = _theirs(files, folder)
            seconds = (between_s - before_s, time.perf_counter() - between_s)
        apart = max(
            abs(mine - other) / sum(theirs[rank])
            for rank, parts in ours.items()
            for mine, other in zip(parts, theirs[rank], strict=True)
        )
        worst = max(worst, apart)
        rows.append([kind, _shown(ours[0]), _shown(theirs[0]), f"{apart:.4%}", f"{seconds[0]:.2f}, {seconds[1]:.2f}"])
    print(f"HolisticTraceAnalysis {version('HolisticTraceAnalysis')}, {options.ranks} ranks a trace; ms of rank 0")
    head = ["trace", "ours: compute, idle, the rest", "HTA", "furthest apart, of the span", "s: ours, HTA"]
    print(table(head, rows))
    return int(worst > MOST_APART)


def _write(folder: Path, made: Made, ranks: int) -> dict[int, str]:
    files = {}
    for rank in range(ranks):
        path = folder / f"rank{rank}.json"
        # Its own seed, and a host that is slower on the last rank.
        slower = 2 if rank == ranks - 1 else 1
        one = Made(**{**vars(made), "rank": rank, "world": ranks, "launch_us": made.launch_us * slower})
        path.write_text(json.dumps(document(one)), encoding="utf-8")
        files[rank] = str(path)
    return files


def _ours(path: str) -> Parts:
    with Path(path).open("rb") as stream:
        told = read(stream, path, Notes()).breakdowns[0]
    return Parts(told.compute_s, told.idle_s, told.exposed_communication_s + told.exposed_copy_s)


def _theirs(files: dict[int, str], folder: str) -> dict[int, Parts]:
    from hta.trace_analysis import TraceAnalysis

    analysis = TraceAnalysis(trace_files=files, trace_dir=folder, include_last_profiler_step=True)
    found = analysis.get_temporal_breakdown(visualize=False)
    names = ("compute_time(us)", "idle_time(us)", "non_compute_time(us)")
    return {int(row["rank"]): Parts(*(float(row[name]) / 1e6 for name in names)) for _, row in found.iterrows()}


def _shown(parts: Parts) -> str:
    return ", ".join(f"{part * 1e3:.2f}" for part in parts)


if __name__ == "__main__":
    sys.exit(main())
