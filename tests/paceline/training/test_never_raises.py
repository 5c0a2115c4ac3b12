"""Nothing of ours raises into a script: each call that our code makes in its process is broken in turn.

PyTorch stays away here; `test_never_raises_with_pytorch.py` has it.
"""

import errno
import os
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from paceline.integrations import inside
from paceline.training import activation, phase, start, step, stop, watching
from paceline.training.messages import SOCKET_VARIABLE
from paceline.training.probe import Probe
from paceline.training.tracking_words import TRACKING_VARIABLE
from tests.breaking import broken, let_go, steps

ERRORS: dict[str, Callable[[], BaseException]] = {
    "OSError": lambda: OSError(errno.EMFILE, "Too many open files"),
    "MemoryError": MemoryError,
    "RuntimeError": lambda: RuntimeError("can't start new thread"),
    "UnicodeError": lambda: UnicodeEncodeError("ascii", "\N{DEGREE SIGN}", 0, 1, "ordinal not in range"),
    "KeyError": lambda: KeyError("getpwuid(): uid not found: 4711"),
}


@pytest.fixture
def script(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Iterator[Callable[[], None]]:
    """A script that times itself in every way that there is without PyTorch."""
    monkeypatch.setattr(watching.subprocess, "Popen", lambda *_, **__: None)
    monkeypatch.setattr(watching.tempfile, "gettempdir", lambda: str(tmp_path))
    monkeypatch.setattr(activation, "MODULES", ())
    monkeypatch.setattr(watching, "PATIENCE_S", 0.0)
    monkeypatch.setattr(sys, "meta_path", list(sys.meta_path))
    monkeypatch.setattr("paceline.training.shipping.AGAIN_AT_END_S", 0.0)

    def run() -> None:
        for name in (SOCKET_VARIABLE, TRACKING_VARIABLE):
            os.environ.pop(name, None)
        activation._state.__init__()  # type: ignore[misc]  # as in a process that has just begun
        start(record=str(tmp_path / "run.jsonl"))
        for _ in range(2):
            with phase("data"):
                pass
            with phase("forward"):
                pass
            step()
        stop()
        stop()
        os.environ.pop(SOCKET_VARIABLE, None)
        inside.begin()
        inside.taken()
        inside.end()

    yield run
    session = activation.current()
    if session is not None:
        session.end()
        session.probe.stop()
    activation._state.__init__()  # type: ignore[misc]
    for name in (SOCKET_VARIABLE, TRACKING_VARIABLE):
        os.environ.pop(name, None)
    let_go()


@pytest.mark.long
@pytest.mark.filterwarnings("ignore::ResourceWarning", "ignore::pytest.PytestUnraisableExceptionWarning")
@pytest.mark.parametrize("error", ERRORS)
def test_no_step_raises_into_the_script(
    script: Callable[[], None], capsys: pytest.CaptureFixture[str], error: str
) -> None:
    """One line at most says what failed, on standard error."""
    script()
    every = steps(script, lambda path: path.startswith(("training/", "integrations/")))
    assert len({one.place for one in every}) > 25, "the script was not watched"
    for one in every[list(ERRORS).index(error) :: len(ERRORS)]:
        capsys.readouterr()
        broken(script, one, ERRORS[error]())
        said = capsys.readouterr()
        assert said.out == "", one
        assert len(said.err.splitlines()) <= 1, one


class Refuses:
    """A standard error that takes nothing."""

    def write(self, _: str) -> int:
        raise BrokenPipeError

    def flush(self) -> None:
        raise ValueError("I/O operation on closed file")


@pytest.mark.parametrize("stream", [None, Refuses()], ids=["closed", "refuses"])
def test_a_failure_that_cannot_be_said_is_not_raised(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], stream: Any
) -> None:
    """Nor said on standard output, which is the script's."""
    probe = Probe()
    monkeypatch.setattr(sys, "stderr", stream)
    probe.fail(MemoryError())
    activation.fail(MemoryError())
    assert (probe.stopped, capsys.readouterr().out) == (True, "")
    activation._state.__init__()  # type: ignore[misc]
