"""``make slurm-check``: a real Slurm with two nodes on this machine, and what Paceline says of the jobs on it.

munge, slurmctld and two slurmds run as root in a temporary folder, beside a broker and ``paceline streams``. Jobs are
submitted by sbatch: with srun, torchrun, mpirun; arrays, requeues, heterogeneous jobs; with the task prolog of
deploy/slurm in place of ``paceline run``; and by ``paceline trial``. Then ranks of mpirun without Slurm, and the
collector with the rights of its unit of systemd. When it ends nothing is left.
"""

import argparse
import os
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
from ..processes import ROOT, RunError, Worker, worker
from ..promises import Promises
from . import archived, check, collector, launchers, trials
from .cluster import Slurm

EXAMPLES = """\
examples:
  python -m experiments.slurm                    all cases, ten minutes on two cores
  python -m experiments.slurm each requeue       some of them
  python -m experiments.slurm --keep DIR         keep what daemons and jobs said
"""


#: The case beside those of ``check`` and ``launchers``.
COLLECTOR = "collector"
IN_SLURM = {**archived.CASES, **check.CASES, **trials.CASES}
CASES = (*IN_SLURM, *launchers.CASES, COLLECTOR)


def environment(settings: BrokerSettings, folder: Path) -> dict[str, str]:
    """What jobs are submitted with: this checkout's programs first, one thread a rank, and nothing of our own job."""
    own = {name: value for name, value in os.environ.items() if not name.startswith(("SLURM", "PACELINE_", "OMPI_"))}
    return own | {
        "PATH": os.pathsep.join([str(ROOT / ".venv" / "bin"), os.environ.get("PATH", "")]),
        "PACELINE_BROKERS": settings.address,
        "PACELINE_SPOOL_DIR": str(folder / "spool"),
        "XDG_RUNTIME_DIR": str(folder),
        "OMP_NUM_THREADS": "1",
    }


def run(folder: Path, only: list[str], promises: Promises) -> None:
    """Start it all, try the cases, end it all.

    Raises:
        RunError: what is needed does not start.
    """
    with embedded.start(log=folder / "broker.log") as broker:
        settings = BrokerSettings().with_brokers(broker.address)
        ensure_topics(settings)
        environ = environment(settings, folder)
        slurm_cases = [name for name in only or IN_SLURM if name in IN_SLURM]
        heard = Heard(settings, "paceline-slurm")
        try:
            with worker(settings, ready=True, log=folder / "streams.log") as streams:
                if slurm_cases:
                    _in_slurm(folder, environ, heard, streams, slurm_cases, promises)
                launchers.run(environ, heard, promises.require, only)
                if not only or COLLECTOR in only:
                    collector.run(promises.require)
        finally:
            heard.close()


def _in_slurm(
    folder: Path, environ: dict[str, str], heard: Heard, streams: Worker, cases: list[str], promises: Promises
) -> None:
    began = time.monotonic()
    with Slurm(folder, environ) as slurm:
        say(f"Slurm runs, {time.monotonic() - began:.1f} s after munged was started")
        check.run(check.Check(slurm, heard, promises.require, streams.check), {name: IN_SLURM[name] for name in cases})


def main() -> int:
    """Run it; 0 where every promise held."""
    made = argparse.ArgumentParser(
        prog="python -m experiments.slurm", epilog=EXAMPLES, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    made.add_argument("cases", nargs="*", metavar="CASE", help=f"of {', '.join(CASES)}")
    made.add_argument("--keep", metavar="DIR", type=Path, help="keep what daemons and jobs said here")
    options = made.parse_args()
    if unknown := [name for name in options.cases if name not in CASES]:
        made.error(f"no case {', '.join(unknown)}")
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(143))
    promises = Promises()
    folder = Path(tempfile.mkdtemp(prefix="paceline-slurm-"))
    try:
        run(folder, options.cases, promises)
    except RunError as error:
        promises.require(False, str(error))
    finally:
        if options.keep:
            shutil.copytree(folder, options.keep, dirs_exist_ok=True, ignore=shutil.ignore_patterns("munge", "socket"))
        shutil.rmtree(folder, ignore_errors=True)
    return promises.status()


if __name__ == "__main__":
    sys.exit(main())
