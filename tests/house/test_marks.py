"""A test without a mark starts no process: the guard of tests/conftest.py, tried on tests that do."""

import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
TESTS = """
import os, subprocess
import pytest

@pytest.fixture(scope="module")
def started():
    subprocess.run(["true"], check=True)

def test_starts_by_a_fixture_of_the_module(started):
    pass

def test_starts_by_subprocess():
    subprocess.run(["true"], check=True)

def test_starts_by_system():
    os.system("true")

def test_starts_by_fork():
    os.waitpid(os.fork() or os._exit(0), 0)

@pytest.mark.slow
def test_may_when_slow():
    subprocess.run(["true"], check=True)

@pytest.mark.bus
def test_may_with_a_broker():
    subprocess.run(["true"], check=True)

def test_starts_nothing():
    assert os.getpid()
"""


@pytest.mark.slow
def test_a_test_without_a_mark_fails_where_it_starts_a_process(tmp_path: Path) -> None:
    """By whatever call, and in a fixture of whatever scope; others pass."""
    (tmp_path / "test_it.py").write_text(TESTS)
    command = [sys.executable, "-m", "pytest", "-v", "-p", "tests.conftest", f"--rootdir={tmp_path}", "-c", os.devnull]
    environ = {**os.environ, "PYTHONPATH": str(ROOT)}
    done = subprocess.run([*command, str(tmp_path)], env=environ, cwd=ROOT, capture_output=True, text=True, check=False)
    ended = re.findall(r"::test_(\w+) (PASSED|ERROR|FAILED)", done.stdout)
    failed = [name for name, outcome in ended if outcome == "ERROR"]  # The guard speaks after the test's own end.
    assert failed == [f"starts_by_{how}" for how in ("a_fixture_of_the_module", "subprocess", "system", "fork")]
    assert len({name for name, _ in ended}) == 7
    assert "FAILED" not in dict(ended).values()
