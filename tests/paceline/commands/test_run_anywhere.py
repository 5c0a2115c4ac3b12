"""Wherever a run puts its files and whatever Python is told by its surroundings: timings, one recording, a panel."""

import os
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from shutil import which

import pytest

from paceline import columns, topics, wire
from paceline.events import StepTimings
from paceline.recording import Line, read

pytestmark = pytest.mark.slow

RANK = str(Path(__file__).parents[1] / "training" / "rank.py")
STEPS = 20
#: Names of folders that TMPDIR holds on clusters, desktops and in containers.
NAMES = [
    "with spaces  in it",
    "\N{LATIN SMALL LETTER U WITH DIAERESIS}n\N{CJK UNIFIED IDEOGRAPH-65E5} \N{ROCKET}",
    "no UTF-8: \udcff\udcfe",
    "a line\nand another",
    "-rf",
    "'$(false)' \"`",
]
#: TMPDIR is no folder that takes one of ours.
ABSENT = {
    "gone": "none/of/these",
    "a loop of links": "loop",
    "a link to nothing": "dangling",
    "a file": "file",
    "longer than a path may be": "d" * 5000,
    "a file system without folders": "/proc",
    "empty": "",
}
#: What a project and its users set; each is a path below the test's folder, or a word.
PYTHONS: dict[str, dict[str, str]] = {
    "a project with our names": {"PYTHONPATH": "project"},
    "a project, and no folder of a script": {"PYTHONPATH": "project", "PYTHONSAFEPATH": "1"},
    "places that are none": {"PYTHONPATH": ":/none::/dev/null:"},
    "a file that interactive Pythons run": {"PYTHONSTARTUP": "startup.py"},
    "no docstrings and no asserts": {"PYTHONOPTIMIZE": "2"},
    "no home of Python": {"PYTHONHOME": ""},
    "warnings are errors": {"PYTHONWARNINGS": "error"},
    "development mode": {"PYTHONDEVMODE": "1"},
    "an interpreter that stays": {"PYTHONINSPECT": ""},
    "compiled files elsewhere": {"PYTHONPYCACHEPREFIX": "/none/x"},
    "bytes as C has them": {"PYTHONUTF8": "0", "PYTHONCOERCECLOCALE": "0", "LC_ALL": "C"},
}
OURS = ("streams", "ui", "control", "forecaster", "collectors", "importers", "archive", "paceline_extra")


def run(
    folder: Path, environ: dict[str, str | None], *, before: tuple[str, ...] = (), python: tuple[str, ...] = ()
) -> "subprocess.CompletedProcess[str]":
    """``paceline run`` of one rank that ends with status 7; None takes a variable away."""
    words = [*before, sys.executable, *python, "-m", "paceline", "run", "--record", str(folder / "run.jsonl"), "--"]
    seen = {name: value for name, value in {**os.environ, **environ}.items() if value is not None}
    rank = [sys.executable, RANK, "0", str(STEPS), "7"]
    return subprocess.run([*words, *rank], capture_output=True, text=True, check=False, env=seen, cwd=folder)


def check(done: "subprocess.CompletedProcess[str]", folder: Path) -> None:
    """The script's own status, every step in one recording, a panel, and nothing left."""
    assert (done.returncode, done.stdout) == (7, ""), done.stderr
    assert "Verdict" in done.stderr
    assert "Coverage 1 of 1 ranks" in done.stderr
    assert [path.name for path in folder.glob("run*.jsonl*")] == ["run.jsonl"]
    lines = [line for line in read(str(folder / "run.jsonl")) if isinstance(line, Line)]
    found = [wire.decode(topics.resolve(line.topic), line.value) for line in lines]
    steps = [step for one in found if isinstance(one, StepTimings) for step in columns.numbers(one.step)]
    assert steps == list(range(STEPS))
    assert list(folder.rglob("paceline-*")) == []


@pytest.mark.parametrize("length", [104, 107, 108, 134, 200])
def test_tmpdir_of_any_length(tmp_path: Path, length: int) -> None:
    """A socket's address has room for 107 bytes."""
    place = tmp_path / ("d" * (length - len(os.fsencode(tmp_path)) - 1))
    place.mkdir()
    assert len(os.fsencode(place)) == length
    check(run(tmp_path, {"TMPDIR": str(place)}), tmp_path)


@pytest.mark.parametrize("name", NAMES)
def test_tmpdir_of_any_name(tmp_path: Path, name: str) -> None:
    (tmp_path / name).mkdir()
    check(run(tmp_path, {"TMPDIR": str(tmp_path / name)}), tmp_path)


def test_tmpdir_below_the_working_folder(tmp_path: Path) -> None:
    """Named from there; the script may change it."""
    (tmp_path / "here").mkdir()
    check(run(tmp_path, {"TMPDIR": "here"}), tmp_path)


@pytest.mark.parametrize("situation", ABSENT)
def test_tmpdir_that_takes_nothing(tmp_path: Path, situation: str) -> None:
    """Another place is taken, with no XDG_RUNTIME_DIR either."""
    (tmp_path / "loop").symlink_to("loop")
    (tmp_path / "dangling").symlink_to("nowhere")
    (tmp_path / "file").touch()
    named = ABSENT[situation]
    place = str(tmp_path / named) if named else ""
    done = run(tmp_path, {"TMPDIR": place, "XDG_RUNTIME_DIR": None})
    check(done, tmp_path)
    assert "TMPDIR" not in done.stderr


def test_two_users_share_a_sticky_folder(tmp_path: Path, until: Callable[..., None]) -> None:
    """Each has a folder that the other cannot enter, and all of its timings."""
    other: tuple[str, ...] = ("setpriv", "--reuid=54321", "--regid=54321", "--clear-groups")
    other += ("--inh-caps=+dac_read_search", "--ambient-caps=+dac_read_search")  # Our environment may be root's alone.
    if which("setpriv") is None or subprocess.run([*other, "true"], capture_output=True, check=False).returncode:
        pytest.skip("needs setpriv, and root to become another user")
    shared = tmp_path / "shared"
    shared.mkdir()
    shared.chmod(0o1777)
    started = []
    for name, before in (("one", ()), ("two", other), ("three", other)):
        folder = tmp_path / name
        folder.mkdir()
        folder.chmod(0o777)
        code = f"import os; open('began', 'w').close()\nwhile not os.path.exists({str(tmp_path / 'go')!r}): pass\n"
        code += (
            f"import runpy, sys; sys.argv = [{RANK!r}, '0', '{STEPS}', '7']; runpy.run_path({RANK!r}, None, '__main__')"
        )
        words = [*before, sys.executable, "-m", "paceline", "run", "--record", "run.jsonl", "--"]
        environ = {name: value for name, value in os.environ.items() if name not in ("HOME", "XDG_RUNTIME_DIR")}
        process = subprocess.Popen(
            [*words, sys.executable, "-c", code],
            cwd=folder,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
            env={**environ, "TMPDIR": str(shared)},
        )
        started.append((folder, process))
    until(lambda: all((folder / "began").exists() for folder, _ in started))
    held = [path.stat() for path in shared.glob("paceline-*")]
    (tmp_path / "go").touch()
    for folder, process in started:
        out, err = process.communicate()
        check(subprocess.CompletedProcess([], process.returncode, out, err), folder)
    assert sorted(one.st_uid for one in held) == [0, 54321, 54321]
    assert {one.st_mode & 0o777 for one in held} == {0o700}
    assert list(shared.iterdir()) == []


@pytest.mark.parametrize("situation", PYTHONS)
def test_whatever_python_is_told(tmp_path: Path, situation: str) -> None:
    for name in OURS:
        (tmp_path / "project" / name).mkdir(parents=True)
        (tmp_path / "project" / name / "__init__.py").write_text("raise ImportError('a folder of the project')\n")
    (tmp_path / "startup.py").write_text("raise SystemExit('a file of a user')\n")
    paths = {"project", "startup.py"}
    environ = {name: str(tmp_path / word) if word in paths else word for name, word in PYTHONS[situation].items()}
    done = run(tmp_path, dict(environ))
    check(done, tmp_path)
    assert "of the project" not in done.stderr
    assert "of a user" not in done.stderr
    assert "pip install" not in done.stderr


@pytest.mark.parametrize("python", [("-I",), ("-OO",), ("-E", "-s"), ("-W", "error"), ("-X", "utf8=0")])
def test_whatever_options_python_has(tmp_path: Path, python: tuple[str, ...]) -> None:
    """And folders of the project with our names in the working folder."""
    for name in OURS:
        (tmp_path / name).mkdir()
        (tmp_path / name / "__init__.py").write_text("raise ImportError('a folder of the project')\n")
    (tmp_path / "paceline").mkdir()  # Of no package: a checkout, or results.
    done = run(tmp_path, {"PYTHONPATH": str(tmp_path)}, python=python)
    check(done, tmp_path)
    assert "of the project" not in done.stderr
