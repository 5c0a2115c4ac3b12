"""`make test`: what is fetched, what may run again, and the last lines; with commands that only say what they are."""

import json
import os
import shlex
import signal
import stat
import subprocess
import sys
import tempfile
import threading
from collections.abc import Callable
from importlib.util import spec_from_file_location
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest
from _pytest.assertion.rewrite import AssertionRewritingHook

from deploy import gate
from tests.plugins import gate_report, rewritten_ahead

ROOT = Path(__file__).parents[2]
WAITED = gate.Failure("tests/ui/test_browser.py::test_a", ("browser",), True)


def test_a_program_that_waited_in_vain_may_run_again() -> None:
    """Up to three of them; with a fourth it is no matter of luck."""
    assert gate.repeatable([WAITED] * 3)
    assert not gate.repeatable([WAITED] * 4)
    assert not gate.repeatable([])


@pytest.mark.parametrize(
    "failure",
    [
        WAITED._replace(timed_out=False),
        WAITED._replace(marks=()),
        WAITED._replace(marks=("slow",)),
        WAITED._replace(marks=("training", "bus")),
        WAITED._replace(marks=("e2e", "exactly_once")),
    ],
    ids=["a wrong value", "a quick test", "a slow test", "a training verdict", "nothing lost, nothing twice"],
)
def test_nothing_else_may_run_again(failure: gate.Failure) -> None:
    """And beside one that may not, none may."""
    assert not gate.repeatable([failure])
    assert not gate.repeatable([WAITED, failure])


@pytest.mark.parametrize(
    ("changed", "parts"),
    [
        (["README.md"], []),
        (["ui/feed.py"], ["ui"]),
        (["paceline/gpu/xids.py"], ["collectors", "paceline"]),
        (["paceline/gpus.py"], ["collectors", "control", "e2e", "paceline", "streams"]),
        (["tests/house/test_declared.py"], ["house"]),
        (["docker-compose.yml", "streams/door.py"], ["deploy", "e2e", "streams"]),
    ],
)
def test_a_change_owes_parts_by_its_folders(changed: list[str], parts: list[str]) -> None:
    """The longest folder that fits counts, and a test owes its own part."""
    assert gate.owed(changed) == parts


def test_every_part_that_can_be_owed_is_there() -> None:
    """And so is every folder that owes one."""
    assert {part for parts in gate.OWED.values() for part in parts} <= {
        path.name for path in (ROOT / "tests").iterdir()
    }
    assert [name for name in gate.OWED if not (ROOT / name).exists()] == []


def test_every_folder_of_code_owes_a_part() -> None:
    """A change in none of them goes untested."""
    code = {path.parent.name for path in ROOT.glob("*/__init__.py")} | {"deploy", "experiments"}
    assert code - set(gate.OWED) == set()


def test_what_is_compiled_ahead_is_what_pytest_would_have_compiled(
    tmp_path: Path, request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch
) -> None:
    """And not again while the file is the same; where a file cannot be compiled, who imports it says so."""
    monkeypatch.setattr(rewritten_ahead, "_configs", [request.config])
    (tmp_path / "test_sound.py").write_text("def test_it():\n    assert 1 == 1\n")
    (tmp_path / "test_torn.py").write_text("def test_it(:\n")
    rewritten_ahead.rewritten(tmp_path / "test_torn.py")
    rewritten_ahead.rewritten(tmp_path / "test_sound.py")
    (kept,) = (tmp_path / "__pycache__").iterdir()
    before = kept.stat()
    loader = AssertionRewritingHook(request.config)
    loader.set_session(request.session)
    module = ModuleType("test_sound")
    module.__spec__ = spec_from_file_location("test_sound", tmp_path / "test_sound.py", loader=loader)
    loader.exec_module(module)
    rewritten_ahead.rewritten(tmp_path / "test_sound.py")
    assert (kept.stat().st_ino, kept.stat().st_mtime_ns) == (before.st_ino, before.st_mtime_ns)
    assert "@pytest_ar" in module.__dict__


def test_a_report_counts_each_test_once(tmp_path: Path) -> None:
    """A failure in the set-up counts, and what passed in it does not."""
    row = {"part": "ui", "seconds": 1.5, "marks": ["browser"], "timed_out": True, "reason": "boom"}
    rows = [
        {**row, "test": "f.py::a", "phase": "setup", "outcome": "passed"},
        {**row, "test": "f.py::a", "phase": "call", "outcome": "passed"},
        {**row, "test": "b", "phase": "setup", "outcome": "failed"},
        {**row, "test": "c", "phase": "setup", "outcome": "skipped"},
    ]
    (tmp_path / "report").write_text("".join(json.dumps(row) + "\n" for row in rows))
    report = gate.read_report(tmp_path / "report")
    assert report.failures == (gate.Failure("b", ("browser",), True, "boom"),)
    assert dict(report.counts) == {"passed": 1, "failed": 1, "skipped": 1}
    assert dict(report.seconds) == {"ui": 6.0}
    assert dict(report.files) == {"f.py": 3.0, "b": 1.5, "c": 1.5}


@pytest.mark.parametrize(
    ("crash", "timed_out"),
    [
        ("tests.conftest.NotInTimeError: the condition did not come true within 240 s", True),
        ("Failed: Timeout (>900.0s) from pytest-timeout.", True),
        ("subprocess.TimeoutExpired: Command '['x']' timed out after 500 seconds", True),
        ("AssertionError: Locator expected to have count '1'\nActual value: 0", True),
        ("AssertionError: Page URL expected to be 'http://127.0.0.1:8501/job'", True),
        ("AssertionError: assert 1 == 2", False),
        ("assert [NotInTimeError] == []", False),
    ],
)
def test_waiting_in_vain_is_told_from_a_wrong_value(crash: str, timed_out: bool) -> None:
    """By how the failure begins."""
    assert crash.startswith(gate_report.WAITED) == timed_out


@pytest.mark.slow
@pytest.mark.landing
def test_a_report_says_the_same_where_workers_send_one_a_test(tmp_path: Path) -> None:
    """What failed and where, at once and in the end, how many, which marks; how long it took, set-up included."""
    (tmp_path / "test_each.py").write_text(EACH_END)
    reports = []
    for plugins in ([], ["-p", "one_report"]):
        path = tmp_path / f"report-{len(plugins)}"
        command = [sys.executable, "-m", "pytest", "-q", "-p", "gate_report", *plugins, "-n", "1", "test_each.py"]
        environ = {**os.environ, "PYTHONPATH": f"{gate.PLUGINS}{os.pathsep}{ROOT}", "GATE_REPORT": str(path)}
        environ = {name: value for name, value in environ.items() if not name.startswith("PYTEST_")}
        done = subprocess.run(command, cwd=tmp_path, env=environ, check=False, capture_output=True, text=True)
        assert done.returncode == 1, done.stdout + done.stderr
        at_once, _, at_the_end = done.stdout.partition("= FAILURES =")
        assert "FAILED test_each.py::test_fails: assert 1 == 2" in at_once
        assert at_once.count("FAILED") == 3, "each as it comes"
        assert at_the_end
        reports.append(gate.read_report(path))
    ever, once = reports
    assert len(ever.failures) == 3
    assert (once.failures, once.counts) == (ever.failures, ever.counts)
    assert min(sum(report.seconds.values()) for report in reports) >= 0.2


#: A test for each way to end; one takes its time in set-up and teardown.
EACH_END = """import time, pytest

@pytest.fixture
def lasting():
    time.sleep(0.1)
    yield
    time.sleep(0.1)

@pytest.fixture
def unready():
    raise ValueError("no set-up")

@pytest.fixture
def unending():
    yield
    raise ValueError("no teardown")

def test_passes(lasting): pass
def test_fails(): assert 1 == 2
def test_has_no_set_up(unready): pass
def test_has_no_teardown(unending): pass
def test_is_skipped(): pytest.skip("not here")
@pytest.mark.xfail
def test_is_expected_to_fail(): assert False
"""


@pytest.fixture
def commands(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Callable[..., Path]:
    """Puts scripts where the gate's commands are, in a checkout of their own: name and what its shell does."""
    monkeypatch.setattr(gate, "ROOT", tmp_path)
    monkeypatch.setenv("PATH", f"{tmp_path}{os.pathsep}{os.environ['PATH']}")
    (tmp_path / "tests").mkdir()

    def write(**lines: str) -> Path:
        for name, line in {
            "make": "",
            "system": "",
            "kafka": "",
            "helm": "",
            "wheel": "",
            "python": "",
            **lines,
        }.items():
            path = tmp_path / PLACES.get(name, name)
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_text(f"#!/bin/bash\n{line}\n")
            path.chmod(path.stat().st_mode | stat.S_IXUSR)
        return tmp_path

    return write


PLACES = {
    "system": "deploy/system-packages.sh",
    "kafka": "deploy/kafka/kafka.sh",
    "helm": "deploy/helm/tools.sh",
    "wheel": "deploy/wheel-test.sh",
    "python": ".venv/bin/python",
}
#: A pytest whose one test fails by waiting, the first time that it is run.
FAILS_ONCE = """[[ "$*" == *"training and landing"* ]] && exit 5
row='{"test":"tests/ui/test_x.py::test_y","part":"ui","phase":"call","seconds":2,"marks":["browser"],"timed_out":WAITED'
row="$row,\\"reason\\":\\"1 == 2\\""
if [ -e once ]; then echo "$row,\\"outcome\\":\\"passed\\"}" >"$GATE_REPORT"; exit 0; fi
touch once; echo "$row,\\"outcome\\":\\"failed\\"}" >"$GATE_REPORT"; exit 1"""


@pytest.mark.slow
@pytest.mark.parametrize(
    ("broken", "word"),
    [
        ({"make": "exit 3"}, ".venv"),
        ({"system": "exit 3"}, "system packages"),
        ({"kafka": "exit 3"}, "Apache Kafka"),
        ({"helm": "exit 3"}, "Helm"),
    ],
    ids=["environment", "system", "kafka", "helm"],
)
def test_what_cannot_be_fetched_is_named_and_nothing_is_tested(
    commands: Callable[..., Path],
    capfd: pytest.CaptureFixture[str],
    monkeypatch: pytest.MonkeyPatch,
    broken: dict[str, str],
    word: str,
) -> None:
    """Status 3: it says nothing about the code. Nothing is left in the folder for temporary files."""
    folder = commands(python="touch tested", **broken)
    monkeypatch.setattr(tempfile, "tempdir", str(folder))
    assert gate.run("land", [], "2", []) == 3
    said = capfd.readouterr().out
    assert "gate: environment: " in said
    assert word in said
    assert not (folder / "tested").exists()
    assert list(folder.glob("paceline-gate-*")) == []


@pytest.mark.slow
def test_what_make_says_to_its_children_reaches_no_test(
    commands: Callable[..., Path], monkeypatch: pytest.MonkeyPatch
) -> None:
    """A `make` in a test would print which folder it enters, or take our ARGS."""
    folder = commands(python='[ -e told ] || echo "$MAKEFLAGS$MFLAGS$MAKELEVEL" > told; exit 5')
    for name in ("MAKEFLAGS", "MFLAGS", "MAKELEVEL"):
        monkeypatch.setenv(name, "w -- ARGS=--random-order")
    gate.run("land", [], "2", [])
    assert (folder / "told").read_text() == "\n"


@pytest.mark.slow
@pytest.mark.parametrize("given", [[], ["--random-order"], ["-x", "--lf"]], ids=["nothing", "one", "two"])
@pytest.mark.parametrize(("ring", "target"), [("land", "test"), ("all", "test-all"), ("part", "test-part")])
def test_make_hands_on_what_pytest_shall_do_too(
    ring: str, target: str, given: list[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    """Also where it begins as an option does: `make test ARGS=--random-order`."""
    words = ["make", "-n", target, "PART=ui", f"ARGS={shlex.join(given)}"]
    shown = subprocess.run(words, cwd=ROOT, check=True, capture_output=True, text=True).stdout
    asked: list[Any] = []
    monkeypatch.setattr(gate, "run", lambda *made: asked.append(made) or 0)
    _, _, *arguments = shlex.split(shown)
    assert gate.main(arguments) == 0
    assert asked == [(ring, ["ui"] if ring == "part" else [], "3", given)]


@pytest.mark.slow
def test_a_test_that_passes_alone_is_flaky_and_told(
    commands: Callable[..., Path], capfd: pytest.CaptureFixture[str]
) -> None:
    """It fails nothing; its name is among the last lines, and kept."""
    folder = commands(python=FAILS_ONCE.replace("WAITED", "true"))
    assert gate.run("land", [], "2", []) == 0
    *_, longest, load, flaky, last = capfd.readouterr().out.splitlines()
    assert longest == "gate: seconds of the longest files: tests/ui/test_x.py 2"
    assert load.startswith("gate: load (1, 5, 15 min) before ")
    assert (flaky, last) == ("FLAKY tests/ui/test_x.py::test_y: 1 == 2", "1 passed, 0 failed, 0 skipped")
    assert json.loads((folder / "build" / "flaky.jsonl").read_text())["test"] == "tests/ui/test_x.py::test_y"


@pytest.mark.slow
def test_a_wrong_value_fails_at_once(commands: Callable[..., Path], capfd: pytest.CaptureFixture[str]) -> None:
    """It is not run again, though it would pass."""
    commands(python=FAILS_ONCE.replace("WAITED", "false"))
    assert gate.run("land", [], "2", []) == 1
    *_, failed, last = capfd.readouterr().out.splitlines()
    assert (failed, last) == ("FAILED tests/ui/test_x.py::test_y: 1 == 2", "0 passed, 1 failed, 0 skipped")


@pytest.mark.slow
@pytest.mark.parametrize(
    ("broken", "name"),
    [({"make": '[ "$2" = env ] || exit 2'}, "lint"), ({"wheel": "exit 1"}, "wheel"), ({"python": "exit 4"}, "tests")],
    ids=["lint", "wheel", "pytest itself"],
)
def test_whatever_fails_is_named_in_the_end(
    commands: Callable[..., Path], capfd: pytest.CaptureFixture[str], broken: dict[str, str], name: str
) -> None:
    """Lint and the wheel too, and a pytest that did not come to its tests."""
    commands(**broken)
    assert gate.run("land", [], "2", []) == 1
    assert f"FAILED {name}: " in capfd.readouterr().out


@pytest.mark.slow
def test_a_fetch_is_tried_three_times(tmp_path: Path) -> None:
    """And then given up with the command's own status."""
    script = f"source {ROOT}/deploy/tries.sh; once() {{ echo x >>{tmp_path}/tried; return 7; }}; tries once"
    done = subprocess.run(["bash", "-c", script], env={**os.environ, "TRIES_PAUSE_S": "0"}, check=False)
    assert done.returncode == 7
    assert (tmp_path / "tried").read_text() == "x\n" * 3


@pytest.mark.slow
def test_a_part_that_is_not_there_is_refused() -> None:
    """On the last line, with those that there are."""
    command = [sys.executable, str(ROOT / "deploy" / "gate.py"), "part", "--part", "nosuch"]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert done.returncode == 2
    assert "streams" in done.stderr.splitlines()[-1]


@pytest.mark.slow
@pytest.mark.parametrize("sent", [signal.SIGTERM, signal.SIGINT])
def test_told_to_end_it_ends_what_it_runs(
    commands: Callable[..., Path], until: Callable[..., Any], sent: signal.Signals
) -> None:
    """Also where the signal reaches it alone: a test run that goes on would disturb the next."""
    folder = commands(python="echo $$ > begun; exec sleep 600")

    def tell() -> None:
        until(lambda: (folder / "begun").exists() and (folder / "begun").read_text())
        os.kill(os.getpid(), sent)

    teller = threading.Thread(target=tell)
    teller.start()
    assert gate.main(["land"]) == 130
    teller.join()
    with pytest.raises(ProcessLookupError):
        os.kill(int((folder / "begun").read_text()), 0)
