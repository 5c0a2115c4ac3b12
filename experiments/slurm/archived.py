"""Jobs of Slurm's accounting in the archive: as ``sacct`` has them, whatever they are called.

Rule of this file: as in ``check``; what ``paceline history`` answers is held against how the jobs were submitted.
"""

import csv
import io
import os
import subprocess
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

from paceline.child import spawn

from ..processes import RunError
from .check import ENDED_S, RUN, Check

#: The archive asks Slurm, and commits.
ARCHIVED_S = 90.0


def kept_jobs(check: Check) -> None:
    """Jobs that end well, fail, are cancelled, tasks of an array, and one that Paceline times: as sacct has them."""
    slurm = check.slurm
    slurm.ask("sacctmgr", "-i", "add", "account", "nlp")
    slurm.ask("sacctmgr", "-i", "add", "user", "root", "account=nlp")
    fine = slurm.submit("kept", "true", "-n2", "-w", "n2")
    failed = slurm.submit("fails|1|2", "exit 3", "-n1")
    stopped = slurm.submit("stopped", "sleep 300", "-n1")
    tasks = slurm.submit("tasks", "true", "-n1", "--array=3-4")
    train = f"{RUN} torchrun --standalone --nproc-per-node 2 -m paceline.training.example --seconds 8"
    ours = slurm.submit("ours", train, "-n2", "-N1", "-A", "nlp")
    expected = {
        fine: ("COMPLETED", "0", "kept"),
        failed: ("FAILED", "3", "fails|1|2"),
        stopped: ("CANCELLED", "0", "stopped"),
        f"{tasks}_3": ("COMPLETED", "0", "tasks"),
        f"{tasks}_4": ("COMPLETED", "0", "tasks"),
        ours: ("COMPLETED", "0", "ours"),
    }
    check.until(lambda: slurm.state(stopped) == "RUNNING", ENDED_S, "accounting: a job runs", "stopped")
    slurm.ask("scancel", stopped)
    folder = slurm.folder / "history"
    with _archive(check, folder):
        found: dict[str, tuple[str, ...]] = {}

        def there() -> bool:
            found.update({row["job"]: (row["state"], row["exit_status"], row["name"]) for row in _rows(check, folder)})
            return expected.items() <= found.items()

        try:
            check.until(there, ARCHIVED_S, "accounting: all are archived", "ours")
        except RunError as error:
            raise RunError(f"{error}; expected {expected}, found {found}") from None
        check.require(True, f"accounting: archived as sacct has them: {found}")
        row = next(row for row in _rows(check, folder) if row["job"] == fine)
        times = [float(row[name]) for name in ("submit_s", "start_s", "end_s")]
        check.require(
            times == sorted(times) and abs(times[-1] - time.time()) < ARCHIVED_S + ENDED_S,
            f"accounting: submitted, started and ended {times}, waited {row['wait_s']} s",
        )
        check.require(
            (row["nodes"], row["user_name"]) == ("n2", "root"), f"accounting: {row['user_name']} on {row['nodes']}"
        )
        timed: list[dict[str, str]] = []

        def told() -> bool:
            timed[:] = _asked(check, folder, "jobs", "--label", "slurm_account=nlp")
            return any(row["ended"] for row in timed)

        check.until(told, ARCHIVED_S, "accounting: history jobs by account", "ours")
    (row,) = timed
    whose = (row["job"], row["user_name"], row["account"], row["exit_status"])
    check.require(
        whose == (ours, "root", "nlp", "0"),
        f"accounting: paceline history jobs --label slurm_account=nlp: {whose}, {row['steps']} steps",
    )


@contextmanager
def _archive(check: Check, folder: Path) -> Iterator[None]:
    """``paceline archive --sacct`` beside the block."""
    command = ["paceline", "archive", "--to", str(folder), "--sacct", "--sacct-every", "10s", "--commit-seconds", "5"]
    with (check.slurm.folder / "archive.log").open("ab") as log:
        process = spawn(command, log, {**os.environ, **check.slurm.environ})
    try:
        yield
    finally:
        process.terminate()
        process.wait(ENDED_S)


def _rows(check: Check, folder: Path) -> list[dict[str, str]]:
    """Slurm's jobs, as they are archived."""
    return _asked(check, folder, "--sql", "SELECT * FROM slurm_jobs")


def _asked(check: Check, folder: Path, *question: str) -> list[dict[str, str]]:
    """What ``paceline history`` answers; nothing as long as there is no archive."""
    command = ["paceline", "history", "--from", str(folder), "--csv", *question]
    done = subprocess.run(
        command, env=check.slurm.environ, capture_output=True, text=True, check=False, timeout=ENDED_S
    )
    return list(csv.DictReader(io.StringIO(done.stdout))) if done.returncode == 0 else []


CASES: dict[str, Callable[[Check], None]] = {"accounting": kept_jobs}
