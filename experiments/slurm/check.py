"""Jobs as people start them on Slurm, and what Paceline must say of each.

Rule of this file: a case submits one job, waits for what must come, and requires it. Waiting ends early where the job
has ended and nothing can come any more.
"""

import shlex
import shutil
import time
from collections.abc import Callable, Mapping

from paceline.events import Finding, JobDescribed
from paceline.terminal import say

from ..heard import Heard
from ..processes import ROOT, RunError, free_port
from .cluster import NOBODY, Slurm

#: A machine with two cores that others use, too, imports PyTorch four times.
START_S, FOUND_S, ENDED_S = 120.0, 150.0, 90.0
TRAIN = f"python {ROOT}/experiments/slurm/train.py"
RUN = "paceline run --no-panel --"


class Check:
    """``require`` is told what holds and what does not."""

    def __init__(
        self, slurm: Slurm, heard: Heard, require: Callable[[object, str], None], running: Callable[[], None]
    ) -> None:
        self.slurm, self.heard, self.require, self._running = slurm, heard, require, running

    def until(self, condition: Callable[[], object], within_s: float, what: str, name: str, job: str = "") -> None:
        """Wait until ``condition`` holds.

        Raises:
            RunError: it does not in time, or ``job`` has ended before.
        """
        end = time.monotonic() + within_s
        while not condition():
            self._running()
            gone = bool(job) and self.slurm.state(job) in ("", "COMPLETED", "FAILED", "CANCELLED")
            if time.monotonic() > end or gone:
                self.heard.poll()
                if gone and condition():
                    return
                why = "its job has ended" if gone else f"not within {within_s:g} s"
                raise RunError(f"{what}: {why}; the job said: {self.slurm.printed(name)}")
            self.heard.poll()

    def ended(self, name: str, job: str, attempt: int = 0) -> list[JobDescribed]:
        """The parts of a job once all have said that their ranks have left."""
        self.until(
            lambda: (parts := self.heard.parts(job, attempt)) and all(part.ended_s is not None for part in parts),
            ENDED_S, f"{name}: all of job {job} has left", name,
        )  # fmt: skip
        return self.heard.parts(job, attempt)

    def trained(self, name: str, script: str, *options: str, ranks: dict[int, str]) -> None:
        """A short run of these ranks on these nodes, from its start to its end."""
        job = self.slurm.submit(name, script, *options)
        self.until(lambda: self.heard.ranks(job) == ranks, START_S, f"{name}: ranks {ranks} of job {job}", name)
        parts = self.ended(name, job)
        self.require(
            {part.exit_status for part in parts} <= {0, None} and self.heard.ranks(job) == ranks,
            f"{name}: job {job}, ranks on {ranks}, ended in {len(parts)} parts: {[part.teller for part in parts]}",
        )

    def named(self, name: str, script: str, rank: int, node: str, *options: str) -> None:
        """A run whose rank ``rank`` on ``node`` turns slow: it is named, with all that Slurm knows."""
        job = self.slurm.submit(name, script, *options)
        self.until(lambda: self.heard.confirmed(job), FOUND_S, f"{name}: a confirmed finding of job {job}", name)
        found = self.heard.confirmed(job)
        assert found is not None, "waited for"
        self._culprit(name, found, rank, node)
        parts = self.heard.parts(job)
        self.require(
            all(part.labels.get("slurm_job_name") == name and part.attempt == 0 for part in parts),
            f"{name}: labels {parts[0].labels}, attempt {parts[0].attempt}",
        )
        self.slurm.ask("scancel", job)
        self.ended(name, job)
        self.require(True, f"{name}: cancelled, all {len(parts)} parts have said goodbye: {self.tellers(job)}")

    def _culprit(self, name: str, found: Finding, rank: int, node: str) -> None:
        right = found.ranks == [rank] and found.cause == "worker_compute"
        self.require(right, f"{name}: {found.summary}")
        self.require(list(found.nodes) == [node], f"{name}: on node {', '.join(found.nodes)}, expected {node}")

    def tellers(self, job: str, attempt: int = 0) -> list[str]:
        """Who has spoken for a job."""
        return [part.teller for part in self.heard.parts(job, attempt)]


def meeting() -> str:
    """Where the ranks of the next job meet: all nodes are this machine."""
    return f"export MASTER_ADDR=127.0.0.1 MASTER_PORT={free_port()}\n"


def tasks_with_a_sidecar_each(check: Check) -> None:
    """srun starts the ranks, and each has its own ``paceline run``."""
    script = f"{meeting()}srun {RUN} {TRAIN} --fault compute --rank 2 --seconds 120"
    check.named("each", script, 2, "n2", "-N2", "-n4", "--ntasks-per-node=2")
    jobs = [one for one in check.heard.jobs("") if check.heard.parts(one)[0].labels.get("slurm_job_name") == "each"]
    tellers = check.tellers(jobs[0])
    check.require(tellers == ["n1", "n1/1", "n2", "n2/1"], f"each: two sidecars a node keep apart: {tellers}")


def torchrun_on_each_node(check: Check) -> None:
    """srun starts one torchrun a node, as the guides of PyTorch say."""
    launch = (
        f"{RUN} torchrun --nnodes 2 --nproc-per-node 2 --node-rank $SLURM_NODEID --master-addr 127.0.0.1 "
        f"--master-port {free_port()} -m paceline.training.example --fault compute --rank 1 --seconds 120"
    )
    check.named("torchrun", f"srun bash -c '{launch}'", 1, "n1", "-N2", "--ntasks-per-node=1", "-c2")


def batch_script_alone(check: Check) -> None:
    """No srun: the batch script itself runs torchrun, on its one node."""
    launch = f"{RUN} torchrun --standalone --nproc-per-node 2 -m paceline.training.example --seconds 3"
    check.trained("batch", launch, "-n4", "-N1", "-w", "n2", ranks={0: "n2", 1: "n2"})
    check.trained(
        "wrap", "", "-n1", "-w", "n1", "--wrap", f"{RUN} python -m torch.distributed.run --standalone "
        "--nproc-per-node 1 -m paceline.training.example --seconds 3", ranks={0: "n1"},
    )  # fmt: skip


def array(check: Check) -> None:
    """Each task of a job array is a job of its own."""
    script = f"{RUN} torchrun --standalone --nproc-per-node 1 -m paceline.training.example --seconds 3"
    number = check.slurm.submit("array", script, "-n1", "--array=3-4")
    names = [f"{number}_3", f"{number}_4"]
    for job in names:
        check.until(lambda job=job: check.heard.ranks(job), START_S, f"array: job {job}", "array")  # type: ignore[misc]
        part = check.ended("array", job)[0]
        labels = (part.labels.get("slurm_array_job_id"), part.labels.get("slurm_array_task_id"))
        check.require(labels == (number, job.partition("_")[2]), f"array: job {job}, labels {part.labels}")


def requeue(check: Check) -> None:
    """A job that Slurm starts again is the same job at a later attempt: a thousand on, for torchrun counts its own."""
    script = f"{RUN} torchrun --standalone --nproc-per-node 1 -m paceline.training.example --seconds 60"
    job = check.slurm.submit("requeue", script, "-n1", "--requeue")
    check.until(lambda: check.heard.ranks(job, 0), START_S, f"requeue: job {job}", "requeue")
    check.slurm.ask("scontrol", "requeue", job)
    check.until(lambda: check.heard.ranks(job, 1000), START_S, f"requeue: attempt 1000 of job {job}", "requeue")
    check.require(True, f"requeue: job {job} is at attempt 1000 after scontrol requeue")
    check.ended("requeue", job, 0)
    check.slurm.ask("scancel", job)
    part = check.ended("requeue", job, 1000)[0]
    check.require(part.ended_s, f"requeue: cancelled, it has said goodbye, exit status {part.exit_status}")


def heterogeneous(check: Check) -> None:
    """Two parts with numbers of their own are one job: that of the first."""
    script = f"#SBATCH -n1 -w n1\n#SBATCH hetjob\n#SBATCH -n2 -w n2\n{meeting()}"
    script += f"srun --het-group=0,1 {RUN} {TRAIN} --seconds 3"
    check.trained("het", script, ranks={0: "n1", 1: "n2", 2: "n2"})


def openmpi_in_slurm(check: Check) -> None:
    """mpirun in an allocation: the job and the nodes are Slurm's, the ranks Open MPI's."""
    names = "-x MASTER_ADDR -x MASTER_PORT -x PATH -x PACELINE_BROKERS -x PACELINE_SPOOL_DIR"
    script = f"{meeting()}mpirun.openmpi --allow-run-as-root {names} -n 4 {RUN} {TRAIN} --seconds 3"
    check.trained("openmpi", script, "-N2", "-n4", "--ntasks-per-node=2", ranks={0: "n1", 1: "n1", 2: "n2", 3: "n2"})


def mpich_in_slurm(check: Check) -> None:
    """The same by MPICH's launcher, which tells all ranks that they are on the node that it was started on."""
    script = f"{meeting()}mpiexec.hydra -n 4 {RUN} {TRAIN} --seconds 3"
    check.trained("mpich", script, "-N2", "-n4", "--ntasks-per-node=2", ranks={0: "n1", 1: "n1", 2: "n2", 3: "n2"})


def without_wrapping(check: Check) -> None:
    """The task prolog has the tasks timed: nothing of ours is in the script but one variable."""
    script = f"{meeting()}export PACELINE_WATCH=1\nsrun {TRAIN} --seconds 3"
    check.trained("prolog", script, "-N2", "-n4", "--ntasks-per-node=2", ranks={0: "n1", 1: "n1", 2: "n2", 3: "n2"})
    script = f"{meeting()}srun {TRAIN} --seconds 1"
    number = check.slurm.submit("unasked", script, "-n1")
    check.until(lambda: check.slurm.state(number) in ("", "COMPLETED"), START_S, "unasked: ends", "unasked")
    check.heard.poll()
    check.require(not check.heard.parts(number), f"unasked: job {number} did not ask for it, and is not timed")


def another_user(check: Check) -> None:
    """A job of somebody who has no rights here: prolog, sidecar and epilog run as its owner."""
    if check.slurm.not_for_all:
        check.require(False, f"user: {check.slurm.not_for_all}")
        return
    home = check.slurm.folder / "nobody"
    home.mkdir()
    shutil.chown(home, NOBODY)
    script = f"{meeting()}export HOME={home} XDG_RUNTIME_DIR={home} PACELINE_SPOOL_DIR={home}/spool PACELINE_WATCH=1\n"
    # Slurm starts it with the environment of a login of nobody's.
    passed = ("PATH", "PACELINE_BROKERS", "OMP_NUM_THREADS", "SLURM_CONF")
    script += "".join(f"export {name}={shlex.quote(check.slurm.environ[name])}\n" for name in passed)
    script += f"srun {TRAIN.replace('python', str(check.slurm.python), 1)} --seconds 3"
    as_nobody = [f"--uid={NOBODY}", f"--chdir={home}", f"--output={home}/user.out"]
    check.trained("user", script, "-N2", "-n2", *as_nobody, ranks={0: "n1", 1: "n2"})
    owners = {path.owner() for path in home.rglob("*")}
    user = {part.labels.get("slurm_user") for job in check.heard.jobs("") for part in check.heard.parts(job)}
    check.require(owners == {NOBODY} and NOBODY in user, f"user: all that it left is its own: {owners}")


def left_nothing(check: Check) -> None:
    """Nothing of any job runs on."""
    check.until(lambda: not check.slurm.left(), ENDED_S, f"still running: {check.slurm.left()}", "each")
    check.require(True, "no process of any job is left")


CASES: dict[str, Callable[[Check], None]] = {
    "each": tasks_with_a_sidecar_each,
    "torchrun": torchrun_on_each_node,
    "batch": batch_script_alone,
    "array": array,
    "requeue": requeue,
    "het": heterogeneous,
    "openmpi": openmpi_in_slurm,
    "mpich": mpich_in_slurm,
    "prolog": without_wrapping,
    "user": another_user,
}


def run(check: Check, cases: Mapping[str, Callable[[Check], None]]) -> None:
    """Try each case; one that breaks is told, and the next is tried."""
    for name, case in cases.items():
        began = time.monotonic()
        try:
            case(check)
        except RunError as error:
            check.require(False, str(error))
        say(f"        {name}: {time.monotonic() - began:.0f} s")
    left_nothing(check)
