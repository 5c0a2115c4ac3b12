"""What `paceline up` takes of a machine while nothing happens: processor time by process, and memory.

Rule of this file: the stack runs as a user starts it, and is measured from outside, from what the kernel counts. A
second round has a session in which nothing happens: what its recorder takes is counted apart.
"""

import argparse
import contextlib
import json
import os
import re
import subprocess
import sys
import time
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any, NamedTuple

from experiments import kernel_counters
from experiments.machine import headline, machine
from experiments.markdown import table, write
from experiments.processes import ROOT, RunError, free_ports

PACELINE = [sys.executable, "-P", "-m", "paceline"]
READY_S, END_S = 120.0, 20.0
#: Percent of one core, all processes; of one more for a recorder; MiB.
MOST_PERCENT, MOST_RECORDER_PERCENT, MOST_MEMORY = 3.0, 0.2, 400.0
EXAMPLES = """examples:
  make bench-idle                       three minutes after the start, for two minutes, twice
  make bench-idle ARGS='--after 20 --for 30'
  make bench-idle ARGS='--write docs/benchmarks.md'
"""


class Used(NamedTuple):
    """Of one process: seconds of processor time so far, and bytes of memory, shared pages by their part."""

    processor_s: float
    memory: int


def main(argv: Sequence[str] | None = None) -> int:
    """0 where the stack was ready and was measured, whatever it took: aims are told, and no test of a machine."""
    parser = argparse.ArgumentParser(
        prog="make bench-idle",
        description=__doc__,
        epilog=EXAMPLES,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument("--after", type=float, default=180.0, metavar="S", help="seconds after it is ready (180)")
    parser.add_argument("--for", type=float, default=120.0, metavar="S", dest="lasts", help="seconds (120)")
    parser.add_argument("--json", type=Path, metavar="FILE", help="the numbers as JSON")
    parser.add_argument("--write", type=Path, metavar="PAGE", help="put the table between the marks of this page")
    options = parser.parse_args(argv)
    found: dict[str, Any] = {"machine": machine(), "quick": options.after < 180.0 or options.lasts < 120.0}
    began = time.monotonic()
    try:
        with TemporaryDirectory(prefix="paceline-idle-") as folder:
            found["rounds"] = list(_rounds(Path(folder), options.after, options.lasts))
    except RunError as error:
        print(f"bench-idle: {error}", file=sys.stderr)
        return 1
    found["took_s"] = time.monotonic() - began
    text = told(found)
    print(text)
    if options.json:
        options.json.write_text(json.dumps(found, indent=1), encoding="utf-8")
    if options.write:
        write(options.write, "idle", text)
    return 0


def told(found: Mapping[str, Any]) -> str:
    """The figures as a table: a row a process, the largest first."""
    rows = []
    for title, processes in found["rounds"]:
        for name, percent, memory in sorted(processes, key=lambda row: -row[1]):
            rows.append([title, name, f"{percent:.2f} %", f"{memory:.0f} MiB"])
        percent, memory = (sum(row[at] for row in processes) for at in (1, 2))
        rows.append(
            [
                title,
                f"**all, aims {MOST_PERCENT:g} % and {MOST_MEMORY:g} MiB**",
                f"{percent:.2f} %",
                f"{memory:.0f} MiB",
            ]
        )
    return f"{headline(dict(found))}\n\n{table(['round', 'process', 'of one core', 'memory'], rows)}"


def _rounds(folder: Path, after_s: float, lasts_s: float) -> Iterator[tuple[str, list[tuple[str, float, float]]]]:
    environ = {**os.environ, "PYTHONPATH": str(ROOT), "PACELINE_SESSIONS_DIR": str(folder / "sessions")}
    environ["XDG_STATE_HOME"] = str(folder / "state")
    ports = free_ports(3)
    environ["PACELINE_CONTROL_URL"] = f"http://127.0.0.1:{ports[2]}"
    with _stack(folder, environ, ports) as up:
        _say(f"measuring from {after_s:.0f} s on, for {lasts_s:.0f} s")
        time.sleep(after_s)
        yield "nothing", measured(up, lasts_s)
        asked = [*PACELINE, "session", "start", "idle", "--all"]
        done = subprocess.run(asked, env=environ, capture_output=True, text=True, check=False)
        if done.returncode != 0:
            raise RunError(f"no session could be started: {done.stderr.strip()[-300:]}")
        _say("again, with a session")
        time.sleep(min(after_s, 60.0))
        yield "a session", measured(up, lasts_s)


@contextlib.contextmanager
def _stack(folder: Path, environ: Mapping[str, str], ports: Sequence[int]) -> Iterator[int]:
    """`paceline up` with its embedded broker, all of it; its process. ``ports``: of the broker, page and control."""
    broker, page, control = ports
    words = [*PACELINE, "up", "--port", str(broker), "--ui-port", str(page), "--control-port", str(control)]
    log = folder / "up.log"
    with log.open("wb") as output:
        up = subprocess.Popen([*words, "--logs", str(folder / "logs")], stdout=output, stderr=output, env=environ)
    try:
        end_s = time.monotonic() + READY_S
        while b"ready after" not in log.read_bytes():
            if time.monotonic() > end_s or up.poll() is not None:
                raise RunError(f"paceline up was not ready; it said: {log.read_text(errors='replace')[-500:]}")
            time.sleep(0.2)
        yield up.pid
    finally:
        up.terminate()
        try:
            up.wait(END_S)
        except subprocess.TimeoutExpired:
            up.kill()
            up.wait()


def measured(up: int, lasts_s: float) -> list[tuple[str, float, float]]:
    """Of each process below ``up``, and of itself: its name, percent of a core for so many seconds, and MiB."""
    before, began = used(up), time.monotonic()
    time.sleep(lasts_s)
    after, took_s = used(up), time.monotonic() - began
    return [
        (name, 100.0 * (now.processor_s - before[pid, name].processor_s) / took_s, now.memory / 2**20)
        for (pid, name), now in after.items()
        if (pid, name) in before
    ]


def used(root: int) -> dict[tuple[int, str], Used]:
    """What ``root`` and all processes below it have used, by process and name."""
    parents: dict[int, int] = {}
    for folder in Path("/proc").glob("[0-9]*"):
        with contextlib.suppress(OSError, ValueError):
            parents[int(folder.name)] = int((folder / "stat").read_text().rpartition(")")[2].split()[1])
    found = {}
    for pid in parents:
        line = [pid]
        while line[-1] in parents and line[-1] != root:
            line.append(parents[line[-1]])
        if line[-1] == root:
            with contextlib.suppress(OSError, StopIteration):
                found[pid, _name(pid)] = _used(pid)
    return found


def _used(pid: int) -> Used:
    return Used(kernel_counters.processor_s(pid, children=True), kernel_counters.memory_part_bytes(pid))


def _name(pid: int) -> str:
    """What a process does: the module or command that it was started with.

    Python's own words before it are left out: ``-P -m paceline ui`` is ui.
    """
    words = Path(f"/proc/{pid}/cmdline").read_text().split("\0")
    at = words.index("-m") + 1 if "-m" in words else 0
    said = [word for word in words[at : at + 3] if re.fullmatch(r"[a-z_.]+", word)]
    return (said[1] if said[:1] == ["paceline"] and len(said) > 1 else " ".join(said[:1])) or Path(words[0]).name


def _say(line: str) -> None:
    print(f"bench-idle: {line}", file=sys.stderr, flush=True)


if __name__ == "__main__":
    sys.exit(main())
