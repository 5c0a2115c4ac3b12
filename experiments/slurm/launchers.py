"""mpirun without Slurm, Open MPI's and MPICH's, and what Paceline must say of their ranks.

Rule of this file: as in ``check``: a case starts one command and requires what comes of it.
"""

import shutil
import subprocess
import time
from collections.abc import Callable, Mapping

from paceline.terminal import say

from ..heard import Heard
from ..processes import RunError, free_port
from .check import RUN, TRAIN

RUN_S, HEARD_S = 180.0, 20.0


class Launched:
    """Runs commands and asks what was heard of them."""

    def __init__(self, environ: Mapping[str, str], heard: Heard, require: Callable[[object, str], None]) -> None:
        self._environ, self.heard, self.require = environ, heard, require

    def run(self, command: str) -> None:
        """Run ``command`` to its end.

        Raises:
            RunError: it fails, or is not there.
        """
        words = command.split()
        if missing := [word for word in words if word.startswith("mpi") and shutil.which(word) is None]:
            raise RunError(f"no {missing[0]} here; fix: deploy/system-packages.sh slurm")
        environ = {**self._environ, "MASTER_ADDR": "127.0.0.1", "MASTER_PORT": str(free_port())}
        done = subprocess.run(words, env=environ, capture_output=True, text=True, timeout=RUN_S, check=False)
        if done.returncode:
            last = " / ".join(done.stderr.strip().splitlines()[-3:])
            raise RunError(f"{command}: status {done.returncode}; it said: {last}")

    def ranks(self, beginning: str, expected: set[int], what: str) -> None:
        """One job whose name begins so has had these ranks, and has ended."""
        end = time.monotonic() + HEARD_S
        jobs: set[str] = set()
        while time.monotonic() < end:
            self.heard.poll()
            jobs = self.heard.jobs(beginning)
            job = next(iter(jobs), "")
            if len(jobs) == 1 and set(self.heard.ranks(job)) == expected:
                parts = self.heard.parts(job)
                if all(part.ended_s is not None for part in parts):
                    self.require(True, f"{what}: job {job}, ranks {sorted(expected)} in {len(parts)} parts")
                    return
        seen = {job: sorted(self.heard.ranks(job)) for job in jobs}
        self.require(False, f"{what}: one job with ranks {sorted(expected)}, not {seen}")


def openmpi(launched: Launched) -> None:
    """A sidecar a rank: they meet under the name that Open MPI gives the launch."""
    launched.run(f"mpirun.openmpi --allow-run-as-root --oversubscribe -n 3 {RUN} {TRAIN} --seconds 3")
    launched.ranks("mpi-", {0, 1, 2}, "Open MPI alone, a sidecar a rank")


def mpich(launched: Launched) -> None:
    """MPICH names no launch: ``paceline run`` around it, or --job, does."""
    launched.run(f"paceline run --no-panel --job hydra-around -- mpiexec.hydra -n 3 {TRAIN} --seconds 3")
    launched.ranks("hydra-around", {0, 1, 2}, "MPICH alone, one sidecar around it")
    launched.run(f"mpiexec.hydra -n 3 paceline run --no-panel --job hydra-each -- {TRAIN} --seconds 3")
    launched.ranks("hydra-each", {0, 1, 2}, "MPICH alone, a sidecar a rank")


CASES: dict[str, Callable[[Launched], None]] = {"mpirun": openmpi, "mpiexec": mpich}


def run(environ: Mapping[str, str], heard: Heard, require: Callable[[object, str], None], only: list[str]) -> None:
    """The cases named, or all where none is."""
    launched = Launched(environ, heard, require)
    for name, case in CASES.items():
        if only and name not in only:
            continue
        began = time.monotonic()
        try:
            case(launched)
        except RunError as error:
            require(False, str(error))
        say(f"        {name}: {time.monotonic() - began:.0f} s")
