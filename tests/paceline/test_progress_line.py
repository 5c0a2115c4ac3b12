"""The line of progress on a terminal, beside the lines of other programs."""

import io
import sys

import pytest

from paceline.terminal import Progress


class Terminal(io.StringIO):
    def isatty(self) -> bool:
        return True


def test_what_others_write_gets_a_line_of_its_own(monkeypatch: pytest.MonkeyPatch) -> None:
    """The demo's ranks write to the same terminal: nothing is joined to what progress shows."""
    screen = Terminal()
    monkeypatch.setattr(sys, "stderr", screen)
    progress = Progress(quiet_s=0.0)
    progress._every_s = 0.0
    progress.tell("51 s: step 37")
    screen.write("[train] step 40: rank 2 turns slow\n")
    progress.tell("52 s: step 41")
    progress.end()
    rows = [line.rsplit("\r", 1)[-1].replace("\x1b[K", "") for line in screen.getvalue().splitlines()[-1:]]
    assert "\r[train] step 40: rank 2 turns slow\n" in screen.getvalue()
    assert rows == [""]
