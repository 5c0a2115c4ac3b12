"""Real ends of three gloo ranks: the one that ended first is named with its line, and nobody else.

Two others are enough to be told from it, and an import of PyTorch a rank is most of what a case takes: ranks share one
where their end is no matter of how Python ends, or of how it began.
"""

import os
import signal
import socket
import subprocess
import sys
from pathlib import Path

import pytest

from experiments.analyzed import findings_in
from tests.kernel_release import EXITS_STAY
from tests.patience import PATIENCE_S

SCRIPT = Path(__file__).parent / "scripts" / "dying.py"
TORCHRUN = [sys.executable, "-m", "torch.distributed.run", "--standalone", "--nproc-per-node", "3"]

pytestmark = [pytest.mark.e2e, pytest.mark.xdist_group("pytorch")]
#: As users start ranks: each imports PyTorch.
USUAL = ["torchrun", "spawn"]
#: The same two launchers, forking: torchrun's agent with a function, and multiprocessing.
FORKING = ["agent", "fork"]


def command_of(case, launcher, folder):
    train = [*TORCHRUN, str(SCRIPT), case] if launcher == "torchrun" else [sys.executable, str(SCRIPT), case, launcher]
    record = ["--brokers", "none", "--record", str(folder / "run.jsonl")]
    return [sys.executable, "-m", "paceline", "run", *record, "--", *train]


def environ():
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        return {**os.environ, "OMP_NUM_THREADS": "1", "DYING_PORT": str(free.getsockname()[1])}


def analysed(folder):
    """The last revision of the finding in the recording; None where there is none."""
    findings = findings_in(folder / "run.jsonl")
    return ([finding for finding in findings if finding["kind"] == "died"] or [None])[-1]


def died(case, launcher, folder):
    """The finding on a run in which ``case`` happens, and the panel's words."""
    done = subprocess.run(
        command_of(case, launcher, folder), env=environ(), capture_output=True, text=True, timeout=500
    )
    assert done.returncode != 0
    found = analysed(folder)
    assert found is not None, done.stderr[-3000:]
    assert found["state"] == "confirmed"
    row = next(line for line in done.stderr.splitlines() if line.startswith("  Died     "))
    assert row.removeprefix("  Died     ") in found["summary"], "the panel says the same as the recording"
    return found


@pytest.mark.parametrize(
    ("launcher", "case", "error", "function"),
    [
        *((launcher, "exception", "ValueError", "fail") for launcher in USUAL),
        *((launcher, "finally", "ValueError", "fail") for launcher in ("torchrun", "fork")),
        *((launcher, "memory", "RuntimeError", "allocate") for launcher in ("torchrun", "fork")),
        *((launcher, "thread", "ValueError", "fail") for launcher in ("torchrun", "fork")),
    ],
)
def test_the_rank_with_an_exception_of_its_own_is_named_with_its_line(tmp_path, launcher, case, error, function):
    """Also where it destroys the group first, or a thread of it raises and the rank leaves."""
    found = died(case, launcher, tmp_path)
    assert found["ranks"] == [2]
    assert error in found["summary"]
    assert "dying.py:" in found["line"]
    assert found["line"].endswith(f" {function}")
    assert set(found["victims"]) <= {0, 1}


@pytest.mark.parametrize(
    ("launcher", "case", "words"),
    [
        *((launcher, "kill", "SIGKILL") for launcher in USUAL),
        *((launcher, "segfault", "SIGSEGV") for launcher in FORKING),
        *((launcher, "exit", "exit status 0") for launcher in ("torchrun", "fork")),
    ],
)
def test_a_rank_that_says_nothing_is_named(tmp_path, launcher, case, words):
    """By its exit, as the kernel tells it: also to who asks after the parent, as multiprocessing is faster."""
    found = died(case, launcher, tmp_path)
    if launcher in ("spawn", "fork") and not EXITS_STAY:
        assert found["ranks"] in ([2], []), "before Linux 6.15 it may be lost, and nobody else is named"
        return
    assert found["ranks"] == [2]
    assert words in found["summary"]


@pytest.mark.parametrize("launcher", ["torchrun", "fork"])
def test_the_same_exception_at_all_ranks_names_nobody(tmp_path, launcher):
    found = died("all", launcher, tmp_path)
    assert found["ranks"] == []
    assert found["line"].endswith(" fail")


@pytest.mark.parametrize("launcher", FORKING)
@pytest.mark.parametrize("sent", [signal.SIGINT, signal.SIGTERM])
def test_a_job_that_is_ended_from_outside_names_nobody(tmp_path, launcher, sent, until):
    """Ctrl-C reaches the whole group of processes, SIGTERM those of the launcher."""
    running = subprocess.Popen(command_of("interrupt", launcher, tmp_path), env=environ(), start_new_session=True)
    try:
        record = tmp_path / "run.jsonl"
        until(lambda: record.exists() and "paceline.op" in record.read_text(errors="replace"))
        os.killpg(running.pid, sent)
        running.wait(PATIENCE_S)
    finally:
        if running.poll() is None:
            os.killpg(running.pid, signal.SIGKILL)
    found = analysed(tmp_path)
    assert found is None or found["ranks"] == []


def test_a_run_that_ends_well_has_no_finding(tmp_path):
    """Nor does it print anything but the panel."""
    done = subprocess.run(command_of("none", "agent", tmp_path), env=environ(), capture_output=True, timeout=500)
    assert done.returncode == 0
    assert done.stdout == b""
    assert analysed(tmp_path) is None
