"""``paceline run``: the command ends as it would have ended, whatever happens to us."""

import contextlib
import itertools
import os
import re
import signal
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

from paceline import columns, topics, wire
from paceline.commands.side_processes import MOST_DEATHS
from paceline.commands.stack_state import Machine, Stack, write
from paceline.events import CollectiveCalls, JobDescribed, StepTimings
from paceline.recording import Line, RecordingError, read

RANK = Path(__file__).parents[1] / "training" / "rank.py"
#: A rank whose process writes files as NCCL Inspector does.
STANDIN = Path(__file__).parents[1] / "sidecar" / "plugin.py"
#: Nothing listens here.
NOWHERE = "127.0.0.1:1"


def start(*arguments: str, folder: Path, environ: dict[str, str] | None = None) -> "subprocess.Popen[str]":
    return subprocess.Popen(
        [sys.executable, "-m", "paceline", "run", *arguments],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        cwd=folder,
        env={**os.environ, "TMPDIR": str(folder)} | (environ or {}),
    )


def run(*arguments: str, folder: Path, environ: dict[str, str] | None = None) -> tuple[int, str, str]:
    process = start(*arguments, folder=folder, environ=environ)
    out, err = process.communicate()
    return process.returncode, out, err


def script(code: str) -> list[str]:
    return ["--", sys.executable, "-c", code]


def speak(steps: int, status: int = 0) -> list[str]:
    return ["--", sys.executable, str(RANK), "0", str(steps), str(status)]


def children(pid: int, word: str) -> list[int]:
    """Processes started by ``pid`` whose command line holds ``word``."""
    found = []
    for entry in Path("/proc").iterdir():
        if entry.name.isdigit():
            with contextlib.suppress(OSError, IndexError, ValueError):
                parent = int((entry / "stat").read_text().rpartition(")")[2].split()[1])
                if parent == pid and word in (entry / "cmdline").read_text():
                    found.append(int(entry.name))
    return found


def blocked(pid: int) -> list[str]:
    """The signals that process ``pid`` has blocked, as the kernel writes them."""
    return re.findall(r"^SigBlk:\s(\w+)$", Path(f"/proc/{pid}/status").read_text(), re.M)


#: What a command does, and the status that it ends with.
ENDS = {
    "print('hello')": 0,
    "raise SystemExit(3)": 3,
    "import os; os.kill(os.getpid(), 9)": 137,
    "import os; os.abort()": 134,
}


@pytest.mark.slow
def test_status_and_output_are_the_commands_own(tmp_path: Path) -> None:
    """128 + N where signal N ended it. Nothing of ours is on standard output, or left in the temporary folder."""
    processes = {code: start("--no-panel", *script(code), folder=tmp_path) for code in ENDS}
    said = {code: process.communicate()[0] for code, process in processes.items()}
    assert {code: process.returncode for code, process in processes.items()} == ENDS
    assert said == {code: "hello\n" if "hello" in code else "" for code in ENDS}
    assert list(tmp_path.glob("paceline-*")) == []


@pytest.mark.slow
def test_a_command_that_is_not_there_is_127_and_one_that_cannot_run_126(tmp_path: Path) -> None:
    """As shells have it, with one line that says which."""
    status, _, err = run("--no-panel", "--", "no-such-command", folder=tmp_path)
    assert status == 127
    assert "no-such-command: no such command" in err
    assert run("--no-panel", "--", str(tmp_path), folder=tmp_path)[0] == 126


@pytest.mark.slow
def test_the_command_is_found_on_its_own_path(tmp_path: Path) -> None:
    """Not in the environment that ``uvx`` has made for us, which it puts first; but where that is the activated one."""
    ours, theirs = tmp_path / "ours" / "bin", tmp_path / "theirs"
    for folder, word in ((ours, "ours"), (theirs, "theirs")):
        folder.mkdir(parents=True)
        (folder / "which-one").write_text(f"#!/bin/sh\necho {word}\n")
        (folder / "which-one").chmod(0o755)
    path = os.pathsep.join([str(ours.parent), str(ours), str(theirs), os.environ["PATH"]])
    code = f"import sys; sys.prefix = {str(ours.parent)!r}; sys.modules['torch'] = None\n"
    code += "from paceline.commands import run; sys.exit(run.main(sys.argv[1:]))"

    def said(**environ: str) -> str:
        done = subprocess.run(
            [sys.executable, "-P", "-c", code, "--no-panel", "--", "which-one"],
            env={**os.environ, "PATH": path, **environ},
            capture_output=True,
            text=True,
            check=False,
        )
        assert done.stderr == ""
        return done.stdout.strip()

    assert said() == "theirs"
    assert said(VIRTUAL_ENV=str(ours.parent)) == "ours"


@pytest.mark.slow
@pytest.mark.parametrize(("options", "told"), [((), "''\n"), (("--measure-overhead",), "'1'\n")])
def test_ranks_are_told_to_measure_what_the_probe_costs(tmp_path: Path, options: tuple[str, ...], told: str) -> None:
    """On every node by its own command, and only where it was asked for."""
    code = "import os; print(repr(os.environ.get('PACELINE_MEASURE_OVERHEAD', '')))"
    assert run("--no-panel", *options, *script(code), folder=tmp_path) == (0, told, "")


@pytest.mark.slow
def test_what_the_ranks_report_is_in_the_recording(tmp_path: Path) -> None:
    """With no broker anywhere, and with how the command ended; in the temporary folder nothing of ours is left."""
    recording = tmp_path / "run.jsonl.gz"
    status, _, err = run("--record", str(recording), "--no-panel", *speak(30, 7), folder=tmp_path)
    events = [
        wire.decode(topics.resolve(line.topic), line.value) for line in read(str(recording)) if isinstance(line, Line)
    ]
    assert (status, err) == (7, "")
    steps = [step for event in events if isinstance(event, StepTimings) for step in columns.numbers(event.step)]
    assert steps == list(range(30))
    assert [event.exit_status for event in events if isinstance(event, JobDescribed)][-1] == 7
    assert list(tmp_path.glob("paceline-*")) == []


@pytest.mark.slow
def test_signals_reach_the_command_once(tmp_path: Path) -> None:
    """And what it makes of them is its own affair."""
    code = (
        "import signal, sys, time\n"
        "got = []\n"
        "signal.signal({}, lambda *_: got.append(1))\n"
        "print('ready', flush=True)\n"
        "while not got: time.sleep(0.01)\n"
        "time.sleep(0.5)\n"
        "sys.exit(40 + len(got))"
    )
    numbers = [signal.SIGINT, signal.SIGTERM, signal.SIGUSR1, signal.SIGHUP]
    processes = {one: start("--no-panel", *script(code.format(int(one))), folder=tmp_path) for one in numbers}
    for number, process in processes.items():
        assert process.stdout is not None
        assert process.stdout.readline() == "ready\n"
        process.send_signal(number)
    for process in processes.values():
        process.communicate()
    assert {one: process.returncode for one, process in processes.items()} == dict.fromkeys(numbers, 41)


def steps_in(recording: Path) -> tuple[list[int], int]:
    """The steps of the rows in a recording, as far as it goes, and how many collectives are in its sums."""
    try:
        lines = [line for line in read(str(recording)) if isinstance(line, Line)]
    except RecordingError:  # Not there: it is not yet begun, or was made and taken away to see whether it can be.
        lines = []
    events = [wire.decode(topics.resolve(line.topic), line.value) for line in lines]
    told = [event for event in events if isinstance(event, StepTimings)]
    calls = [sum(columns.numbers(event.collectives.count)) for event in told if event.collectives is not None]
    return [step for event in told for step in columns.numbers(event.step)], sum(calls)


@pytest.mark.exactly_once
@pytest.mark.slow
@pytest.mark.parametrize("deaths", [1, pytest.param(2, marks=pytest.mark.landing)])
def test_a_killed_sidecar_is_replaced_and_no_step_is_lost(
    tmp_path: Path, until: Callable[..., object], deaths: int
) -> None:
    """Its ranks tell the next what they do not know to be safe, in the recording and its further parts.

    That may be what was written just before the sidecar was killed, before it could say so: nothing else comes twice.
    """
    stop, recording = tmp_path / "stop", tmp_path / "run.jsonl"
    command = [sys.executable, str(RANK.with_name("shipping_rank.py")), str(stop), "400"]
    process = start("--no-panel", "--record", str(recording), "--", *command, folder=tmp_path)
    parts = [recording, *(tmp_path / f"run.{number}.jsonl" for number in range(2, deaths + 2))]
    try:
        for part, following in itertools.pairwise(parts):
            until(lambda part=part: len(steps_in(part)[0]) > 50)
            (sidecar,) = children(process.pid, "paceline.sidecar")
            before = blocked(sidecar)
            os.kill(sidecar, signal.SIGKILL)
            until(lambda following=following: len(steps_in(following)[0]) > 50)
            (successor,) = children(process.pid, "paceline.sidecar")
            assert blocked(successor) == before
    finally:
        stop.touch()
        out, err = process.communicate()
    steps, lost = (int(word) for word in out.split())
    told = [steps_in(part) for part in parts]
    assert (process.returncode, lost) == (0, 0)
    ends: list[int] = []
    for found, _ in told:
        assert len(found) == len(set(found)), "a part says nothing twice"
        assert sorted(found) == list(range(min(found), max(found) + 1))
        assert not ends or min(found) <= ends[-1] + 1, "nothing is lost between two parts"
        assert len(ends) < 2 or min(found) > ends[-2], "what was safe is not told again"
        ends.append(max(found))
    assert (min(told[0][0]), ends[-1]) == (0, steps - 1)
    rows, calls = sum(len(found) for found, _ in told), sum(calls for _, calls in told)
    assert calls == steps if rows == steps else calls >= steps
    said = err.splitlines()
    assert sum("the sidecar ended early (status -9) and is started again" in line for line in said) == deaths
    assert sum("the recording goes on in" in line for line in said) == len(said) - deaths == deaths


@pytest.mark.e2e
def test_a_sidecar_that_keeps_dying_is_given_up(tmp_path: Path, until: Callable[..., object]) -> None:
    """One line says so, and the command ends as it would have."""
    process = start("--no-panel", *script("import time; time.sleep(600)"), folder=tmp_path)
    killed: set[int] = set()
    while len(killed) < MOST_DEATHS + 1:
        for sidecar in until(lambda: set(children(process.pid, "paceline.sidecar")) - killed):
            os.kill(sidecar, signal.SIGKILL)
            killed.add(sidecar)
    assert process.stderr is not None
    said = list(itertools.takewhile(lambda line: "in a row: the run goes on, untimed" not in line, process.stderr))
    assert len([line for line in said if "is started again" in line]) == MOST_DEATHS
    process.send_signal(signal.SIGTERM)
    out, err = process.communicate()
    assert (process.returncode, out, err) == (128 + signal.SIGTERM, "", "")


@pytest.mark.slow
def test_the_death_of_the_sidecar_is_one_line_and_the_command_goes_on(
    tmp_path: Path, until: Callable[..., bool]
) -> None:
    """It ends with its own status."""
    process = start("--no-panel", "--record", str(tmp_path / "run.jsonl"), *speak(150, 5), folder=tmp_path)
    until(lambda: (tmp_path / "run.jsonl").exists() and (tmp_path / "run.jsonl").stat().st_size > 0)
    (sidecar,) = children(process.pid, "paceline.sidecar")
    os.kill(sidecar, signal.SIGKILL)
    _, err = process.communicate()
    assert process.returncode == 5
    assert len([line for line in err.splitlines() if line.startswith("paceline: the sidecar ended early")]) == 1


@pytest.mark.slow
def test_a_full_disk_is_one_line_and_the_command_goes_on(tmp_path: Path) -> None:
    """The recording ends, the run does not."""
    status, _, err = run("--no-panel", "--record", "/dev/full", *speak(150, 6), folder=tmp_path)
    assert status == 6
    assert [line for line in err.splitlines() if "No space left" in line] == err.splitlines()


@pytest.mark.slow
def test_an_absent_broker_is_one_line_and_the_command_goes_on(tmp_path: Path) -> None:
    """Named, and not there."""
    status, _, err = run("--no-panel", "--brokers", NOWHERE, *speak(30, 4), folder=tmp_path)
    assert status == 4
    assert len(err.splitlines()) == 1
    assert NOWHERE in err


@pytest.mark.slow
@pytest.mark.parametrize("path", ["none/run.jsonl", "."])
def test_a_recording_that_cannot_be_written_is_found_before_the_start(tmp_path: Path, path: str) -> None:
    """Status 2, one line, and the command has not run."""
    status, out, err = run("--record", path, *script("print('ran')"), folder=tmp_path)
    assert (status, out, len(err.splitlines())) == (2, "", 1)


@pytest.mark.slow
@pytest.mark.parametrize(
    "environ",
    [{"PACELINE_BROKERS": "nonsense"}, {"PACELINE_BROKERS": NOWHERE, "PACELINE_SECURITY_PROTOCOL": "SASL_SSL"}],
)
def test_a_wrong_setting_is_found_before_the_start(tmp_path: Path, environ: dict[str, str]) -> None:
    """Status 2 and the variable's name."""
    status, out, err = run(*script("print('ran')"), folder=tmp_path, environ=environ)
    assert (status, out) == (2, "")
    assert "PACELINE_" in err


@pytest.mark.slow
def test_no_command_is_told_with_an_example(tmp_path: Path) -> None:
    """Status 2."""
    status, _, err = run("--job", "x", folder=tmp_path)
    assert status == 2
    assert "paceline run --" in err


@pytest.mark.slow
def test_a_grandchild_that_holds_the_output_does_not_hold_us(tmp_path: Path) -> None:
    """A daemon that the command left running is reported, and not waited for."""
    code = "import subprocess, sys; print(subprocess.Popen([sys.executable, '-c', 'import time; time.sleep(600)']).pid)"
    process = start("--no-panel", *script(code), folder=tmp_path)
    assert process.stdout is not None
    daemon = int(process.stdout.readline())
    try:
        assert process.wait() == 0
    finally:
        os.kill(daemon, signal.SIGKILL)
        _, err = process.communicate()
    assert f"(pid {daemon}), which it started, goes on untimed" in err


@pytest.mark.landing
@pytest.mark.e2e
def test_the_run_ends_with_a_panel(tmp_path: Path) -> None:
    """On standard error, after the command's own output."""
    status, out, err = run("--job", "panel-test", *speak(60), folder=tmp_path)
    assert (status, out) == (0, "")
    assert "panel-test" in err


@pytest.mark.slow
@pytest.mark.parametrize("local", ["0", "1"])
def test_one_task_among_several_of_a_node_has_no_panel(tmp_path: Path, local: str) -> None:
    """It would judge its own ranks by themselves; the first of them says so."""
    step = {"SLURM_PROCID": local, "SLURM_LOCALID": local, "SLURM_NODEID": "0", "SLURM_STEP_TASKS_PER_NODE": "2"}
    status, _, err = run(*script("pass"), folder=tmp_path, environ=step)
    assert status == 0
    assert ("no panel: 2 tasks of this node have a `paceline run` each" in err) == (local == "0")
    assert local == "0" or err == ""


@pytest.mark.slow
def test_a_users_folder_called_like_a_service_is_not_ours(tmp_path: Path) -> None:
    """Neither sidecar nor analyzer may import from the folder the user stands in."""
    for name in ("streams", "collectors", "paceline"):
        (tmp_path / name).mkdir()
        (tmp_path / name / "__init__.py").write_text("raise SystemExit('the wrong one')\n")
    work = tmp_path / "work"
    work.mkdir()
    recording = work / "run.jsonl"
    command = ["paceline", "run", "--record", str(recording), *speak(10)]
    program = str(Path(sys.executable).with_name("paceline"))
    done = subprocess.run([program, *command[1:]], cwd=tmp_path, capture_output=True, check=False)
    assert b"the wrong one" not in done.stderr
    assert recording.stat().st_size > 0


@pytest.mark.slow
@pytest.mark.parametrize(
    ("command", "said"), [(["nosuchcmd"], "nosuchcmd: no such command"), (["true"], "page: http://127.0.0.1:1")]
)
def test_the_page_is_named_of_a_command_that_runs(tmp_path: Path, command: list[str], said: str) -> None:
    """A link to a run that never started leads nowhere."""
    me = Machine().process(os.getpid())
    assert me is not None
    addresses = {"page": "http://127.0.0.1:1", "broker": NOWHERE}
    write(Stack(process=me, started_s=1.0, detached=False, logs="", addresses=addresses), tmp_path / "paceline")
    environ = {"XDG_STATE_HOME": str(tmp_path)}
    _, _, err = run("--brokers", NOWHERE, "--no-panel", "--", *command, folder=tmp_path, environ=environ)
    assert err.splitlines()[0].startswith(f"paceline: {said}")
    assert ("page:" in err) == (command == ["true"])


@pytest.mark.slow
@pytest.mark.parametrize("old", ["old", None])
def test_a_command_that_cannot_start_leaves_the_recording_as_it_was(tmp_path: Path, old: str | None) -> None:
    """The file is emptied when the command runs, no sooner; a new one is not left behind empty."""
    recording = tmp_path / "run.jsonl"
    if old is not None:
        recording.write_text(old)
    status, _, err = run("--record", str(recording), "--no-panel", "--", "nosuchcmd", folder=tmp_path)
    assert (status, err) == (127, "paceline: nosuchcmd: no such command\n")
    assert (recording.read_text() if recording.exists() else None) == old


@pytest.mark.slow
def test_a_command_without_ranks_replaces_the_recording(tmp_path: Path) -> None:
    """A recording never tells of another run than the last."""
    recording = tmp_path / "run.jsonl"
    recording.write_text("old")
    assert run("--record", str(recording), "--no-panel", *script("pass"), folder=tmp_path)[0] == 0
    assert recording.read_text() == ""


def plugin(folder: Path) -> Path:
    """A file where NCCL Inspector's library would be."""
    (folder / "libnccl-profiler-inspector.so").touch()
    return folder / "libnccl-profiler-inspector.so"


@pytest.mark.slow
@pytest.mark.parametrize("theirs", [False, True])
def test_nccls_own_times_are_in_the_recording(tmp_path: Path, theirs: bool) -> None:
    """A rank that writes what NCCL Inspector would: its rows have the rank and the step of the job."""
    recording, kept = tmp_path / "run.jsonl", tmp_path / "kept"
    command = ["--", sys.executable, str(STANDIN), "1", "10", "3"]
    status, _, err = run(
        "--record",
        str(recording),
        "--no-panel",
        f"--nccl-inspector={plugin(tmp_path)}",
        *command,
        folder=tmp_path,
        environ={"NCCL_INSPECTOR_DUMP_DIR": "kept"} if theirs else {},
    )
    events = [
        wire.decode(topics.resolve(line.topic), line.value) for line in read(str(recording)) if isinstance(line, Line)
    ]
    calls = [event for event in events if isinstance(event, CollectiveCalls) and event.by_nccl]
    rows = [
        (rank, step, seq, round(took, 6))
        for call in calls
        for rank, step, seq, took in zip(
            *map(columns.numbers, (call.rank, call.step, call.seq, call.duration_s)), strict=True
        )
    ]
    assert status == 3
    assert rows == [(1, step, step, 0.003) for step in range(10)]
    assert [line.startswith("paceline: NCCL Inspector on. NCCL ") for line in err.splitlines()] == [True]
    assert list(tmp_path.glob("paceline-*")) == []
    assert len(list(kept.glob("*.log"))) == theirs


@pytest.mark.slow
def test_nccls_files_are_for_our_user_alone(tmp_path: Path) -> None:
    """And the command finds what it needs in its environment."""
    code = (
        "import os, stat\n"
        "folder = os.environ['NCCL_INSPECTOR_DUMP_DIR']\n"
        "print(oct(stat.S_IMODE(os.stat(folder).st_mode)), os.environ['NCCL_PROFILER_PLUGIN'])"
    )
    _, out, _ = run("--no-panel", f"--nccl-inspector={plugin(tmp_path)}", *script(code), folder=tmp_path)
    assert out == f"0o700 {plugin(tmp_path)}\n"


@pytest.mark.slow
@pytest.mark.parametrize(
    ("options", "environ", "why"),
    [
        (["--nccl-inspector=none.so"], {}, "no plugin none.so"),
        (["--nccl-inspector"], {"NCCL_PROFILER_PLUGIN": "example"}, "is another"),
        (["--nccl-inspector"], {"NCCL_INSPECTOR_PROM_DUMP": "1", "NCCL_PROFILER_PLUGIN": "inspector"}, "unset it"),
    ],
)
def test_nccls_times_that_cannot_be_had_are_told_before_the_start(
    tmp_path: Path, options: list[str], environ: dict[str, str], why: str
) -> None:
    """Status 2, one line, and the command has not run."""
    status, out, err = run(*options, *script("print('ran')"), folder=tmp_path, environ=environ)
    assert (status, out, len(err.splitlines())) == (2, "", 1)
    assert why in err


@pytest.mark.slow
def test_an_nccl_that_is_too_old_is_told_before_the_start(tmp_path: Path) -> None:
    """By the variable, where the command is no Python."""
    options = ["--nccl-inspector", "--", "echo", "ran"]
    status, out, err = run(*options, folder=tmp_path, environ={"NCCL_VERSION": "2.27.5"})
    assert (status, out) == (2, "")
    assert "NCCL 2.27.5 does not call it" in err


@pytest.mark.slow
def test_what_runs_beside_has_its_own_modules(tmp_path: Path) -> None:
    """Not those that a project has on PYTHONPATH under the same names; the script has them."""
    planted, record = tmp_path / "planted", tmp_path / "run.jsonl"
    planted.mkdir()
    for name in ("kafka", "numpy", "zstandard", "faust", "prometheus_client"):
        (planted / f"{name}.py").write_text("MINE = 1")
    words = [str(RANK), "0", "20", "0"]
    code = "import kafka, runpy, sys; print(kafka.MINE); runpy.run_path(sys.argv[0], None, '__main__')"
    code = code.replace("print", f"sys.argv = {words!r}; print", 1)
    status, out, err = run(
        "--record", str(record), *script(code), folder=tmp_path, environ={"PYTHONPATH": str(planted)}
    )
    assert (status, out.splitlines()[:1]) == (0, ["1"])
    assert "sidecar" not in err
    assert "analyzer" not in err
    assert any(line.topic == topics.OP.name for line in read(str(record)) if isinstance(line, Line))
