"""What a mark does: without one, no process and no PyTorch; and a file of which no test is chosen is not imported."""

import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

from deploy.gate import RING_1
from tests.chosen_files import may_choose

ROOT = Path(__file__).parents[2]
#: What `make check` chooses.
QUICK = re.search(r"^QUICK := (.*)$", (ROOT / "Makefile").read_text(encoding="utf-8"), re.M).group(1)
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


@pytest.mark.parametrize(
    ("marks", "quick", "ring_1"),
    [
        ("pytest.mark.e2e", False, False),
        ('[pytest.mark.e2e, pytest.mark.xdist_group("pytorch")]', False, False),
        ("[\n    pytest.mark.timeout(600),\n    pytest.mark.slow,\n]", False, False),
        ("pytest.mark.long", False, True),
        ("pytest.mark.bus", False, True),  # on the embedded broker it is in ring 1
        ("[pytest.mark.slow, pytest.mark.landing]", False, True),
        ('pytest.mark.filterwarnings("ignore::DeprecationWarning")', True, True),
    ],
)
def test_a_file_is_read_unless_its_marks_rule_out_all_its_tests(marks: str, quick: bool, ring_1: bool) -> None:
    """Of two rings and `make check`; a mark of one test alone rules out no other."""
    text = f"import pytest\n\npytestmark = {marks}\n"
    assert (may_choose(QUICK, text), may_choose(RING_1, text)) == (quick, ring_1)
    assert may_choose(QUICK, "@pytest.mark.e2e\ndef test_it():\n    pass\n")
    assert may_choose(RING_1, text + "@pytest.mark.landing\ndef test_it():\n    pass\n")
    assert may_choose("", text)


@pytest.mark.slow
def test_a_file_that_is_ruled_out_is_not_imported_unless_it_is_named(tmp_path: Path) -> None:
    """Its import would fail here."""
    (tmp_path / "test_ruled_out.py").write_text("import pytest, gone\npytestmark = pytest.mark.e2e\n")
    (tmp_path / "test_chosen.py").write_text("def test_it():\n    pass\n")
    command = [sys.executable, "-m", "pytest", "-p", "tests.conftest", f"--rootdir={tmp_path}", "-c", os.devnull]
    environ = {**os.environ, "PYTHONPATH": str(ROOT)}
    for path, status in ((tmp_path, 0), (tmp_path / "test_ruled_out.py", 2)):
        done = subprocess.run([*command, "-m", "not e2e", str(path)], env=environ, cwd=ROOT, check=False)
        assert done.returncode == status


@pytest.mark.slow
def test_make_check_imports_no_pytorch(tmp_path: Path) -> None:
    """Each process of its would, for seconds: a file that needs it is ``long``, or ``e2e``."""
    (tmp_path / "torch.py").write_text("raise RuntimeError('make check imports PyTorch')\n")
    command = [sys.executable, "-m", "pytest", "--collect-only", "-q", "-m", QUICK]
    environ = {**os.environ, "PYTHONPATH": str(tmp_path)}
    done = subprocess.run(command, env=environ, cwd=ROOT, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout[-2000:]
