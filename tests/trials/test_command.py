"""The command as people type it, where nothing is to be started."""

import json
import os

import pytest

from trials.__main__ import main
from trials.executor import Job
from trials.executors import made
from trials.journal import NAME
from trials.spec import read

COMMAND = ["--", "train.py", "--batch", "{batch_size}"]
SPEC = "name: t\nseconds: 5\nrungs: 1\nrepeats: 1\nplacements: {ranks: 1, batch_size: [8, 9]}\nreads: [ranks]\n"


@pytest.fixture
def typed(tmp_path):
    """Runs the command on a spec with the folder beside it."""

    def run(*words, spec=SPEC, command=COMMAND):
        (tmp_path / "trial.yaml").write_text(spec)
        return main([str(tmp_path / "trial.yaml"), "--folder", str(tmp_path / "state"), *words, *command])

    return run


def test_unasked_nothing_is_started(typed, tmp_path, capsys):
    """The placements, the plan, the first job of each; and no folder is made."""
    for words in ((), ("--dry-run",)):
        assert typed(*words) == 0
        said = capsys.readouterr().out
        assert "2 placements\n    1  batch_size=8\n    2  batch_size=9\n" in said
        assert "rung 1: 2 placements, 1 run of 5 s each" in said
        assert "PACELINE_TRIAL_BATCH_SIZE=8" in said
        assert str(tmp_path / "state" / "r0-n0-p1-t0") in said
        assert said.endswith("-- train.py --batch 9\n\nnothing was started; --run does it\n")
    assert not (tmp_path / "state").exists()


def test_what_is_known_so_far_is_json(typed, capsys):
    """Of a trial that has not begun: its placements, without a winner."""
    assert typed("--json") == 0
    found = json.loads(capsys.readouterr().out)

    assert (found["trial"], found["complete"], found["winners"]) == ("t", False, [])
    assert [row["placement"] for row in found["placements"]] == ["batch_size=8", "batch_size=9"]


@pytest.mark.parametrize(
    ("spec", "command", "status", "said"),
    [
        (SPEC, [], 2, "no command; try: paceline trial SPEC.yaml -- torchrun"),
        (SPEC, ["--"], 2, "no command"),
        (SPEC, ["--", "train.py"], 2, "placements.batch_size: nothing in the command uses it"),
        ("name: [", COMMAND, 2, "trial.yaml, line 1: "),
        (SPEC.replace("ranks: 1", "ranks: 1, cpus: 0-4095"), COMMAND, 2, "no placement is possible"),
        (SPEC + "executor: {slurm: {colour: red}}\n", COMMAND, 1, "colour"),
    ],
)
def test_what_cannot_be_is_said_in_the_last_line(typed, capsys, spec, command, status, said):
    """With the cause."""
    assert typed("--dry-run", spec=spec, command=command) == status
    assert said in capsys.readouterr().err.splitlines()[-1]


def test_impossible_ones_are_told_where_it_runs_at_once(typed, capsys):
    """None is left, so nothing is started."""
    assert typed("--run", spec=SPEC.replace("ranks: 1", "ranks: 1, cpus: 0-4095")) == 2
    assert "impossible: batch_size=8: CPU " in capsys.readouterr().err


@pytest.mark.parametrize("content", [None, b"\xff\xfe"])
def test_a_spec_that_cannot_be_read(tmp_path, capsys, content):
    """It is not there, or no text."""
    if content is not None:
        (tmp_path / "trial.yaml").write_bytes(content)
    assert main([str(tmp_path / "trial.yaml"), *COMMAND]) == 2
    assert "trial.yaml" in capsys.readouterr().err


def test_anothers_journal_is_refused(typed, tmp_path, capsys):
    """Nothing is started, and the mend is said."""
    (tmp_path / "state").mkdir()
    (tmp_path / "state" / NAME).write_text('{"layout":1,"trial":"t","fingerprint":"another"}\n')
    for words in (["--json"], ["--run"]):
        assert typed(*words) == 1
        assert "--fresh throws it away" in capsys.readouterr().err


def test_runs_that_were_never_asked_for_are_refused(typed, tmp_path, capsys, monkeypatch):
    """Somebody has changed the journal."""
    monkeypatch.setattr("trials.__main__._fingerprint", lambda *_: "f")
    (tmp_path / "state").mkdir()
    head = '{"layout":1,"trial":"t","fingerprint":"f"}\n'
    run = '{"rung":3,"repeat":0,"placement":1,"attempt":0,"outcome":"crashed"}\n'
    (tmp_path / "state" / NAME).write_text(head + run)
    for words in (["--json"], ["--run"]):
        assert typed(*words) == 1
        refused = "the journal does not fit this trial (r3-n0-p1-t0 was not asked for); start again with --fresh"
        assert refused in capsys.readouterr().err


def test_the_folder_is_the_users(tmp_path, monkeypatch, capsys):
    """Where nobody names another."""
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path / "home"))
    (tmp_path / "trial.yaml").write_text(SPEC)
    assert main([str(tmp_path / "trial.yaml"), *COMMAND]) == 0
    assert f"{tmp_path}/home/paceline/trials/t/r0-n0-p1-t0" in capsys.readouterr().out


def test_help_does_not_show_what_jobs_type(capsys):
    """``--inside`` is for them alone."""
    with pytest.raises(SystemExit):
        main(["--help"])
    assert "inside" not in capsys.readouterr().out


def test_a_local_job_is_shown_as_it_would_run(tmp_path):
    """With its variables, and the CPUs that it is held to."""
    spec = read("name: t\nseconds: 5\nplacements: {}")
    executor = made(spec, tmp_path)
    job = Job("j", ("a b", "{port}"), tmp_path, 1, 1, gpus=(1, 2), cpus=(0, 1), environ={"X": "y z"})
    assert executor.manifest(job) == (
        "CUDA_DEVICE_ORDER=PCI_BUS_ID CUDA_VISIBLE_DEVICES=1,2 X='y z' taskset -c 0-1 'a b' PORT"
    )
    assert os.listdir(tmp_path) == []


def test_where_nothing_is_possible_no_plan_is_said(typed, capsys):
    """The reasons, and that none is left: neither "0 placements" nor a time."""
    assert typed("--run", spec=SPEC.replace("ranks: 1", "ranks: 1, cpus: 0-4095")) == 2
    assert all(
        "impossible: " in line or "no placement is possible" in line for line in capsys.readouterr().err.splitlines()
    )
