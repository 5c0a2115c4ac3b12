"""Slurm's accounting as rows: what sacct of Slurm 22.05 said of jobs of every kind, and what nobody should believe."""

from collections import Counter
from pathlib import Path

import pytest

from archive.sources.slurm_jobs import FIELDS, Job, jobs_of

#: Said by sacct 22.05.8 with slurmdbd, on a cluster of two nodes with a GPU each.
DATA = Path(__file__).parent / "data"
JOBS, NAMES = (DATA / f"sacct-22.05-{what}.txt" for what in ("jobs", "names"))
WHOLE = "17|17|ada|nlp|gpu|COMPLETED|0:0|1000|1060|2000|2|n[1-2]|cpu=8,gres/gpu=16"


def line(**changes: str) -> str:
    """A job's line, one field changed."""
    held = dict(zip(FIELDS, WHOLE.split("|"), strict=True))
    return "|".join({**held, **changes}.values())


def only(text: str, names: str = "") -> Job:
    [job] = jobs_of(text, names, "c", Counter())
    return job


@pytest.fixture
def jobs() -> dict[str, Job]:
    """By id, what was said."""
    left_out: Counter[str] = Counter()
    told = jobs_of(JOBS.read_text(), NAMES.read_text(), "c", left_out)
    assert not left_out
    return {job["job"]: job for job in told}


def test_a_job_is_told_with_its_times_nodes_and_gpus(jobs: dict[str, Job]):
    assert jobs["1"] == {
        "cluster": "c", "job": "1", "slurm_job_id": "1", "array_job_id": None, "name": "ok", "user_name": "root",
        "account": "root", "partition": "all", "state": "COMPLETED", "exit_status": 0, "exit_signal": 0,
        "submit_s": 1795631107.0, "start_s": 1795631110.0, "end_s": 1795631111.0, "wait_s": 3.0, "node_count": 2,
        "nodes": "n[1-2]", "gpus": 2,
    }  # fmt: skip


def test_arrays_and_heterogeneous_jobs_have_the_ids_that_their_ranks_see(jobs: dict[str, Job]):
    assert [(jobs[name]["slurm_job_id"], jobs[name]["array_job_id"]) for name in ("3_3", "3_4")] == [
        ("11", "3"), ("3", "3"),
    ]  # fmt: skip
    assert jobs["7"]["name"] == jobs["8"]["name"] == "het"


def test_how_a_job_ended_is_its_status_its_signal_or_that_it_runs(jobs: dict[str, Job]):
    told = {name: (jobs[name]["state"], jobs[name]["exit_status"], jobs[name]["exit_signal"]) for name in "256"}
    assert told == {"2": ("FAILED", 3, 0), "5": ("FAILED", 0, 9), "6": ("RUNNING", 0, 0)}
    assert jobs["6"]["end_s"] is None
    assert only(line(State="CANCELLED by 1000"))["state"] == "CANCELLED"


def test_a_job_that_has_not_started_is_none(jobs: dict[str, Job]):
    assert not jobs.keys() & {"9", "10", "13", "14"}
    assert jobs_of(line(Start="None", State="CANCELLED by 0"), "", "c", Counter()) == []


def test_a_name_is_its_users_and_makes_no_job(jobs: dict[str, Job]):
    # Job 4 is called "new", then, on a line of its own, "999|root"; job 2 is called "a|b".
    assert "999|root" in NAMES.read_text().splitlines()
    assert "999" not in jobs
    assert (jobs["4"]["name"], jobs["2"]["name"]) == ("new", "a|b")


def test_a_name_that_speaks_for_another_job_leaves_that_one_without():
    text, names = f"{line()}\n{line(JobIDRaw='18', JobID='18')}", "17|mine\n18|x\n17|evil\n"
    assert [job["name"] for job in jobs_of(text, names, "c", Counter())] == [None, "x"]


def test_the_last_of_two_lines_of_a_job_counts():
    assert only(f"{line(State='REQUEUED')}\n{line(State='RUNNING')}")["state"] == "RUNNING"


@pytest.mark.parametrize(
    "text",
    [
        "sacct: error: slurmdbd is away", line() + "|more", line(JobIDRaw="17.batch"), line(JobIDRaw="x"),
        line(Submit="2026-11-25T10:00:00"), line(Submit="9" * 30), line(Submit="-5"), line(Submit="٣"),
    ],
)  # fmt: skip
def test_what_is_no_job_is_counted(text: str):
    left_out: Counter[str] = Counter()
    assert jobs_of(f"{text}\n{line()}" if text else line(), "", "c", left_out)[0]["job"] == "17"
    assert left_out.total() == 1


def test_numbers_and_words_from_outside_are_bounded():
    job = only(
        line(User="u" * 5000, NNodes="9" * 40, ExitCode="x:-1", AllocTRES="gres/gpu=" + "9" * 40), "17|" + "n" * 9000
    )
    assert (len(job["user_name"]), len(job["name"]), job["node_count"], job["exit_status"], job["gpus"]) == (
        200, 200, None, None, None,
    )  # fmt: skip
    assert only(line(Start="900"))["wait_s"] == 0.0  # A clock set back.
