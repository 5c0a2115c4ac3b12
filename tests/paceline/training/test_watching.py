"""``watch()`` without ``paceline run``: each has a sidecar of its own, and leaves the environment as it was."""

import os
import select
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path
from types import SimpleNamespace
from typing import Any, NamedTuple

import pytest

from paceline.training import activation, start, stop, watch, watching
from paceline.training.failure_messages import Failed
from paceline.training.messages import SOCKET_VARIABLE
from paceline.training.tracking_words import TRACKING_VARIABLE


class Started(NamedTuple):
    """A program that was started, with its options, and what it was given open."""

    module: str
    options: list[str]
    fds: list[int]

    def option(self, name: str) -> str:
        """The value of an option, however it is given."""
        joined = next((word for word in self.options if word.startswith(f"{name}=")), None)
        return joined.partition("=")[2] if joined else self.options[self.options.index(name) + 1]


@pytest.fixture
def started(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Iterator[list[Started]]:
    """What is started, in a process that has just begun."""
    programs: list[Started] = []

    def note(module: str, options: list[str], *fds: int) -> None:
        programs.append(Started(module, options, [os.dup(fd) for fd in fds]))

    monkeypatch.setattr(watching, "_start", note)
    monkeypatch.setattr(watching, "_watching", watching._Watching())
    monkeypatch.setattr(tempfile, "gettempdir", lambda: str(tmp_path))
    monkeypatch.setattr(activation, "_state", activation._State())
    monkeypatch.setattr(activation, "MODULES", ())
    monkeypatch.setattr(sys, "meta_path", list(sys.meta_path))
    for name in ("XDG_RUNTIME_DIR", SOCKET_VARIABLE, TRACKING_VARIABLE, "LOCAL_RANK"):
        monkeypatch.setenv(name, "")  # and put back in the end
        monkeypatch.delenv(name)
    yield programs
    stop()
    for program in programs:
        for fd in program.fds:
            os.close(fd)


def test_each_watch_starts_a_sidecar_of_its_own(started: list[Started], tmp_path: Path) -> None:
    """Folds, or cells of a notebook: each has its recording, whether the sidecar of the one before has ended or not."""
    sockets = []
    for name in ("first", "second"):
        with watch(record=str(tmp_path / name)):
            sockets.append(os.environ[SOCKET_VARIABLE])
        assert SOCKET_VARIABLE not in os.environ
    assert [program.option("--record") for program in started] == [str(tmp_path / "first"), str(tmp_path / "second")]
    assert [program.option("--socket") for program in started] == sockets
    assert len(set(sockets)) == 2


def test_a_second_training_is_tracked_as_the_first(started: list[Started]) -> None:
    """Its points come from the tracking beside its own sidecar."""
    for _ in range(2):
        start(track=True)
        assert os.environ[TRACKING_VARIABLE] == started[-1].option("--socket")
        stop()
        assert TRACKING_VARIABLE not in os.environ
    assert [program.module for program in started] == ["paceline.sidecar", "paceline.tracking"] * 2


def test_a_start_within_a_watch_starts_no_other_sidecar(started: list[Started]) -> None:
    """As a framework's callback does."""
    with watch():
        start()
    assert len(started) == 1


def test_the_sidecar_of_paceline_run_is_left_to_it(started: list[Started], monkeypatch: pytest.MonkeyPatch) -> None:
    """It is there before the script and after it."""
    monkeypatch.setenv(SOCKET_VARIABLE, "of-paceline-run")
    for _ in range(2):
        with watch():
            pass
    assert (started, os.environ[SOCKET_VARIABLE]) == ([], "of-paceline-run")


def test_a_sidecar_can_tell_when_its_watch_has_ended(started: list[Started]) -> None:
    """It need not wait for a first rank then."""
    with watch():
        (followed,) = started[0].fds
        assert select.select([followed], [], [], 0)[0] == []
    assert select.select([followed], [], [], 0)[0] == [followed]


def test_an_exception_that_leaves_a_watch_is_reported(started: list[Started], monkeypatch: pytest.MonkeyPatch) -> None:
    """With its line, and the exception goes on to the script."""
    reported: list[Any] = []
    running = SimpleNamespace(end=lambda failed=None: reported.append(failed), probe=SimpleNamespace(stop=lambda: None))
    monkeypatch.setattr(watching, "current", lambda: running)
    with pytest.raises(ValueError, match="bad loss"), watch():
        raise ValueError("bad loss")
    (failed,) = reported
    assert isinstance(failed, Failed)
    assert (failed.error, failed.message, failed.handled) == ("ValueError", "bad loss", True)
    assert "test_watching.py:" in failed.line
