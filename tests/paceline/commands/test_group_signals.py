"""A scheduler signals every process of a step: the script gets each signal once, and ours go on to the end."""

import contextlib
import os
import re
import signal
import subprocess
import sys
from collections.abc import Callable, Iterator
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
TESTS = str(Path(__file__).parents[1] / "training")


class Step:
    """A step: ``paceline run`` and all below it."""

    def __init__(self, folder: Path, code: str, *options: str) -> None:
        self.folder = folder
        words = [sys.executable, "-m", "paceline", "run", "--brokers", "none", "--record", "run.jsonl", *options]
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
