"""Slurm's task prolog and epilog: what tasks see of them, and that they never stand in a task's way."""

import contextlib
import os
import shutil
import socket as sockets
import subprocess
import sys
from pathlib import Path

import pytest

from paceline.training.attempt_note import AttemptNote, Word
from tests.patience import PATIENCE_S

pytestmark = pytest.mark.slow

ROOT = Path(__file__).parents[2]
SCRIPTS = ROOT / "deploy" / "slurm"
BOOTSTRAP = ROOT / "paceline" / "training" / "bootstrap"
STEP = {"SLURM_JOB_ID": "71", "SLURM_STEP_ID": "0", "SLURM_LOCALID": "1", "SLURMD_NODENAME": "n1"}
ASKED = STEP | {"PACELINE_WATCH": "1"}


class Scripts:
    """The two scripts and task.conf in a folder, as an administrator puts them there."""

    def __init__(self, folder: Path) -> None:
        self.folder, self.runtime = folder / "scripts", folder / "run"
        self.runtime.mkdir()
        shutil.copytree(SCRIPTS, self.folder)
        self.configure()
        self.ranks = self.runtime / f"paceline-{os.getuid()}"

    def configure(self, python: str = sys.executable, bootstrap: Path = BOOTSTRAP, more: str = "") -> None:
        (self.folder / "task.conf").write_text(f"python={python}\nbootstrap={bootstrap}\n{more}\n")

    def run(self, name: str, environ: dict[str, str]) -> list[str]:
        """What a script prints; it must end with 0."""
        own = {"PATH": os.environ["PATH"], "XDG_RUNTIME_DIR": str(self.runtime), "PACELINE_BROKERS": "none"}
        words = [str(self.folder / f"task-{name}.sh")]
        done = subprocess.run(words, env=own | environ, capture_output=True, text=True, timeout=PATIENCE_S, check=False)
        assert done.returncode == 0, done.stderr
        return done.stdout.splitlines()


@pytest.fixture
def scripts(tmp_path):
    return Scripts(tmp_path)


def test_shells_find_nothing_wrong():
    found = shutil.which("shellcheck")
    if found is None:
        pytest.skip("no shellcheck here; fix: sudo apt-get install shellcheck")
    done = subprocess.run([found, *map(str, SCRIPTS.glob("*.sh"))], capture_output=True, text=True, check=False)
    assert done.stdout == ""


def test_a_task_that_asks_is_timed(scripts):
    """Its Python finds the probe before what it had on its path, and the probe the sidecar of this step and node."""
    told = scripts.run("prolog", ASKED | {"PYTHONPATH": "/mine"})
    socket = scripts.ranks / "71.0.0.n1"
    assert told == [f"export PACELINE_SOCKET={socket}", f"export PYTHONPATH={BOOTSTRAP}:/mine"]


def test_a_runtime_folder_that_only_the_login_node_has_is_passed_over(scripts):
    """sbatch passes its environment on: the socket is in /tmp then."""
    (socket, _) = scripts.run("prolog", ASKED | {"XDG_RUNTIME_DIR": "/run/user/nobody-here", "SLURM_JOB_ID": "none"})
    folder = Path(f"/tmp/paceline-{os.getuid()}")
    assert socket == f"export PACELINE_SOCKET={folder}/none.0.0.n1"
    (folder / "none.0.0.n1.task.1").unlink()
    with contextlib.suppress(OSError):  # Others may have theirs there.
        folder.rmdir()


@pytest.mark.parametrize(
    "environ",
    [
        STEP,
        STEP | {"PACELINE_WATCH": "0"},
        {"SLURM_JOB_ID": "71", "PACELINE_WATCH": "1"},
    ],
    ids=["not asked", "asked not to", "a batch script"],
)
def test_other_tasks_are_left_alone(scripts, environ):
    assert scripts.run("prolog", environ) == []
    assert not scripts.ranks.exists()


def test_a_task_that_paceline_run_wraps_is_left_to_it(scripts, tmp_path):
    """Its socket is there; a name that sbatch or salloc passed on from another job leads nowhere, and says nothing."""
    wrapped = str(tmp_path / "s")
    assert len(scripts.run("prolog", ASKED | {"PACELINE_SOCKET": wrapped})) == 2
    with sockets.socket(sockets.AF_UNIX) as listening:
        listening.bind(wrapped)
        assert scripts.run("prolog", ASKED | {"PACELINE_SOCKET": wrapped}) == []


def test_an_administrator_may_have_all_tasks_timed_and_a_user_not_his_own(scripts):
    scripts.configure(more="PACELINE_WATCH=1")
    assert len(scripts.run("prolog", STEP)) == 2
    assert scripts.run("prolog", STEP | {"PACELINE_WATCH": "0"}) == []


def test_a_node_without_paceline_runs_its_tasks_untimed(scripts):
    """Nothing of it, no settings, or settings that are no shell: nobody's task fails."""
    scripts.configure(python="/nowhere/bin/python")
    assert scripts.run("prolog", ASKED) == []
    scripts.configure(bootstrap=Path("/nowhere"))
    assert scripts.run("prolog", ASKED) == []
    (scripts.folder / "task.conf").write_text("if then ((\n")
    assert scripts.run("prolog", ASKED) == []
    (scripts.folder / "task.conf").unlink()
    assert scripts.run("prolog", ASKED) == []


@pytest.mark.parametrize("made", ["open to others", "a link", "a file"])
def test_a_folder_that_is_not_ours_alone_is_refused(scripts, tmp_path, made):
    """Whoever could put a socket there would hear what ranks say."""
    if made == "open to others":
        scripts.ranks.mkdir()
        scripts.ranks.chmod(0o755)
    elif made == "a link":
        (tmp_path / "elsewhere").mkdir(mode=0o700)
        scripts.ranks.symlink_to(tmp_path / "elsewhere")
    else:
        scripts.ranks.touch()
    assert scripts.run("prolog", ASKED) == []


def test_no_task_waits_for_a_sidecar_that_is_slow_to_start(scripts, tmp_path, until):
    """The prolog ends while it still starts; that the process is one of its own by then, Slurm asks for."""
    slow = tmp_path / "slow"
    slow.write_text('#!/bin/sh\nexec sleep 600 >"$0.held"\n')
    slow.chmod(0o755)
    scripts.configure(python=str(slow))
    scripts.run("prolog", ASKED | {"SLURM_LOCALID": "0"})
    written = scripts.ranks / "71.0.0.n1.pid"
    pid = int(until(lambda: written.exists() and written.read_text()))
    assert os.getsid(pid) == pid
    scripts.run("epilog", ASKED | {"SLURM_LOCALID": "0"})
    assert list(scripts.ranks.iterdir()) == []


@pytest.mark.e2e
def test_the_last_task_of_a_step_on_its_node_ends_the_sidecar(scripts, until):
    """Those that end before leave it to the others; nothing of it stays, nor what its ranks noted."""
    first, second = ASKED | {"SLURM_LOCALID": "0"}, ASKED
    for task in (first, second):
        scripts.run("prolog", task)
    socket = scripts.ranks / "71.0.0.n1"
    until(socket.exists)
    AttemptNote(str(socket), "71").write(Word(0, "rank-0", 1))
    pid = int(Path(f"{socket}.pid").read_text())
    scripts.run("epilog", first)
    assert Path(f"/proc/{pid}/cmdline").read_bytes() != b""
    scripts.run("epilog", second)
    assert list(scripts.ranks.iterdir()) == []


def test_an_epilog_whose_prolog_did_nothing_does_nothing(scripts):
    assert scripts.run("epilog", ASKED) == []
    assert scripts.run("epilog", {}) == []
