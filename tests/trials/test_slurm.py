"""The executor for Slurm, where Slurm's programs say what is written down for them: lies, silence, and bad moments.

What a real Slurm does with its jobs is tried by ``make slurm-check``.
"""

import json
import os
from pathlib import Path

import pytest

from trials.executor import ExecutorError, Job
from trials.slurm import SlurmExecutor

pytestmark = pytest.mark.slow

ANSWER = """#!/bin/sh
echo "$(basename "$0") $*" >>"{folder}/asked"
n=$(cat "{folder}/$(basename "$0").turn" 2>/dev/null || echo 0)
echo $((n + 1)) >"{folder}/$(basename "$0").turn"
next="{folder}/$(basename "$0").$n"
[ -e "$next" ] || next="{folder}/$(basename "$0").last"
. "$next"
"""
SHOWN = "JobId=7 JobName=x JobState={state} Reason={reason} ExitCode={code} RunTime={ran} Comment={comment} Power="
AWAY = "echo 'slurm_load_jobs error: Unable to contact slurm controller' >&2; exit 1"
FORGOTTEN = "echo 'slurm_load_jobs error: Invalid job id specified' >&2; exit 1"


class Scripted:
    """Slurm's programs in a folder, each with its answers in their order; the last one stays."""

    def __init__(self, folder: Path) -> None:
        self.folder, self.now_s = folder, 0.0
        self.beside = [os.environ["PATH"]]
        (folder / "bin").mkdir()
        self.options = {"name": "t", "folder": str(folder / "trial"), "late_s": 10, "patience_s": 60, "wait_s": 300}
        for name in ("sbatch", "squeue", "scontrol", "scancel"):
            program = folder / "bin" / name
            program.write_text(ANSWER.format(folder=folder))
            program.chmod(0o755)
            self.says(name, "true")

    def says(self, program: str, *answers: str) -> None:
        """From now on ``program`` answers so, by lines of a shell."""
        for old in self.folder.glob(f"{program}.*"):
            old.unlink()
        for number, answer in enumerate(answers):
            (self.folder / f"{program}.{number}").write_text(answer + "\n")
        (self.folder / f"{program}.last").write_text(answers[-1] + "\n")

    def shows(self, state: str, reason: str = "None", code: str = "0:0", ran: str = "00:00:01", whose: str = "") -> str:
        """An answer of scontrol's about the job."""
        comment = whose or f"paceline-trial:{self.mark}:job"
        return f"echo '{SHOWN.format(state=state, reason=reason, code=code, ran=ran, comment=comment)}'"

    @property
    def mark(self) -> str:
        """What this trial's comments hold."""
        manifest = self.executor().manifest(self.job())
        return next(line for line in manifest.splitlines() if "--comment=" in line).split(":")[1]

    def executor(self, **options: object) -> SlurmExecutor:
        """An executor of this trial, with a clock of the test's."""
        environ = {"PATH": os.pathsep.join([str(self.folder / "bin"), *self.beside])}
        return SlurmExecutor({**self.options, **options}, environ, clock=lambda: self.now_s, sleep=self.passes)

    def passes(self, seconds: float) -> None:
        """Time goes on."""
        self.now_s += seconds

    def job(self) -> Job:
        """The job."""
        return Job("job", ("true",), self.folder / "trial" / "job", expected_s=5, limit_s=100)

    def asked(self, program: str) -> int:
        """How often ``program`` was called."""
        lines = (self.folder / "asked").read_text().splitlines() if (self.folder / "asked").exists() else []
        return sum(line.startswith(program) for line in lines)

    def started(self, **options: object) -> tuple[SlurmExecutor, Job]:
        """The job, submitted."""
        self.says("sbatch", "echo 7")
        executor, job = self.executor(**options), self.job()
        executor.start(job)
        return executor, job

    def polled(self, executor: SlurmExecutor, job: Job, most: int = 500):
        """How it ended, asked once a second."""
        for _ in range(most):
            self.passes(1.0)
            if ended := executor.poll(job):
                return ended
        raise AssertionError("it does not end")


@pytest.fixture
def slurm(tmp_path):
    return Scripted(tmp_path)


def test_a_job_goes_from_the_queue_to_its_end(slurm):
    """Its documents, and the last lines of what it printed without what a terminal would obey."""
    executor, job = slurm.started()
    slurm.says("scontrol", slurm.shows("PENDING", "Priority"), slurm.shows("RUNNING"), slurm.shows("COMPLETED"))
    (job.folder / "result-0.json").write_bytes(b"{}")
    (job.folder / "slurm.log").write_bytes(b"\x1b[2Jhello\n\xff\n")
    slurm.passes(1.0)
    assert (executor.poll(job), executor.waits(job)) == (None, "PENDING: Priority")
    slurm.passes(1.0)
    assert (executor.poll(job), executor.waits(job)) == (None, "")
    ended = slurm.polled(executor, job)
    assert (ended.how, ended.status, ended.results, ended.said) == ("ended", 0, (b"{}",), "[2Jhello\n\ufffd")


def test_slurm_is_asked_once_a_second_at_most(slurm):
    executor, job = slurm.started()
    slurm.says("scontrol", slurm.shows("RUNNING"))
    for _ in range(20):
        slurm.passes(0.1)
        executor.poll(job)
    assert slurm.asked("scontrol") <= 3


def test_a_lost_answer_is_no_second_submission(slurm):
    """sbatch's connection broke after the job was queued: it is found by its comment."""
    slurm.says("sbatch", AWAY)
    slurm.says("squeue", "true", f"echo '7|PENDING|paceline-trial:{slurm.mark}:job'")
    executor, job = slurm.executor(), slurm.job()
    executor.start(job)
    assert slurm.asked("sbatch") == 1
    slurm.says("scontrol", slurm.shows("PENDING", "Resources"))
    slurm.passes(1.0)
    assert executor.poll(job) is None


def test_slurm_that_stays_away_ends_the_trial_with_a_mend(slurm):
    """Not at once: for a while it is only told."""
    executor, job = slurm.started()
    slurm.says("scontrol", AWAY)
    slurm.passes(1.0)
    assert executor.poll(job) is None
    assert "Slurm does not answer" in executor.waits(job)
    with pytest.raises(ExecutorError, match="scontrol ping"):
        slurm.polled(executor, job)


def test_submitting_to_a_slurm_that_is_away_is_given_up_after_a_while(slurm):
    slurm.says("sbatch", AWAY)
    with pytest.raises(ExecutorError, match="for 60 s"):
        slurm.executor().start(slurm.job())
    assert slurm.asked("sbatch") > 2


@pytest.mark.parametrize(
    ("answer", "said"),
    [
        (
            "echo 'sbatch: error: Invalid partition specified: nope' >&2; exit 1",
            "Invalid partition.*; fix: let executor",
        ),
        ("echo Submitted", "sbatch printed no job number, but: Submitted"),
        ("head -c 3000000 /dev/zero | tr '\\0' x", "no job number"),
    ],
)
def test_a_refusal_is_told_in_slurm_s_words(slurm, answer, said):
    slurm.says("sbatch", answer)
    with pytest.raises(ExecutorError, match=said):
        slurm.executor().start(slurm.job())


def test_without_slurm_s_programs_it_says_where_to_run(slurm):
    (slurm.folder / "bin" / "squeue").unlink()
    slurm.beside = []
    with pytest.raises(ExecutorError, match="no squeue here"):
        slurm.executor().start(slurm.job())


def test_a_number_that_is_somebody_else_s_by_now_is_not_ours(slurm):
    """Slurm lost its state, and counts from one again: the job is forgotten, and nothing of the other's is ended."""
    executor, job = slurm.started()
    slurm.says("scontrol", slurm.shows("RUNNING", whose="paceline-trial:other:job"))
    ended = slurm.polled(executor, job)
    assert (ended.how, ended.status) == ("gone", None)
    executor.close()
    assert slurm.asked("scancel") == 0


def test_a_forgotten_job_has_left_its_status(slurm):
    """MinJobAge is over before it was asked for; the file may be seen late."""
    executor, job = slurm.started()
    slurm.says("scontrol", FORGOTTEN)
    for _ in range(5):
        slurm.passes(1.0)
        assert executor.poll(job) is None
    (job.folder / "slurm-status").write_text("3\n")
    slurm.passes(1.0)
    ended = executor.poll(job)
    assert ended is not None
    assert (ended.how, ended.status) == ("ended", 3)


def test_documents_that_come_late_are_waited_for_and_no_longer(slurm):
    """The folder lies on a disk of another machine; one that never comes is missing."""
    executor, job = slurm.started()
    slurm.says("scontrol", slurm.shows("COMPLETED"))
    slurm.passes(1.0)
    assert executor.poll(job) is None
    (job.folder / "result-0.json").write_bytes(b"{}")
    assert slurm.polled(executor, job).results == (b"{}",)
    executor, job = slurm.started(name="again")
    slurm.says("scontrol", slurm.shows("COMPLETED", whose=f"paceline-trial:{slurm.mark}:job"))
    assert slurm.polled(slurm.executor(), job).results in ((b"{}",), ())


@pytest.mark.parametrize("kind", ["link", "fifo", "long", "folder"])
def test_a_document_that_is_no_plain_file_is_left_out(slurm, kind):
    """The job writes them, and a job can write anything; nothing here waits for it."""
    executor, job = slurm.started()
    path = job.folder / "result-0.json"
    if kind == "link":
        path.symlink_to("/etc/passwd")
    elif kind == "fifo":
        os.mkfifo(path)
    elif kind == "folder":
        path.mkdir()
    else:
        path.write_bytes(b"x" * 2_000_000)
    slurm.says("scontrol", slurm.shows("FAILED", "NonZeroExitCode", "1:0"))
    assert slurm.polled(executor, job).results == ()


def test_a_job_over_its_limit_is_ended_here(slurm):
    """Slurm counts whole minutes; a limit that it keeps first is told alike."""
    executor, job = slurm.started()
    slurm.says("scontrol", *[slurm.shows("RUNNING", ran="00:01:41")] * 2, slurm.shows("CANCELLED"))
    ended = slurm.polled(executor, job)
    assert (ended.how, slurm.asked("scancel")) == ("killed", 1)
    assert "limit of 100 s" in ended.said
    executor, job = slurm.started()
    slurm.says("scontrol", slurm.shows("TIMEOUT", "TimeLimit"))
    assert slurm.polled(executor, job).how == "killed"


def test_a_job_that_never_begins_is_taken_back(slurm):
    executor, job = slurm.started()
    slurm.says("scontrol", *[slurm.shows("PENDING", "QOSMaxJobsPerUserLimit")] * 302, slurm.shows("CANCELLED"))
    ended = slurm.polled(executor, job)
    assert ended.how == "gone"
    assert "has not started in 300 s: PENDING: QOSMaxJobsPerUserLimit" in ended.said
    assert slurm.asked("scancel") == 1


def test_what_does_not_end_is_ended_by_force_and_else_named(slurm):
    executor, job = slurm.started()
    slurm.says("scontrol", slurm.shows("RUNNING"))
    with pytest.raises(ExecutorError, match="scancel 7"):
        executor.stop(job)
    asked = (slurm.folder / "asked").read_text()
    assert "scancel 7\n" in asked
    assert "scancel --signal=KILL --full 7\n" in asked


def test_ending_while_slurm_is_away_says_how_a_person_does_it(slurm):
    """After a minute at most, however patient the trial is."""
    executor, _ = slurm.started(patience_s=86_400)
    slurm.says("scontrol", AWAY)
    before_s = slurm.now_s
    with pytest.raises(ExecutorError, match="scancel --name=paceline-t-job"):
        executor.close()
    assert slurm.now_s - before_s <= 60


def test_a_trial_that_goes_on_finds_its_job(slurm):
    """By the number in its folder; without that file by its comment; a job of another command is not its own."""
    slurm.started()
    slurm.says("scontrol", slurm.shows("RUNNING"))
    slurm.executor().start(slurm.job())
    assert slurm.asked("sbatch") == 1
    (slurm.job().folder / "slurm-job").unlink()
    slurm.says("squeue", f"echo '7|RUNNING|paceline-trial:{slurm.mark}:job'")
    slurm.executor().start(slurm.job())
    assert slurm.asked("sbatch") == 1
    slurm.says("squeue", "true")
    told = json.loads((slurm.job().folder / "job.json").read_text())
    (slurm.job().folder / "job.json").write_text(json.dumps({**told, "command": ["other"]}))
    slurm.executor().start(slurm.job())
    assert slurm.asked("sbatch") == 2


@pytest.mark.parametrize(("answer", "again"), [("CANCELLED", 2), ("FAILED", 1), ("COMPLETED", 1)])
def test_a_job_that_was_cancelled_is_submitted_again(slurm, answer, again):
    """Ctrl-C ended it, and the trial goes on; one that ended by itself meanwhile counts."""
    slurm.started()
    slurm.says("scontrol", slurm.shows(answer))
    slurm.executor().start(slurm.job())
    assert slurm.asked("sbatch") == again


def test_close_ends_every_job_and_asks_them_all_at_once(slurm):
    slurm.says("sbatch", "echo 7", "echo 8")
    executor = slurm.executor()
    jobs = [Job(name, ("true",), slurm.folder / name, 5, 100) for name in ("a", "b")]
    for job in jobs:
        executor.start(job)
    shows = {name: slurm.shows("{}", whose=f"paceline-trial:{slurm.mark}:{name}") for name in ("a", "b")}
    either = f'case "$*" in *7) {shows["a"]};; *8) {shows["b"]};; esac'
    slurm.says("scontrol", *(either.replace("{}", state) for state in ("RUNNING", "RUNNING", "CANCELLED")))
    executor.close()
    asked = [line for line in (slurm.folder / "asked").read_text().splitlines() if line.startswith("scancel")]
    assert asked == ["scancel 7", "scancel 8"]
    executor.close()
    assert slurm.asked("scancel") == 2, "they have ended"
