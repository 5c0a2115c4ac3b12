"""Whatever fails in our own start, of whatever exception, the command runs as it would have run without us.

Nothing here starts a process: what would be started is written down, and `test_start_for_real.py` starts it.
"""

import errno
import os
import signal
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from paceline import __main__ as program
from paceline.commands import foreground, run, run_start, side_process
from paceline.training.messages import SOCKET_VARIABLE
from tests.breaking import Step, broken, let_go, steps

COMMAND = ["train", "--lr", "0.1"]
#: One of each family that a machine, a library or a surrounding makes.
ERRORS: dict[str, Callable[[], BaseException]] = {
    "OSError": lambda: OSError(errno.ENOSPC, os.strerror(errno.ENOSPC), "/tmp"),
    "MemoryError": MemoryError,
    "RecursionError": lambda: RecursionError("maximum recursion depth exceeded"),
    "UnicodeError": lambda: UnicodeEncodeError("ascii", "\N{DEGREE SIGN}", 0, 1, "ordinal not in range"),
    "KeyError": lambda: KeyError("getpwuid(): uid not found: 4711"),
    "ImportError": lambda: ImportError("cannot import name 'x'"),
}


class Started(Exception):  # noqa: N818 - it stands for the command's end, and is no error
    """The command has taken our place; nothing of ours goes on."""


class Sidecar:
    """What stands where a process of ours would: it listens at once, and ends when it is told to."""

    pid, returncode = 0, 0

    def __init__(self, words: list[str]) -> None:
        self.ended = False
        self.stdin = open(os.devnull, "wb")  # noqa: SIM115 - closed by who holds it
        if "--socket" in words:
            Path(words[words.index("--socket") + 1]).touch()

    def poll(self) -> int | None:
        return 0 if self.ended else None

    def wait(self, timeout: float | None = None) -> int:
        self.ended = True
        self.stdin.close()
        return 0

    def kill(self) -> None:
        self.ended = True


class Machine:
    """The machine as far as the start needs it: which commands ran, in which surroundings, with which status."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch, folder: Path) -> None:
        self.ran: list[tuple[str, list[str], dict[str, str]]] = []
        self.beside: list[Sidecar] = []
        self.folder = folder
        self._over = False
        monkeypatch.setenv("TMPDIR", str(folder))
        monkeypatch.setattr(side_process.subprocess, "Popen", self._popen)
        monkeypatch.setattr(foreground.os, "posix_spawnp", self._spawn)
        monkeypatch.setattr(foreground.os, "waitpid", self._waitpid)
        monkeypatch.setattr(foreground.signal, "sigtimedwait", lambda *_: None)
        monkeypatch.setattr(run.os, "execvpe", self._exec)
        monkeypatch.setattr(run_start, "entry_points", lambda **_: ["analyze"])  # Reading all metadata takes its time.

    def begin(self) -> None:
        self.ran, self.beside, self._over = [], [], False
        (self.folder.parent / "run.jsonl").unlink(missing_ok=True)

    def start(self, *options: str) -> int:
        try:
            return program.main(["run", *options, "--", *COMMAND])
        except Started:
            return 7

    def _popen(self, words: list[str], **_: Any) -> Sidecar:
        self.beside.append(Sidecar(words))
        return self.beside[-1]

    def _spawn(self, file: str, words: list[str], environ: dict[str, str], **_: Any) -> int:
        self.ran.append(("beside", words, environ))
        return 4711

    def _waitpid(self, pid: int, options: int) -> tuple[int, int]:
        self._over = not self._over  # Once it runs still, then it has ended with status 7.
        return (0, 0) if self._over and options else (pid, 7 << 8)

    def _exec(self, file: str, words: list[str], environ: dict[str, str]) -> None:
        self.ran.append(("instead", words, environ))
        raise Started


@pytest.fixture
def machine(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Iterator[Machine]:
    signals = [signal.SIGCHLD, signal.SIGPIPE, signal.SIGXFSZ]
    before = {number: signal.getsignal(number) for number in signals}
    hook, blocked = sys.excepthook, signal.pthread_sigmask(signal.SIG_BLOCK, ())
    (tmp_path / "tmp").mkdir()
    yield Machine(monkeypatch, tmp_path / "tmp")
    let_go()
    sys.excepthook = hook
    signal.pthread_sigmask(signal.SIG_SETMASK, blocked)
    for number, handler in before.items():
        signal.signal(number, handler)


def words(machine: Machine) -> list[str]:
    """With as much beside the command as there can be in a process."""
    folder = machine.folder.parent
    return ["--job", "x", "--record", f"{folder}/run.jsonl", "--track", f"tensorboard={folder}/log"]


def found(machine: Machine) -> list[Step]:
    """The steps of a start that goes well; ``__main__`` tells commands apart, and its ``main`` is what is called."""

    def start() -> None:
        machine.begin()
        assert machine.start(*words(machine)) == 7

    start()  # What is imported once is imported now.
    every = steps(start, lambda path: path != "__main__.py")
    assert len({step.place for step in every}) > 20, "the start was not watched"
    return every


def check(machine: Machine, step: Step, error: str, capsys: pytest.CaptureFixture[str]) -> None:
    """Break ``step``: the command runs once, with its own words and status; one line says what failed."""
    machine.begin()
    capsys.readouterr()
    ended: list[int] = []
    assert broken(lambda: ended.append(machine.start(*words(machine))), step, ERRORS[error]()), step
    said = capsys.readouterr()
    assert said.out == "", step
    assert "Traceback" not in said.err, step
    assert list(machine.folder.glob("paceline-*")) == [], step
    assert all(one.ended for one in machine.beside), step
    if ended == [2]:  # A value that does not parse is refused, and UnicodeError is what a parser raises.
        assert (error, step.place, machine.ran) == ("UnicodeError", "settings.py:Setting.read", []), step
        return
    assert ended == [7], step
    ((how, command, environ),) = machine.ran
    assert command == COMMAND, step
    assert how == "beside" or SOCKET_VARIABLE not in environ, step
    assert ("the command runs without Paceline" in said.err) == (how == "instead"), step
    assert len([line for line in said.err.splitlines() if error in line or "No space" in line]) <= 1, step


@pytest.mark.long
@pytest.mark.filterwarnings("ignore::ResourceWarning", "ignore::pytest.PytestUnraisableExceptionWarning")
@pytest.mark.parametrize("error", ERRORS)
def test_a_start_that_breaks_at_any_step_ends_in_the_plain_command(
    machine: Machine, capsys: pytest.CaptureFixture[str], error: str
) -> None:
    """Each step once, by one kind of exception or another."""
    for step in found(machine)[list(ERRORS).index(error) :: len(ERRORS)]:
        check(machine, step, error, capsys)


@pytest.mark.slow
@pytest.mark.filterwarnings("ignore::ResourceWarning", "ignore::pytest.PytestUnraisableExceptionWarning")
@pytest.mark.parametrize("error", ERRORS)
def test_every_step_may_break_by_every_exception(
    machine: Machine, capsys: pytest.CaptureFixture[str], error: str
) -> None:
    """The same, all with all."""
    for step in found(machine):
        check(machine, step, error, capsys)


def test_the_command_is_found_where_options_cannot_be_read() -> None:
    """What takes a word is listed beside the net, and is what the parser knows."""
    takes = {
        option
        for action in run_start.parser()._actions
        for option in action.option_strings
        if action.nargs != 0 and option.startswith("--")
    }
    assert set(run.VALUED) == takes
    assert run.plain_command(["--jo", "x", "--nccl-inspector", "--", "a", "--", "b"]) == ["a", "--", "b"]


@pytest.mark.long
@pytest.mark.parametrize(("number", "status"), [(errno.ENOENT, 127), (errno.EACCES, 126), (errno.ENOEXEC, 126)])
def test_a_command_that_cannot_be_run_is_said_in_its_own_words(
    machine: Machine, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], number: int, status: int
) -> None:
    """Whether it is started beside us or in our place."""

    def refuse(*_: Any, **__: Any) -> None:
        raise OSError(number, os.strerror(number), COMMAND[0])

    monkeypatch.setattr(run.os, "execvpe", refuse)
    assert run.run_instead(COMMAND, {}) == status
    monkeypatch.setattr(foreground.os, "posix_spawnp", refuse)
    assert machine.start("--no-panel") == status
    first, second = capsys.readouterr().err.splitlines()
    assert first == second == "paceline: train: " + ("no such command" if status == 127 else os.strerror(number))


@pytest.mark.long
@pytest.mark.parametrize("number", [errno.EAGAIN, errno.ENOMEM, errno.EMFILE, errno.E2BIG])
def test_a_command_for_which_nothing_is_left_beside_us_takes_our_place(
    machine: Machine, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], number: int
) -> None:
    """A process less, or its own surroundings alone, may be what fits."""

    def refuse(*_: Any, **__: Any) -> None:
        raise OSError(number, os.strerror(number))

    monkeypatch.setattr(foreground.os, "posix_spawnp", refuse)
    assert machine.start("--no-panel") == 7
    assert [ran[:2] for ran in machine.ran] == [("instead", COMMAND)]
    assert os.strerror(number) in capsys.readouterr().err


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (["--total-steps", "-5"], "--total-steps='-5': "),
        (["--total-steps", "many"], "--total-steps='many': "),
        (["--probe-budget", "101"], "--probe-budget='101': "),
    ],
)
def test_what_is_wrong_with_an_option_names_the_option(
    words: list[str], message: str, capsys: pytest.CaptureFixture[str]
) -> None:
    """And not the variable that it stands for, which nobody has set."""
    assert run_start.asked([*words, "--", "train"]) is None
    said = capsys.readouterr().err
    assert message in said
    assert "PACELINE_" not in said
