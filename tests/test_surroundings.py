"""Tests do not depend on who starts them: signals, environment, home, umask and folder are put right first."""

import json
import os
import re
import signal
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parent.parent
#: What a program started by a test is given.
INHERITED = """
import json, os, time
state = dict(line.split(":", 1) for line in open("/proc/self/status"))
ignored, blocked, umask = int(state["SigIgn"], 16), int(state["SigBlk"], 16), os.umask(0)
print(json.dumps([ignored, blocked, umask, time.tzname[0], dict(os.environ)]))
"""
#: Tests that leave something of the process changed, and one that puts it back.
LEAVING = """
import os, signal

def test_a_variable():
    os.environ["LEFT"] = "1"

def test_a_folder():
    os.chdir("/")

def test_a_handler():
    signal.signal(signal.SIGTERM, signal.SIG_IGN)

def test_nothing(monkeypatch):
    monkeypatch.setenv("LEFT", "2")
"""
#: Signals that Python ignores in every process of its own.
PYTHONS = sum(1 << number - 1 for number in (signal.SIGPIPE, signal.SIGXFSZ))
#: Signals that the C library keeps to itself, and no program can set; GNU make hands them on as ignored.
LIBRARYS = sum(1 << number - 1 for number in set(range(1, signal.SIGRTMAX + 1)) - signal.valid_signals())


@pytest.mark.slow
def test_a_program_inherits_nothing_of_the_session() -> None:
    """No signal is ignored or blocked, no setting of ours or of a scheduler is there, and home is not the user's."""
    done = subprocess.run([sys.executable, "-c", INHERITED], capture_output=True, check=True)
    ignored, blocked, umask, zone, environ = json.loads(done.stdout)
    assert (ignored & ~PYTHONS & ~LIBRARYS, blocked) == (0, 0)
    assert (umask, zone) == (0o022, "UTC")
    foreign = {name: value for name, value in environ.items() if name.startswith(("PACELINE_", "SLURM_", "LC_"))}
    ours = {"PACELINE_BROKERS": "none", "PACELINE_PATIENCE": "20", "PACELINE_SPOOL_DIR": f"{environ['HOME']}/spool"}
    assert foreign == ours
    assert not (Path(environ["HOME"]) / ".streamlit").exists()


@pytest.mark.slow
def test_so_it_is_in_hostile_surroundings(tmp_path: Path) -> None:
    """In the background of a shell that is not interactive, under nohup, in a job of Slurm, in another folder."""
    hostile = {"PACELINE_BROKERS": "nowhere", "SLURM_JOB_ID": "7", "LC_ALL": "tr_TR.UTF-8", "TZ": "Asia/Kathmandu"}
    hostile |= {"HOME": str(tmp_path), "PYTHONWARNINGS": "error"}
    (tmp_path / ".streamlit").mkdir()
    this = f"{__file__}::{test_a_program_inherits_nothing_of_the_session.__name__}"
    pytest = [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", "-c", str(ROOT / "pyproject.toml"), this]
    shell = ["sh", "-c", 'trap "" INT TERM HUP QUIT USR1; umask 077; cd /; exec "$@"', "sh", *pytest]
    done = subprocess.run(shell, env={**os.environ, **hostile}, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout + done.stderr


@pytest.mark.slow
def test_what_a_test_leaves_behind_fails_it(tmp_path: Path) -> None:
    """Variables, folder and signals: another test would depend on the order."""
    (tmp_path / "test_it.py").write_text(LEAVING)
    command = [sys.executable, "-m", "pytest", "-v", "-p", "tests.conftest", f"--rootdir={tmp_path}", "-c", os.devnull]
    environ = {**os.environ, "PYTHONPATH": str(ROOT)}
    done = subprocess.run([*command, str(tmp_path)], env=environ, cwd=ROOT, capture_output=True, text=True, check=False)
    assert re.findall(r"::test_(\w+) ERROR", done.stdout) == ["a_variable", "a_folder", "a_handler"]
