"""What the probe costs a 6 ms CPU step: on and off in alternate windows of one run, with a 95 % interval.

python -m experiments.overhead [--pairs 150] [--steps 80] [--ranks 1]

Beside `paceline run --measure-overhead`, whose hooks stay where they are, off is off here: hooks of process groups are
taken out and the thread has ended. The thread that trains has a core of its own, where there is one for each rank.
"""

import argparse
import json
import os
import socket
import statistics
import subprocess
import sys
import tempfile
import threading
from pathlib import Path

from paceline.paired import LEAST_PAIRS, median_interval

BOOTSTRAP = Path(__file__).parents[2] / "paceline" / "training" / "bootstrap"


def listen(path: Path) -> None:
    """Take what ranks send and throw it away: the sidecar's own work is another process's."""
    listener = socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET)
    listener.bind(str(path))
    listener.listen(16)

    def drain(connection: socket.socket) -> None:
        while connection.recv(1 << 20):
            pass

    def accept() -> None:
        while True:
            connection, _ = listener.accept()
            threading.Thread(target=drain, args=(connection,), daemon=True).start()

    threading.Thread(target=accept, daemon=True).start()


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--pairs", type=int, default=150, help="of windows, one on and one off (default: %(default)s)")
    parser.add_argument("--steps", type=int, default=80, help="of a window that count (default: %(default)s)")
    parser.add_argument("--ranks", type=int, default=1)
    parser.add_argument("--width", type=int, default=160)
    options = parser.parse_args()
    if options.pairs < LEAST_PAIRS:
        parser.error(f"an interval takes {LEAST_PAIRS} pairs")
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "ranks.sock"
        listen(path)
        environ = dict(os.environ, PACELINE_SOCKET=str(path), OMP_NUM_THREADS="1", PYTHONPATH=f"{BOOTSTRAP}:.")
        launch = [sys.executable, "-m", "torch.distributed.run", "--standalone", "--nproc-per-node", str(options.ranks)]
        worker = [str(Path(__file__).parent / "step.py"), str(options.pairs), str(options.steps), str(options.width)]
        done = subprocess.run([*launch, *worker], env=environ, stdout=subprocess.PIPE, text=True, check=True)
    found = json.loads(done.stdout.splitlines()[-1])
    report("step time", [statistics.median(w) for w in found["on"]], [statistics.median(w) for w in found["off"]])
    report("step time, fastest twentieth", *([sorted(w)[len(w) // 20] for w in found[key]] for key in ("on", "off")))
    report("step time, mean", [statistics.fmean(w) for w in found["on"]], [statistics.fmean(w) for w in found["off"]])
    report("processor time of the training thread", found["cpu_on"], found["cpu_off"])
    return 0


def report(name: str, on: list[float], off: list[float]) -> None:
    middle, low, high = median_interval([a - b for a, b in zip(on, off, strict=True)])
    base = statistics.median(off)
    print(
        f"{name}: off {base * 1e3:.3f} ms, on {statistics.median(on) * 1e3:.3f} ms, difference {middle * 1e6:+.0f} us "
        f"[{low * 1e6:+.0f}, {high * 1e6:+.0f}] ({middle / base:+.2%}), {len(on)} pairs of windows"
    )


if __name__ == "__main__":
    sys.exit(main())
