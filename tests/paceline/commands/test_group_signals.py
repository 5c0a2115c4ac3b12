"""A scheduler signals every process of a step: the script gets each signal once, and ours go on to the end."""

import contextlib
import os
import re
import signal
import subprocess
import sys
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path

import pytest

from paceline import topics, wire
from paceline.events import JobDescribed, StepTimings
from paceline.recording import Line, read

pytestmark = pytest.mark.slow

#: Speaks as a rank for as long as nobody has signalled it, and notes what it is signalled.
SCRIPT = """
import os, signal, sys, time
sys.path.insert(0, {tests!r})
import rank
got = []
numbers = [signal.SIGUSR1, signal.SIGUSR2, signal.SIGTERM, signal.SIGINT, signal.SIGHUP, signal.SIGXCPU, signal.SIGCONT]
for number in numbers:
    signal.signal(number, lambda number, _: got.append(number))
speaker = rank.Speaker(os.environ[rank.SOCKET_VARIABLE])
speaker.say(rank.hello())
for number in range(100_000):
    speaker.say(rank.step(number))
    time.sleep(0.02)
    if number == 30:
        open("began", "w").close()
    open("got.new", "w").write(" ".join(str(int(each)) for each in got))
    os.replace("got.new", "got")
    if os.path.exists("end"):
        break
speaker.say(rank.Bye(ended_s=time.time()))
"""
#: The panel at the end, whole: its head with the steps that were heard, a verdict, and its last line.
PANEL = re.compile(
    r"^paceline: job \S+, 1 ranks?, \d+ steps, .*\n(?s:.*)^  Verdict  .*\n(?s:.*)^  Coverage 1 of 1 ranks?", re.M
)
PROGRAM = ("-m", "paceline", "run")
TESTS = str(Path(__file__).parents[1] / "training")


class Step:
    """A step: ``paceline run`` and all below it."""

    def __init__(self, folder: Path, code: str, *options: str, program: Sequence[str] = PROGRAM) -> None:
        self.folder = folder
        words = [sys.executable, *program, "--brokers", "none", "--record", "run.jsonl", *options]
        self.process = subprocess.Popen(
            [*words, "--", sys.executable, "-c", code],
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
            cwd=folder,
            start_new_session=True,
            env={**os.environ, "TMPDIR": str(folder)},
        )

    def tree(self) -> list[int]:
        """Every process below, as a control group has them, whatever its session."""
        found = [self.process.pid]
        for pid in found:
            with contextlib.suppress(OSError):
                found += map(int, Path(f"/proc/{pid}/task/{pid}/children").read_text().split())
        return found

    def each(self, number: int) -> None:
        """Signal every process, one by one."""
        for pid in self.tree():
            with contextlib.suppress(ProcessLookupError):
                os.kill(pid, number)

    def got(self) -> list[int]:
        return [int(word) for word in (self.folder / "got").read_text().split()]

    def events(self) -> list[object]:
        lines = [line for line in read(str(self.folder / "run.jsonl")) if isinstance(line, Line)]
        return [wire.decode(topics.resolve(line.topic), line.value) for line in lines]


@pytest.fixture
def step(tmp_path: Path, until: Callable[..., None]) -> Iterator[Step]:
    made = Step(tmp_path, SCRIPT.format(tests=TESTS), "--track", f"tensorboard={tmp_path}/log")
    until((tmp_path / "began").exists)
    yield made
    if made.process.poll() is None:
        made.process.kill()
        made.process.communicate()


def test_every_process_is_signalled_and_the_script_gets_each_once(step: Step, until: Callable[..., None]) -> None:
    """To each process one by one, to the group, and to us alone, which passes it on; the panel and one recording."""
    before = step.tree()
    sent = [signal.SIGUSR1, signal.SIGUSR2, signal.SIGTERM, signal.SIGINT, signal.SIGHUP, signal.SIGXCPU]
    for count, number in enumerate([*sent, *sent, *sent], 1):
        how = (count - 1) // len(sent)
        (step.each, lambda n: os.killpg(step.process.pid, n), step.process.send_signal)[how](number)
        until(lambda count=count: len(step.got()) >= count)
    step.each(signal.SIGCONT)
    until(lambda: len(step.got()) >= 19)
    assert step.tree() == before
    assert step.got() == [*map(int, [*sent, *sent, *sent]), signal.SIGCONT]
    (step.folder / "end").touch()
    out, err = step.process.communicate()
    assert (step.process.returncode, out) == (0, "")
    assert "ended early" not in err
    assert PANEL.search(err), err
    assert [path.name for path in step.folder.glob("run*.jsonl")] == ["run.jsonl"]
    ends = [event.ended_s for event in step.events() if isinstance(event, JobDescribed)]
    assert ends[-1] is not None


def test_a_step_that_is_preempted_has_its_panel_and_its_end(tmp_path: Path, until: Callable[..., None]) -> None:
    """A script that ends by the signal: 128 + N, as without us."""
    code = SCRIPT.format(tests=TESTS).replace("signal.signal(number, lambda", "signal.getsignal(number) or (lambda")
    made = Step(tmp_path, code)
    until((tmp_path / "began").exists)
    made.each(signal.SIGTERM)
    _, err = made.process.communicate()
    assert made.process.returncode == 128 + signal.SIGTERM
    assert "ended early" not in err
    assert PANEL.search(err), err
    assert [path.name for path in tmp_path.glob("run*.jsonl")] == ["run.jsonl"]
    assert any(isinstance(event, JobDescribed) and event.ended_s is not None for event in made.events())


def test_what_is_killed_after_its_grace_has_recorded_what_it_had(step: Step, until: Callable[..., None]) -> None:
    """SIGTERM, which the script outlives, and SIGKILL to all: what there was a moment before is on disk."""
    step.each(signal.SIGTERM)
    until(lambda: step.got() == [signal.SIGTERM])
    recording = step.folder / "run.jsonl"
    until(lambda: recording.exists() and any(isinstance(event, StepTimings) for event in step.events()))
    step.each(signal.SIGKILL)
    step.process.communicate()
    assert step.process.returncode == -signal.SIGKILL
    assert any(isinstance(event, StepTimings) for event in step.events())


#: What Slurm, Kubernetes, a terminal and nohup's caller send.
SENT = [signal.SIGTERM, signal.SIGINT, signal.SIGHUP, signal.SIGUSR1, signal.SIGUSR2, signal.SIGXCPU]


#: `paceline run` that notes that it starts its command; what the command itself does first may come later.
NOTED = """
import runpy, sys
from paceline.commands import foreground
start = foreground.Child.__init__
def noted(*arguments, **named):
    open("starts", "w").close()
    start(*arguments, **named)
foreground.Child.__init__ = noted
sys.argv.insert(1, "run")
runpy.run_module("paceline", run_name="__main__", alter_sys=True)
"""


@pytest.mark.parametrize("number", SENT)
def test_a_signal_before_the_command_runs_ends_all_and_leaves_nothing(
    tmp_path: Path, until: Callable[..., None], number: int
) -> None:
    """The command does not start then, or gets it; no folder, no process, no word on steps that were not seen."""
    held = Step(tmp_path, "import time; time.sleep(600)", program=("-c", NOTED))
    until(lambda: list(tmp_path.glob("paceline-*")))
    before = held.tree()
    os.killpg(held.process.pid, number)
    _, err = held.process.communicate()
    started = (tmp_path / "starts").exists()
    assert held.process.returncode in (128 + number, -number)
    assert list(tmp_path.glob("paceline-*")) == []
    assert "Traceback" not in err
    assert started or "nothing to judge" not in err
    for pid in before:
        until(lambda pid=pid: not Path(f"/proc/{pid}/cmdline").exists() or not Path(f"/proc/{pid}/cmdline").read_text())


def test_an_ignored_signal_before_the_command_runs_changes_nothing(tmp_path: Path, until: Callable[..., None]) -> None:
    """As under nohup: a command that its caller protects starts, and finds it ignored."""
    code = "import signal; print(signal.getsignal(signal.SIGHUP) is signal.SIG_IGN)"
    before = signal.signal(signal.SIGHUP, signal.SIG_IGN)
    try:
        held = Step(tmp_path, code, "--no-panel")
    finally:
        signal.signal(signal.SIGHUP, before)
    until(lambda: list(tmp_path.glob("paceline-*")))
    os.killpg(held.process.pid, signal.SIGHUP)
    out, _ = held.process.communicate()
    assert (held.process.returncode, out) == (0, "True\n")


#: `paceline run` whose command finds no memory beside us, and so takes our place.
INSTEAD = """
import sys
from paceline.commands import foreground, run
def refuse(*_):
    raise MemoryError
foreground.Child.__init__ = refuse
sys.exit(run.main(sys.argv[1:]))
"""


@pytest.mark.parametrize("program", [PROGRAM, ("-c", INSTEAD)], ids=["beside us", "in our place"])
def test_the_command_starts_with_no_signal_blocked(tmp_path: Path, program: Sequence[str]) -> None:
    code = "import signal; print(sorted(signal.pthread_sigmask(signal.SIG_BLOCK, ())))"
    words = [sys.executable, *program, "--no-panel", "--", sys.executable, "-c", code]
    done = subprocess.run(words, capture_output=True, text=True, check=False, cwd=tmp_path)
    assert (done.returncode, done.stdout) == (0, "[]\n")
    assert ("MemoryError" in done.stderr) == ("-c" in program)


@pytest.mark.parametrize("number", SENT)
def test_signals_while_the_panel_is_made_end_nothing(tmp_path: Path, until: Callable[..., None], number: int) -> None:
    """To each process, time after time, from the end of the command on; the status is the command's own."""
    held = Step(tmp_path, SCRIPT.format(tests=TESTS) + "print('over', flush=True)\nraise SystemExit(3)\n")
    until((tmp_path / "began").exists)
    (tmp_path / "end").touch()
    assert held.process.stdout is not None
    assert held.process.stdout.readline() == "over\n"
    for _ in range(3):
        held.each(number)
    _, err = held.process.communicate()
    assert held.process.returncode in (3, 128 + number)  # Of a command that still ended as it came.
    assert PANEL.search(err), err
    assert [path.name for path in tmp_path.glob("run*.jsonl")] == ["run.jsonl"]


@pytest.mark.parametrize("number", SENT)
def test_each_process_is_signalled_twice_and_the_script_gets_two(
    step: Step, until: Callable[..., None], number: int
) -> None:
    """As Slurm's `scancel --signal` sends it to a step once more, as soon as the script has the first."""
    for count in (1, 2):
        step.each(number)
        until(lambda count=count: len(step.got()) >= count)
    # What would have come a third time has come before this one.
    other = next(one for one in SENT if one != number)
    step.each(other)
    until(lambda: other in step.got())
    assert step.got() == [number, number, other]


def test_a_script_that_ends_in_its_grace_has_its_panel(tmp_path: Path, until: Callable[..., None]) -> None:
    """SIGTERM to all, and SIGKILL to what is left of them once the run has ended: nothing is left by then."""
    code = SCRIPT.format(tests=TESTS).replace("if os.path.exists", "if signal.SIGTERM in got or os.path.exists")
    held = Step(tmp_path, code + "raise SystemExit(0)\n")
    until((tmp_path / "began").exists)
    before = held.tree()
    held.each(signal.SIGTERM)
    _, err = held.process.communicate()
    assert held.process.returncode == 0
    assert PANEL.search(err), err
    for pid in before:
        until(lambda pid=pid: not Path(f"/proc/{pid}/cmdline").exists() or not Path(f"/proc/{pid}/cmdline").read_text())
    assert [path.name for path in tmp_path.glob("run*.jsonl")] == ["run.jsonl"]
