"""What a person reads is written in the characters that the terminal has, by every command that writes any."""

import io
import os
import subprocess
import sys
from pathlib import Path

import pytest

from paceline import __main__ as program
from paceline.__main__ import COMMANDS, SERVICE_COMMANDS
from paceline.standard_streams import characters, written_as
from simulator.__main__ import main as simulate

RANK = str(Path(__file__).parents[1] / "training" / "rank.py")
#: A name as people choose them: Latin 1, Windows, Greek and Japanese letters, and a sign beyond 16 bits.
NAME = (
    "j\N{LATIN SMALL LETTER O WITH DIAERESIS}b\N{HORIZONTAL ELLIPSIS}\N{GREEK SMALL LETTER OMEGA}"
    "\N{CJK UNIFIED IDEOGRAPH-65E5}\N{ROCKET}"
)
SHOWN = {
    "ascii": "j\\u00f6b...\\u03c9\\u65e5\\ud83d\\ude80",
    "latin-1": "j\N{LATIN SMALL LETTER O WITH DIAERESIS}b...\\u03c9\\u65e5\\ud83d\\ude80",
    "cp1252": "j\N{LATIN SMALL LETTER O WITH DIAERESIS}b\N{HORIZONTAL ELLIPSIS}\\u03c9\\u65e5\\ud83d\\ude80",
    "utf-8": NAME,
}
#: Surroundings that ask for each of them.
ASKED = {
    "ascii": {"PYTHONIOENCODING": "ascii"},
    "latin-1": {"PYTHONIOENCODING": "latin-1"},
    "cp1252": {"PYTHONIOENCODING": "cp1252:strict"},
    "utf-8": {"PYTHONIOENCODING": "utf-8"},
    "C": {"LANG": "C", "LC_ALL": "C", "PYTHONUTF8": "0", "PYTHONCOERCECLOCALE": "0"},
    "C, as Python improves it": {"LANG": "C", "LC_ALL": "C"},
}


class Terminal:
    """Standard output and error that take one encoding."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch, encoding: str) -> None:
        self.encoding, self.held = encoding, (io.BytesIO(), io.BytesIO())
        for name, raw in zip(("stdout", "stderr"), self.held, strict=True):
            monkeypatch.setattr(sys, name, io.TextIOWrapper(raw, encoding=encoding, write_through=True))

    @property
    def text(self) -> str:
        """All that was written, which must be of this encoding."""
        return "".join(raw.getvalue().decode(self.encoding) for raw in self.held)


def status(words: list[str]) -> int:
    """The exit status of a command."""
    try:
        return program.main(words)
    except SystemExit as ended:
        return int(ended.code or 0)


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A recording of a job with a slow rank, and the log of a rank that failed; both with letters of all kinds."""
    made = tmp_path_factory.mktemp("encodings")
    words = ["--ranks", "4", "--steps", "60", "--job", NAME, "--fault", "compute:rank=2,size=0.6,from=20"]
    assert simulate([*words, "-o", str(made / "run.jsonl")]) == 0
    trace = f'[rank1]: Traceback (most recent call last):\n[rank1]:   File "/w/{NAME}.py", line 7, in {NAME}\n'
    (made / f"{NAME}.log").write_text(f"{trace}[rank1]: ValueError: {NAME}\n", encoding="utf-8")
    return made


#: Commands that read files, and how; each says the name.
READ = {
    "analyze --panel": ["analyze", "run.jsonl", "--panel"],
    "analyze": ["analyze", "run.jsonl"],
    "analyze --json": ["analyze", "run.jsonl", "--json"],
    "report": ["report", "run.jsonl"],
    "report as Markdown": ["report", "run.jsonl", "--format", "md"],
    "compare": ["compare", "run.jsonl", "run.jsonl"],
    "why": ["why", f"{NAME}.log"],
    "a file that is not there": ["analyze", f"{NAME}.jsonl"],
    "a file of another kind": ["analyze", f"{NAME}.log"],
    "an archive that is not there": ["history", "jobs", "--from", f"{NAME}/none"],
    "no such command": [NAME],
}


@pytest.mark.long
@pytest.mark.parametrize("encoding", SHOWN)
@pytest.mark.parametrize("name", sorted({*COMMANDS, *SERVICE_COMMANDS}))
def test_every_command_explains_itself(monkeypatch: pytest.MonkeyPatch, name: str, encoding: str) -> None:
    """And repeats a word that it does not know."""
    terminal = Terminal(monkeypatch, encoding)
    assert status([name, "--help"]) == 0
    assert f"paceline {name}" in terminal.text
    assert status([name, f"--{NAME}", NAME]) == 2
    assert "Traceback" not in terminal.text


@pytest.mark.slow
@pytest.mark.parametrize("encoding", SHOWN)
@pytest.mark.parametrize("command", READ)
def test_what_is_read_is_shown(monkeypatch: pytest.MonkeyPatch, folder: Path, command: str, encoding: str) -> None:
    """Findings as lines of JSON are data: UTF-8 always."""
    monkeypatch.chdir(folder)
    terminal = Terminal(monkeypatch, encoding)
    assert status(READ[command]) in (0, 1, 2)
    if command == "analyze --json":
        assert NAME in terminal.held[0].getvalue().decode()
        return
    assert SHOWN[encoding] in terminal.text
    assert "Traceback" not in terminal.text


@pytest.mark.slow
@pytest.mark.parametrize("asked", ASKED)
def test_the_panel_of_a_run_is_in_the_characters_of_its_caller(tmp_path: Path, asked: str) -> None:
    """It is made by a process of ours that is told nothing by Python's variables."""
    words = [sys.executable, "-m", "paceline", "run", "--job", NAME, "--", sys.executable, RANK, "0", "20", "7"]
    done = subprocess.run(words, capture_output=True, check=False, env={**os.environ, **ASKED[asked]}, cwd=tmp_path)
    encoding = asked if asked in SHOWN else "ascii" if asked == "C" else "utf-8"
    shown = done.stderr.decode(encoding)
    assert (done.returncode, done.stdout) == (7, b"")
    assert f"paceline: job {SHOWN[encoding]}, 1 rank" in shown
    assert "Verdict" in shown
    assert "Traceback" not in shown


def test_another_process_writes_as_this_one(monkeypatch: pytest.MonkeyPatch) -> None:
    """With what its owner has chosen in place of what the encoding lacks."""
    for encoding, errors, shown in (
        ("ascii", "strict", SHOWN["ascii"]),
        ("ascii", "replace", "j?b????"),
        ("cp1252", "backslashreplace", SHOWN["cp1252"]),
        ("utf-8", "surrogateescape", NAME),
    ):
        ours = io.TextIOWrapper(io.BytesIO(), encoding=encoding, errors=errors)
        terminal = Terminal(monkeypatch, "utf-8")
        terminal.encoding = encoding
        written_as(characters(ours))
        print(NAME, end="", file=sys.stderr)
        assert terminal.text == shown
