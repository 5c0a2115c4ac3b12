"""Start `paceline up`, end it by a signal, start it again at once, again and again: how often is it not ready in 30 s?

Rule of this file: as a person or an orchestrator does it: the signal goes to the whole group, and after ten seconds
comes SIGKILL. Messages arrive all the while, and what is left of a stack after its end is counted.
"""

import argparse
import contextlib
import os
import random
import signal
import subprocess
import sys
import threading
import time
import uuid
from collections.abc import Iterator, Sequence
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import NamedTuple

from experiments.processes import apache_kafka, busy, free_ports

PACELINE = [sys.executable, "-P", "-m", "paceline"]
#: What is promised of a start; how long one is waited for to tell late from never; a signal's time before SIGKILL.
READY_S, NEVER_S, END_S = 30.0, 150.0, 10.0
SIGNALS = (signal.SIGTERM, signal.SIGINT, signal.SIGKILL)
#: A variable that all processes of one stack inherit, and how long a death signal may take to reach the last of them.
MARK, LEFT_S = "PACELINE_SOAK_STACK", 3.0
EXAMPLES = """examples:
  make soak                                        1,000 starts; three to four hours (four of it at a time: 90 min)
  make soak ARGS='--starts 40'                     a quarter of an hour
  make soak ARGS='--starts 40 --load 8 --apache'   beside eight busy processes, on Apache Kafka
"""


class Start(NamedTuple):
    """One start: seconds until it was ready (None: never), until it had ended, and what it left behind."""

    ready_s: float | None
    ended_s: float
    left: int


def main(argv: Sequence[str] | None = None) -> int:
    """0 where every start was ready in time and left nothing behind."""
    parser = argparse.ArgumentParser(
        prog="make soak", description=__doc__, epilog=EXAMPLES, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--starts", type=int, default=1000, metavar="N", help="starts of the stack (1000)")
    parser.add_argument("--load", type=int, default=0, metavar="N", help="busy processes beside it (0)")
    parser.add_argument(
        "--apache", action="store_true", help="on an Apache Kafka that goes on, not the embedded broker"
    )
    parser.add_argument("--seed", type=int, default=0, help="of the order of signals (0)")
    options = parser.parse_args(argv)
    with contextlib.ExitStack() as stack:
        folder = Path(stack.enter_context(TemporaryDirectory(prefix="paceline-soak-")))
        stack.enter_context(busy(options.load))
        brokers = ["--brokers", stack.enter_context(apache_kafka()).address] if options.apache else []
        starts = []
        for number, start in enumerate(_starts(folder, brokers, random.Random(options.seed), options.starts), 1):
            starts.append(start)
            ready = "NEVER READY" if start.ready_s is None else f"ready after {start.ready_s:.1f} s"
            load = os.getloadavg()[0]
            print(f"{number:5} {ready}, ended in {start.ended_s:.1f} s, {start.left} left, load {load:.1f}", flush=True)
    return _told(starts)


def _told(starts: Sequence[Start]) -> int:
    late = [start for start in starts if start.ready_s is None or start.ready_s > READY_S]
    never = [start for start in starts if start.ready_s is None]
    ready = sorted(start.ready_s for start in starts if start.ready_s is not None)
    left = sum(start.left for start in starts)
    slowest = max(start.ended_s for start in starts)
    print(
        f"{len(starts)} starts: {len(late)} not ready in {READY_S:.0f} s, {len(never)} never; "
        f"median {ready[len(ready) // 2] if ready else 0:.1f} s, longest {ready[-1] if ready else 0:.1f} s; "
        f"longest end {slowest:.1f} s; {left} processes left behind"
    )
    return 1 if late or left else 0


def _starts(folder: Path, brokers: Sequence[str], chosen: random.Random, count: int) -> Iterator[Start]:
    ports = free_ports(3)
    words = [*PACELINE, "up", "--no-forecaster", "--ui-port", str(ports[1]), "--control-port", str(ports[2])]
    words += brokers or ["--port", str(ports[0])]
    where = brokers[1] if brokers else f"127.0.0.1:{ports[0]}"
    for number in range(count):
        log, mark = folder / "up.log", uuid.uuid4().hex
        environ = {**os.environ, "PACELINE_SESSIONS_DIR": str(folder / "sessions"), MARK: mark}
        began = time.monotonic()
        with log.open("wb") as output:
            up = subprocess.Popen(words, stdout=output, stderr=output, env=environ, start_new_session=True)
        with _messages(where, f"soak-{number}"):
            ready_s = _ready(up, log, began)
            time.sleep(chosen.uniform(0.0, 2.0))
            ended = time.monotonic()
            _end(up, chosen.choice(SIGNALS))
            ended_s = time.monotonic() - ended
        remaining = left(mark)
        for line in remaining.values():
            print(f"      left: {line}", flush=True)
        yield Start(ready_s, ended_s, len(remaining))


def _ready(up: "subprocess.Popen[bytes]", log: Path, began: float) -> float | None:
    while time.monotonic() - began < NEVER_S and up.poll() is None:
        if b"ready after" in log.read_bytes():
            return time.monotonic() - began
        time.sleep(0.1)
    print(log.read_text(errors="replace")[-2000:], flush=True)
    return None


def _end(up: "subprocess.Popen[bytes]", number: signal.Signals) -> None:
    with contextlib.suppress(ProcessLookupError):
        os.killpg(up.pid, number)
    try:
        up.wait(END_S)
    except subprocess.TimeoutExpired:
        os.killpg(up.pid, signal.SIGKILL)
        up.wait()


def left(mark: str, within_s: float = LEFT_S) -> dict[int, str]:
    """Pid and command line of each process whose environment holds ``mark``, once none does or the time is over.

    Whoever was started by a stack has its environment, whatever session it made of itself and whatever it is called.
    """
    end_s = time.monotonic() + within_s
    while found := _marked(mark.encode()):
        if time.monotonic() >= end_s:
            break
        time.sleep(0.1)
    return found


def _marked(mark: bytes) -> dict[int, str]:
    found = {}
    for entry in Path("/proc").iterdir():
        with contextlib.suppress(OSError):  # It has ended meanwhile, or is another user's.
            if entry.name.isdigit() and mark in (entry / "environ").read_bytes():
                line = (entry / "cmdline").read_bytes().replace(b"\0", b" ")
                found[int(entry.name)] = line.decode(errors="replace").strip()
    return found


@contextlib.contextmanager
def _messages(where: str, job: str) -> Iterator[None]:
    """A simulated job that speaks while the stack starts and ends; the broker may come later than it does."""
    words = [*PACELINE, "simulate", "--brokers", where, "--job", job, "--ranks", "16", "--steps", "400", "--speed", "4"]
    over = threading.Event()
    running: list[subprocess.Popen[bytes]] = []

    def speak() -> None:
        while not over.is_set():
            running[:] = [subprocess.Popen(words, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)]
            running[0].wait()
            over.wait(1.0)

    thread = threading.Thread(target=speak)
    thread.start()
    try:
        yield
    finally:
        over.set()
        for process in running:
            process.kill()
        thread.join()


if __name__ == "__main__":
    sys.exit(main())
