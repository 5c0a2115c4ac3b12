"""Records what programs of each kind take of a machine: ``python -m experiments.forecasting.record --out FOLDER``.

Some at a time, as on a machine that is shared; each program as often as asked, each time with other sizes. What is
written is what ``forecaster.job_kinds.train`` reads: five samples a second of each tree of processes, and an index.
"""

import argparse
import subprocess
import sys
import tempfile
import time
from collections import deque
from dataclasses import dataclass, fields
from pathlib import Path

import pandas as pd
import psutil

from forecaster.job_kinds.labelled_jobs import INDEX, INTERVAL_S, TELEMETRY

from .programs import PROGRAMS

BESIDE = 2


@dataclass
class Taken:
    """What a tree of processes has taken so far. Of processes that have ended what was seen of them last counts."""

    cpu_s: float = 0.0
    read: float = 0.0
    written: float = 0.0
    switches: float = 0.0


class Tree:
    """The processes below one, ended ones included."""

    def __init__(self, pid: int) -> None:
        self._root = psutil.Process(pid)
        self._seen: dict[tuple[int, float], Taken] = {}

    def sample(self) -> tuple[Taken, float]:
        """All that was taken, and the bytes of memory that are held now."""
        held = 0.0
        try:
            running = [self._root, *self._root.children(recursive=True)]
        except psutil.Error:
            running = []
        for one in running:
            try:
                with one.oneshot():
                    times, told = one.cpu_times(), one.io_counters()
                    switches = one.num_ctx_switches().voluntary
                    taken = Taken(times.user + times.system, told.read_bytes, told.write_bytes, switches)
                    held += one.memory_info().rss
                    self._seen[one.pid, one.create_time()] = taken
            except psutil.Error:
                continue
        parts = self._seen.values()
        return Taken(*(sum(getattr(one, part.name) for one in parts) for part in fields(Taken))), held


@dataclass
class Recording:
    """A program that runs."""

    job: str
    name: str
    process: subprocess.Popen[bytes]
    beside: subprocess.Popen[bytes] | None
    folder: tempfile.TemporaryDirectory[str]
    tree: Tree
    ends_s: float
    before: tuple[float, Taken] | None = None


def started(job: str, name: str, seed: int, seconds: float) -> Recording:
    """A program that has just begun, and its clients."""
    folder = tempfile.TemporaryDirectory()
    command = [sys.executable, "-m", f"{__package__}.programs"]
    options = ["--seconds", str(seconds), "--seed", str(seed), "--folder", folder.name]
    process = subprocess.Popen([*command, name, *options])
    beside = subprocess.Popen([*command, "clients", *options]) if PROGRAMS[name].asked else None
    return Recording(job, name, process, beside, folder, Tree(process.pid), time.monotonic() + seconds)


def sampled(one: Recording, now_s: float) -> dict[str, object] | None:
    """A row of what it took since the last."""
    taken, held = one.tree.sample()
    before, one.before = one.before, (now_s, taken)
    if before is None:
        return None
    apart_s, old = now_s - before[0], before[1]
    return {
        "job": one.job,
        "t": time.time(),
        "cpu_pct": 100.0 * max(0.0, taken.cpu_s - old.cpu_s) / apart_s,
        "rss_mb": held / 1e6,
        "read_Bps": max(0.0, taken.read - old.read) / apart_s,
        "write_Bps": max(0.0, taken.written - old.written) / apart_s,
        "vctx_per_s": max(0.0, taken.switches - old.switches) / apart_s,
    }


def recorded(wanted: deque[tuple[str, str, int]], seconds: float, beside: int) -> list[dict[str, object]]:
    """Rows of all of them."""
    rows, running, next_s = list[dict[str, object]](), list[Recording](), time.monotonic()
    while wanted or running:
        while wanted and len(running) < beside:
            job, name, seed = wanted.popleft()
            running.append(started(job, name, seed, seconds))
            print(f"{job} {name}; {len(wanted)} to come", file=sys.stderr, flush=True)
        next_s = max(next_s + INTERVAL_S, time.monotonic())
        time.sleep(max(0.0, next_s - time.monotonic()))
        for one in list(running):
            if one.process.poll() is None and time.monotonic() < one.ends_s + 30.0:
                row = sampled(one, time.monotonic())
                rows += [] if row is None else [row]
                continue
            running.remove(one)
            for process in (one.process, one.beside):
                if process is not None:
                    process.kill()
                    process.wait()
            one.folder.cleanup()
    return rows


def main() -> int:
    """Record them all."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--out", type=Path, required=True, metavar="FOLDER")
    parser.add_argument("--only", default=",".join(PROGRAMS), metavar="NAMES", help="with commas (all)")
    parser.add_argument("--times", type=int, default=2, metavar="N", help="each program (2)")
    parser.add_argument("--seconds", type=float, default=90.0, metavar="S", help="each time (90)")
    parser.add_argument("--beside", type=int, default=BESIDE, metavar="N", help="at a time (2)")
    args = parser.parse_args()
    names = [name for number in range(args.times) for name in args.only.split(",")]
    wanted = deque((f"job{number:02d}", name, number) for number, name in enumerate(names))
    index = pd.DataFrame(
        [{"job": job, "program": name, "label": PROGRAMS[name].kind, "seed": seed} for job, name, seed in wanted]
    )
    args.out.mkdir(parents=True, exist_ok=True)
    rows = pd.DataFrame(recorded(wanted, args.seconds, args.beside))
    small = {name: "float32" for name in rows.columns if name not in ("job", "t")}
    rows.astype(small).to_parquet(args.out / TELEMETRY, compression="zstd")
    index.to_csv(args.out / INDEX, index=False)
    return 0


if __name__ == "__main__":
    sys.exit(main())
