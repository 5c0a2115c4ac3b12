"""What our commands write is written with what standard output and error can show, and only where they are open."""

import io
import json
import sys
from typing import Any

import pytest

from paceline import __main__ as program
from paceline import standard_streams
from paceline.commands import topics
from paceline.standard_streams import plain, ready_streams, show_plainly
from paceline.terminal import say

TEXT = "41 \N{DEGREE SIGN}C \N{HORIZONTAL ELLIPSIS} 3 \N{MICRO SIGN}s"


def written(encoding: str, errors: str, text: str) -> str:
    raw = io.BytesIO()
    stream = io.TextIOWrapper(raw, encoding=encoding, errors=errors)
    show_plainly(stream)
    stream.write(text)
    stream.flush()
    return raw.getvalue().decode(encoding)


@pytest.mark.parametrize("errors", ["strict", "surrogateescape", "backslashreplace"])
def test_a_terminal_shows_what_it_can(errors: str) -> None:
    """ASCII, Latin 1, Windows, and UTF-8, which shows all."""
    assert written("ascii", errors, TEXT) == "41 deg C ... 3 us"
    assert written("latin-1", errors, TEXT) == "41 \N{DEGREE SIGN}C ... 3 \N{MICRO SIGN}s"
    assert written("cp1252", errors, TEXT) == TEXT
    assert written("utf-8", errors, TEXT) == TEXT


def test_what_its_owner_has_chosen_is_kept() -> None:
    """`PYTHONIOENCODING=ascii:replace`, say."""
    assert written("ascii", "replace", TEXT) == "41 ?C ? 3 ?s"


def test_every_character_can_be_written_and_json_stays_json() -> None:
    """Those beyond 16 bits and halves of such, too."""
    text = json.dumps({"name": "a\N{GREEK SMALL LETTER OMEGA}\U0001f600\udc80"}, ensure_ascii=False)
    assert json.loads(written("ascii", "strict", text)) == json.loads(text)
    every = "".join(map(chr, [*range(0x3000), *range(0xD7F0, 0xE010), 0x10FFFF]))
    assert plain(every).isascii()
    assert written("ascii", "strict", every).isascii()
    assert "\\udc80" in written("utf-8", "strict", text)


def test_nothing_of_ours_goes_to_standard_output_where_standard_error_is_closed(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """Python calls it None then, and its print takes the other one."""
    monkeypatch.setattr(sys, "stderr", None)
    say("not for standard output")
    ready_streams()
    assert sys.stderr is not None
    print("nor this", file=sys.stderr)
    sys.stderr.close()
    assert capsys.readouterr().out == ""


def test_a_closed_stream_keeps_its_number(monkeypatch: pytest.MonkeyPatch) -> None:
    """What is opened next would get it: a pipe of ours, into which somebody prints."""
    opened: list[str] = []

    def fstat(number: int) -> None:
        if number in (0, 2):
            raise OSError(9, "Bad file descriptor")

    monkeypatch.setattr(standard_streams.os, "fstat", fstat)
    monkeypatch.setattr(standard_streams.os, "open", lambda path, *_: opened.append(path))
    standard_streams.hold_closed()
    monkeypatch.undo()
    assert opened == ["/dev/null"] * 2


@pytest.mark.parametrize(
    "error", [OSError(28, "No space left on device"), MemoryError(), OSError(24, "Too many files")]
)
def test_what_the_machine_refuses_a_command_is_a_sentence(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], error: Exception
) -> None:
    """Of every command: no traceback, one line with the command's name, status 1."""

    def refused(*_: Any) -> int:
        raise error

    monkeypatch.setattr(topics, "main", refused)
    monkeypatch.setattr(sys, "excepthook", sys.excepthook)
    assert program.main(["topics"]) == 1
    said = capsys.readouterr()
    assert said.out == ""
    assert said.err == f"paceline: topics: {type(error).__name__}{f': {error}' if str(error) else ''}\n"


def test_a_library_that_cannot_be_loaded_is_a_sentence(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """With what it came of, and not with the page that a library makes of that."""

    def load(_: str) -> None:
        raise ImportError("\n\nREAD THIS\n" * 40) from OSError("failed to map segment from shared object")

    monkeypatch.setattr(program, "_offered", load)
    monkeypatch.setattr(sys, "excepthook", sys.excepthook)
    assert program.main(["analyze", "x"]) == 1
    said = capsys.readouterr().err
    assert said == "paceline: analyze cannot be loaded: OSError: failed to map segment from shared object\n"
