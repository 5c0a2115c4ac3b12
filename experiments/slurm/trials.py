"""Trials on Slurm: jobs as the executor submits them, and ``paceline trial`` from its spec to the table.

Rule of this file: as in ``check``; jobs are asked for until they have ended, and what the executor says is held
against what Slurm says.
"""

import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

from paceline.child import spawn
from trials.executor import Ended, Job
from trials.slurm import SlurmExecutor

from ..processes import ROOT, RunError
from .check import Check

#: Two cores that others use, too, start PyTorch on two nodes.
ENDED_S, TRIAL_S = 120.0, 500.0
#: What each node's part of a job leaves: who it was, and where all meet.
_TELLS = """
import json, os, sys
folder, *told = sys.argv[1:]
known = {"told": told, "on": os.environ["SLURMD_NODENAME"], "said": os.environ["SAYS"]}
known["cpus"] = sorted(os.sched_getaffinity(0))
open(f"{folder}/result-{told[1]}.json", "w").write(json.dumps(known))
"""
_SPEC = """\
name: {name}
seconds: 4
warm_up: 5
rungs: 2
repeats: 1
executor: {{slurm: {{partition: all, cpus_per_node: 4}}}}
placements:
  nodes: [1, 2]
  ranks: [1, 2]
exclude: [{{nodes: 2, ranks: 2}}]
"""
_COMMAND = (
    "torchrun", "--nnodes", "{nodes}", "--node-rank", "{node_rank}", "--nproc-per-node", "{ranks}", "--master-addr",
    "{master}", "--master-port", "{port}", "-m", "paceline.training.example", "--seconds", "300",
)  # fmt: skip


class Executing:
    """An executor on this cluster; ``again`` is the same trial, resumed."""

    def __init__(self, check: Check, name: str, **options: object) -> None:
        self._check, self.folder = check, check.slurm.folder / name
        self._options = {"name": name, "folder": str(self.folder), "exclusive": False, **options}
        self.executor = self.again()

    def again(self) -> SlurmExecutor:
        """The executor of a trial that goes on."""
        return SlurmExecutor(self._options, environ=self._check.slurm.environ)

    def job(self, name: str, *command: str, limit_s: float = 120.0, **more: object) -> Job:
        """A job of it."""
        return Job(name, command, self.folder / name, expected_s=5, limit_s=limit_s, **more)  # type: ignore[arg-type]

    def until(self, condition: Callable[[], object], what: str, within_s: float = ENDED_S) -> None:
        """Wait until ``condition`` holds.

        Raises:
            RunError: it does not in time.
        """
        end_s = time.monotonic() + within_s
        while not condition():
            if time.monotonic() > end_s:
                raise RunError(f"{what}: not within {within_s:g} s")
            time.sleep(0.2)

    def ended(self, job: Job, executor: SlurmExecutor | None = None) -> Ended:
        """How it ended, once it has."""
        found: list[Ended] = []

        def over() -> bool:
            told = (executor or self.executor).poll(job)
            found.extend([told] if told else [])
            return bool(found)

        self.until(over, f"{job.id} ends")
        return found[0]

    def queued(self) -> dict[str, str]:
        """Name -> number of this trial's jobs that wait or run, as Slurm says; of another case some may still end."""
        said = self._check.slurm.ask("squeue", "--noheader", "--format=%j %i").splitlines()
        rows = (line.rsplit(maxsplit=1) for line in said)
        return {name: number for name, number in rows if name.startswith(f"paceline-{self._options['name']}-")}

    def left_nothing(self) -> None:
        """No job of it is queued now, and no process of any job runs on for long: a step's daemon ends after its job.

        Raises:
            RunError: some do.
        """
        self._check.require(not self.queued(), f"trial: closed, nothing waits or runs: {self.queued()}")
        self.until(lambda: not self._check.slurm.left(), f"trial: {self._check.slurm.left()} end")


def jobs(check: Check) -> None:
    """Jobs of one node and of two, one that crashes, one over its limit, and one that nobody wants any more."""
    made = Executing(check, "jobs")
    told = [sys.executable, "-c", _TELLS]
    node_words = ("{nodes}", "{node_rank}", "{master}", "{port}")
    two = made.job(
        "two", *told, str(made.folder / "two"), *node_words, nodes=2, cpus=(1,), environ={"SAYS": "$(id) 'x"}
    )
    crash = made.job("crash", sys.executable, "-c", "import sys; print('last words'); sys.exit(3)")
    hang = made.job("hang", "sleep", "600", limit_s=4.0, on=("n2",))
    for job in (two, crash, hang):
        made.executor.start(job)
    ended = made.ended(two)
    found = sorted((json.loads(one) for one in ended.results), key=lambda one: one["told"][1])
    check.require(
        (ended.how, ended.status, [one["on"] for one in found]) == ("ended", 0, ["n1", "n2"]),
        f"trial: a job of two nodes: {ended.how}, {[one['told'] for one in found]}",
    )
    check.require(found[0]["told"][2:] == found[1]["told"][2:], "trial: both nodes meet at one address and port")
    check.require(
        {one["said"] for one in found} == {"$(id) 'x"} and all(one["cpus"] == [1] for one in found),
        "trial: its environment came as it was, and it runs on the CPU that it may use",
    )
    ended = made.ended(crash)
    check.require((ended.how, ended.status, "last words" in ended.said) == ("ended", 3, True), f"trial: crash: {ended}")
    ended = made.ended(hang)
    check.require(ended.how == "killed" and not made.queued(), f"trial: over its limit: {ended}")
    made.executor.close()


def waiting(check: Check) -> None:
    """A job that waits says why, is known to the trial that goes on, and is gone with it."""
    made = Executing(check, "waits", exclusive=True, parallel=2)
    first, second = (made.job(name, "sleep", "600", on=("n1",)) for name in ("first", "second"))
    made.executor.start(first)
    made.executor.start(second)
    made.until(lambda: made.executor.poll(second) is None and "PENDING" in made.executor.waits(second), "second waits")
    check.require(True, f"trial: the second waits: {made.executor.waits(second)}")
    again = made.again()
    for job in (first, second):
        again.start(job)
    check.require(
        sorted(made.queued()) == ["paceline-waits-first", "paceline-waits-second"], "trial: resumed, as it was"
    )
    check.slurm.ask("scancel", "--name=paceline-waits-second")
    ended = made.ended(second, again)
    check.require(ended.how == "gone" and "CANCELLED" in ended.said, f"trial: cancelled by others: {ended}")
    again.close()
    made.left_nothing()


def away(check: Check) -> None:
    """The controller is away for a while: that is said, and the job's end is still heard."""
    made = Executing(check, "away")
    job = made.job("job", "sleep", "1")
    made.executor.start(job)
    with check.slurm.without_controller():
        made.until(lambda: made.executor.poll(job) is None and "not answer" in made.executor.waits(job), "away is said")
        check.require(True, f"trial: {made.executor.waits(job)}")
    ended = made.ended(job)
    check.require((ended.how, ended.status) == ("ended", 0), f"trial: back, and heard: {ended}")
    made.executor.close()


@contextmanager
def _trial(check: Check, name: str) -> Iterator[Callable[[], "subprocess.Popen[bytes]"]]:
    """Starts ``paceline trial`` of a spec on this cluster, again and again."""
    folder: Path = check.slurm.folder / name
    folder.mkdir()
    (folder / "trial.yaml").write_text(_SPEC.format(name=name))
    options = [str(folder / "trial.yaml"), "--run", "--folder", str(folder / "kept")]
    command = [sys.executable, "-P", "-m", "paceline", "trial", *options, "--", *_COMMAND]
    environ = {**check.slurm.environ, "PYTHONPATH": str(ROOT)}

    with (folder / "said").open("ab") as said:
        yield lambda: spawn(command, said, environ)


def command(check: Check) -> None:
    """``paceline trial``: killed while its first job runs, started again, ended by Ctrl-C, and gone on to the table."""
    folder = check.slurm.folder / "whole"
    journal, made = folder / "kept" / "journal.jsonl", Executing(check, "whole")
    with _trial(check, "whole") as start:
        process = start()
        made.until(made.queued, "whole: a first job")
        (first,) = made.queued().values()
        process.kill()
        process.wait()
        process = start()
        made.until(lambda: _runs(journal) >= 1, "whole: a first run is measured", TRIAL_S)
        kept = json.loads(_lines(journal)[1])
        check.require(
            kept["outcome"] == "measured"
            and [first] == [path.read_text() for path in folder.glob("kept/*/slurm-job")][: _runs(journal)],
            f"trial: killed and started again, it goes on with Slurm's job {first}",
        )
        made.until(made.queued, "whole: another job")
        os.kill(process.pid, signal.SIGINT)
        status = process.wait(ENDED_S)
        check.require(status == 130, f"trial: Ctrl-C: status {status}")
        made.left_nothing()
        process = start()
        status = process.wait(TRIAL_S)
    report = folder / "kept" / "report.md"
    check.require(status == 0 and report.exists(), f"trial: status {status}; it said: {_last(folder / 'said')}")
    result = json.loads((folder / "kept" / "result.json").read_bytes())
    check.require(
        len(result["winners"]) >= 1 and not made.queued(), f"trial: of {_runs(journal)} runs: {report.read_text()}"
    )


def _lines(path: Path) -> list[str]:
    return path.read_text().splitlines() if path.exists() else []


def _runs(journal: Path) -> int:
    """Runs that ended; the first line is the trial's own."""
    return max(0, len(_lines(journal)) - 1)


def _last(path: Path) -> str:
    return " / ".join(path.read_text(errors="replace").strip().splitlines()[-3:])


CASES: dict[str, Callable[[Check], None]] = {
    "trial": jobs,
    "trial-waits": waiting,
    "trial-away": away,
    "trial-command": command,
}
