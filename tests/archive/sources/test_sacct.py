"""Slurm's accounting into the archive: newest rows, no repetition, labels of jobs, and a program that misbehaves."""

import os
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from archive.addition import SourceError
from archive.sources import sacct
from archive.sources.sacct import Asked, Sacct, said
from archive.writer import Writer
from paceline.history.store import Store
from tests.archive.conftest import commit
from tests.archive.sources.conftest import committed
from tests.derived_events import described

Ask = Callable[..., list[tuple[Any, ...]]]
JOB = "17|17|ada|nlp|gpu|RUNNING|0:0|1000|1060|Unknown|2|n[1-2]|cpu=8,gres/gpu=16"
NOW_S = 1.7e9


@pytest.fixture
def slurm(tmp_path: Path, store: Store) -> Callable[[str, str], Sacct]:
    """A source whose sacct prints these jobs and names, and what it was called with to ``called``."""

    def made(jobs: str, names: str) -> Sacct:
        for what, text in (("jobs", jobs), ("names", names)):
            (tmp_path / what).write_text(text)
        program = tmp_path / "sacct"
        program.write_text(
            f'#!/bin/sh\necho "$SLURM_TIME_FORMAT $TZ $*" >> {tmp_path}/called\n'
            f'case "$*" in *JobName) cat {tmp_path}/names;; *) cat {tmp_path}/jobs;; esac\n'
        )
        program.chmod(0o755)
        return Sacct(store, "c", Asked(), {"PATH": f"{tmp_path}{os.pathsep}{os.environ['PATH']}"})

    return made


@pytest.mark.slow
def test_the_newest_row_of_a_job_wins_and_what_has_not_changed_is_not_told_again(
    slurm: Callable[[str, str], Sacct], store: Store, ask: Ask, tmp_path: Path
):
    writer, ended = Writer(store), JOB.replace("RUNNING", "TIMEOUT").replace("Unknown", "2000")
    other = JOB.replace("17", "18")
    assert committed(writer, slurm(f"{JOB}\n{other}\n", "17|train\n").turns(NOW_S)) == 2
    assert committed(Writer(store), slurm(f"{JOB}\n{other}\n", "17|train\n").turns(NOW_S + 300)) == 0
    assert committed(writer, slurm(f"{ended}\n{other}\n", "17|train\n").turns(NOW_S + 600)) == 1
    # It no longer tells of a job that is older than what it is asked for.
    assert committed(writer, slurm("", "").turns(NOW_S + 900)) == 0
    assert ask("SELECT count(*) FROM slurm_job") == [(3,)]
    assert ask("SELECT job, name, state, end_s, gpus FROM slurm_jobs ORDER BY job") == [
        ("17", "train", "TIMEOUT", 2000.0, 16), ("18", None, "RUNNING", None, 16),
    ]  # fmt: skip
    called = (tmp_path / "called").read_text().splitlines()
    options = "%s UTC --allocations --allusers --noheader --parsable2 --starttime=now-168hours --format="
    assert called[0].startswith(options + "JobIDRaw,JobID,User")
    assert called[1] == options + "JobIDRaw,JobName"


@pytest.mark.slow
def test_jobs_are_labelled_where_their_number_is_slurms(slurm: Callable[[str, str], Sacct], store: Store, ask: Ask):
    writer = Writer(store)
    commit(
        writer,
        [
            described(job="17", started_s=1100.0),
            described(job="called", labels={"slurm_job_id": "17"}),
            described(job="17", attempt=1, started_s=900.0),  # Not by Slurm: it began before that job did.
            described(job="17", attempt=2, labels={"slurm_job_id": "18"}),
            described(job="17", cluster="other", started_s=1100.0),
            described(job="pods", labels={"kubernetes_namespace": "ml", "team": "it's"}),
        ],
    )
    committed(writer, slurm(f"{JOB}\n", "17|train\n").turns(NOW_S))
    told = ask('SELECT job, attempt, user_name, account, "partition", slurm_state, namespace FROM jobs '
               "WHERE cluster = 'c' ORDER BY ALL")  # fmt: skip
    nobody = (None, None, None, None)
    assert told == [
        ("17", 0, "ada", "nlp", "gpu", "RUNNING", None), ("17", 1, *nobody, None), ("17", 2, *nobody, None),
        ("called", 0, "ada", "nlp", "gpu", "RUNNING", None), ("pods", 0, *nobody, "ml"),
    ]  # fmt: skip
    labels = ask("SELECT label, value FROM job_labels WHERE job = 'pods' ORDER BY label")
    assert labels == [("kubernetes_namespace", "ml"), ("team", "it's")]
    assert ask("SELECT count(*) FROM jobs WHERE cluster = 'other' AND user_name IS NULL") == [(1,)]


def program(folder: Path, text: str) -> dict[str, str]:
    (folder / "sacct").write_text(f"#!/bin/sh\n{text}\n")
    (folder / "sacct").chmod(0o755)
    return {"PATH": f"{folder}{os.pathsep}{os.environ['PATH']}"}


@pytest.mark.slow
@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("echo 'slurmdbd: connection refused' >&2; exit 1", "sacct failed with status 1: slurmdbd: connection refused"),
        ("exit 3", "sacct failed with status 3: nothing"),
        ("exec sleep 600", "sacct did not end within 0.2 s"),
        ("exec >/dev/null 2>&1; exec sleep 600", "sacct did not end within 0.2 s"),
        ("exec yes", "sacct prints more than 1,000,000 bytes; fix: fewer --sacct-days"),
    ],
)
def test_a_program_that_fails_hangs_or_babbles_is_told_and_ended(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, text: str, words: str
):
    monkeypatch.setattr(sacct, "ANSWER_S", 60.0 if "yes" in text or "exit" in text else 0.2)
    monkeypatch.setattr(sacct, "MOST_BYTES", 1_000_000)
    with pytest.raises(SourceError, match=words):
        said(["sacct"], program(tmp_path, text))


def test_without_sacct_the_mend_is_told(tmp_path: Path):
    with pytest.raises(SourceError, match="no sacct here; fix: run the archive where Slurm's clients are"):
        said(["sacct"], {"PATH": str(tmp_path)})
