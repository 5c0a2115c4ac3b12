"""``make ray-check``: a real Ray of two nodes on this machine, and what Paceline says of the training on it.

Two of Ray's daemons, each under ``paceline run`` as docs/slurm.md says, beside a broker and ``paceline streams``. The
script is the one of ``make test-frameworks``, which knows nothing of Paceline. When it ends nothing is left.
"""

import argparse
import os
import secrets
import shutil
import signal
import sys
import tempfile
import time
from pathlib import Path

from paceline.kafka import embedded
from paceline.kafka.settings import BrokerSettings
from paceline.kafka.topic_admin import ensure_topics
from paceline.terminal import say

from ..heard import Heard
from ..processes import RunError, worker
from ..promises import Promises
from .check import CASES, Check
from .cluster import PROGRAMS, Ray

EXAMPLES = """\
examples:
  python -m experiments.ray_cluster               all cases
  python -m experiments.ray_cluster name          one of them
  python -m experiments.ray_cluster --keep DIR    keep what daemons and drivers said
"""


def environment(settings: BrokerSettings, folder: Path) -> dict[str, str]:
    """What daemons and drivers are started with: the wheel's programs first, and nothing of our own job."""
    own = {name: value for name, value in os.environ.items() if not name.startswith(("RAY", "PACELINE_", "SLURM"))}
    return own | {
        "PATH": os.pathsep.join([str(PROGRAMS), os.environ.get("PATH", "")]),
        "PACELINE_BROKERS": settings.address,
        "PACELINE_SPOOL_DIR": str(folder / "spool"),
        "XDG_RUNTIME_DIR": str(folder),
        "OMP_NUM_THREADS": "1",
        # Ray starts workers at 15: beside other programs they would wait for those alone.
        "RAY_worker_niceness": "0",
        # On cores that others use, too, what Ray gives 30 s or 60 s to start takes longer.
        "RAY_raylet_start_wait_time_s": "240",
        "RAY_worker_register_timeout_seconds": "400",
        "RAY_TRAIN_WORKER_GROUP_START_TIMEOUT_S": "400",
        "RAY_ACCEL_ENV_VAR_OVERRIDE_ON_ZERO": "0",
        # Else a token that an earlier Ray has left in the user's home counts for some of the nodes.
        "RAY_AUTH_MODE": "token",
        "RAY_AUTH_TOKEN": secrets.token_hex(32),
    }


def run(folder: Path, cases: list[str], promises: Promises) -> None:
    """Start it all, try the cases, end it all.

    Raises:
        RunError: what is needed does not start.
    """
    with embedded.start(log=folder / "broker.log") as broker:
        settings = BrokerSettings().with_brokers(broker.address)
        ensure_topics(settings)
        heard = Heard(settings, "paceline-ray")
        try:
            with worker(settings, ready=True, log=folder / "streams.log"):
                began = time.monotonic()
                with Ray(folder, environment(settings, folder)) as ray:
                    say(f"Ray runs on two nodes, after {time.monotonic() - began:.0f} s")
                    check = Check(ray, heard, promises.require)
                    for name in cases:
                        _one(name, check, promises)
        finally:
            heard.close()


def _one(name: str, check: Check, promises: Promises) -> None:
    began = time.monotonic()
    try:
        CASES[name](check)
    except RunError as error:
        promises.require(False, str(error))
    say(f"        {name}: {time.monotonic() - began:.0f} s")


def main() -> int:
    """Run it; 0 where every promise held."""
    made = argparse.ArgumentParser(
        prog="python -m experiments.ray_cluster", epilog=EXAMPLES, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    made.add_argument("cases", nargs="*", metavar="CASE", help=f"of {', '.join(CASES)}")
    made.add_argument("--keep", metavar="DIR", type=Path, help="keep what daemons and drivers said here")
    options = made.parse_args()
    if unknown := [name for name in options.cases if name not in CASES]:
        made.error(f"no case {', '.join(unknown)}")
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(143))
    promises = Promises()
    # A short path: the sockets of Ray's are in it.
    folder = Path(tempfile.mkdtemp(prefix="paceline-ray-"))
    try:
        run(folder, options.cases or list(CASES), promises)
    except RunError as error:
        promises.require(False, str(error))
    finally:
        if options.keep:
            options.keep.mkdir(parents=True, exist_ok=True)
            for log in folder.glob("*.log"):
                shutil.copy(log, options.keep)
        shutil.rmtree(folder, ignore_errors=True)
    return promises.status()


if __name__ == "__main__":
    sys.exit(main())
