"""Jobs on this machine: on their devices, ended at their limit, and nothing left of what came before."""

import os
import subprocess
import sys

import pytest

from trials import leftovers
from trials.executor import ExecutorError, Job
from trials.local import LOG, LocalExecutor

pytestmark = pytest.mark.e2e


@pytest.fixture
def executor(tmp_path):
    made = LocalExecutor({"folder": str(tmp_path)})
    yield made
    made.close()
    assert leftovers.marked(made._mark) == []


@pytest.fixture
def ended(executor, until):
    """Runs a job to its end."""

    def run(job):
        executor.start(job)
        return until(lambda: executor.poll(job))

    return run


def job(tmp_path, code, limit_s=600.0, **changed):
    return Job("r0-n0-p1-t0", (sys.executable, "-c", code, "{port}"), tmp_path / "j", 1, limit_s, **changed)


def test_a_job_has_its_devices_and_its_variables(tmp_path, ended):
    """Those of the machine that it does not name stay as they are."""
    first = min(os.sched_getaffinity(0))
    code = (
        "import os, sys; print(os.sched_getaffinity(0), os.environ['CUDA_VISIBLE_DEVICES'], os.environ['X'], sys.argv)"
    )
    found = ended(job(tmp_path, code, cpus=(first,), gpus=(3, 1), environ={"X": "a b"}))

    assert (found.how, found.status, found.results) == ("ended", 0, ())
    assert found.said.startswith(f"{{{first}}} 3,1 a b ['-c', '")
    assert found.said.split("'")[-2].isdigit()


def test_how_it_ends_is_told_with_its_last_lines(tmp_path, ended):
    """And the documents that it wrote, if they are files."""
    (tmp_path / "j").mkdir()
    (tmp_path / "j" / "result-9.json").write_text("an older one")
    code = f"import sys; open({str(tmp_path / 'j' / 'result-0.json')!r}, 'w').write('new'); sys.exit('KeyError')"
    found = ended(job(tmp_path, code))

    assert (found.how, found.status, found.results, found.said) == ("ended", 1, (b"new",), "KeyError")


def test_a_command_that_is_not_there(tmp_path, ended):
    """Said in its output."""
    found = ended(Job("j", ("no-such-command",), tmp_path / "j", 1, 60))

    assert (found.status, "no-such-command" in found.said) == (126, True)


def test_over_its_limit_it_is_killed(tmp_path, ended, monkeypatch):
    """Though it ignores all that it is asked; and what it started with it."""
    monkeypatch.setattr("trials.local.TERM_S", 0.2)
    deaf = "import signal, subprocess, sys, time; signal.signal(15, signal.SIG_IGN); print('up', flush=True); "
    deaf += "subprocess.Popen([sys.executable, '-c', 'import time; time.sleep(3600)'], start_new_session=True)"
    found = ended(job(tmp_path, deaf + "; time.sleep(3600)", limit_s=3.0))

    assert (found.how, found.results) == ("killed", ())


def test_what_an_earlier_trial_left_is_ended_first(tmp_path, executor, ended):
    """By its mark, before anything is started beside it."""
    environ = os.environ | {leftovers.MARK: f"{executor._mark}:r9-n9-p9-t0"}
    left = subprocess.Popen([sys.executable, "-c", "import time; time.sleep(3600)"], env=environ)
    ended(job(tmp_path, "print(1)"))

    left.wait()
    assert left.pid not in leftovers.marked(executor._mark)


def test_a_stopped_job_is_over(tmp_path, executor, until):
    """Stopping again is no error; nobody can tell how it ended."""
    made = job(tmp_path, "import time; print('up', flush=True); time.sleep(3600)")
    executor.start(made)
    until(lambda: (tmp_path / "j" / LOG).read_text())
    executor.stop(made)
    executor.stop(made)

    assert executor.poll(made).how == "gone"
    assert leftovers.marked(executor._mark) == []


def test_another_node_is_not_here(tmp_path, executor):
    """Two nodes, or one by its name."""
    for changed in ({"nodes": 2}, {"on": ("a",)}):
        with pytest.raises(ExecutorError, match="the local executor has this one"):
            executor.start(job(tmp_path, "", **changed))
