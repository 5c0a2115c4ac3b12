"""``paceline import``: files in, a recording out, and what it says when it cannot."""

import pytest

from importers.__main__ import main
from paceline.recording import Line, read

GOOD = "rank,step,op,start,duration\n" + "".join(f"{r},{s},f,{s},0.5\n" for s in range(3) for r in range(2))


def test_a_table_becomes_a_recording(tmp_path, capsys):
    """The recording holds the rows; what was left out is said on standard error."""
    table, out = tmp_path / "t.csv", tmp_path / "out.jsonl"
    table.write_text(GOOD + "0,1,f,5,-1\n")
    assert main(["timeline", str(table), "-o", str(out), "--job", "mine"]) == 0
    lines = list(read(str(out)))
    assert lines
    assert all(isinstance(line, Line) and line.key == "mine" for line in lines)
    assert "1 rows: negative duration" in capsys.readouterr().err


@pytest.mark.parametrize(
    ("options", "content"),
    [
        (["--map", "speed=x"], GOOD),
        (["--map", "rank"], GOOD),
        (["--map", "rank=nobody"], GOOD),
        (["--op", "f=fly"], GOOD),
        ([], "a,b\n1,2\n"),
        ([], ""),
    ],
)
def test_what_is_wrong_costs_one_line_and_no_recording(tmp_path, capsys, options, content):
    """A wrong option or table ends with status 2 and one line, and leaves an older recording as it was."""
    table, out = tmp_path / "t.csv", tmp_path / "out.jsonl"
    table.write_text(content)
    out.write_text("old")
    assert main(["timeline", str(table), "-o", str(out), *options]) == 2
    assert len(capsys.readouterr().err.splitlines()) == 1
    assert out.read_text() == "old"


def test_a_missing_file_is_named(tmp_path, capsys):
    """A file that is not there ends with status 1 and its name."""
    assert main(["kineto", str(tmp_path / "nothing.json"), "-o", str(tmp_path / "o.jsonl")]) == 1
    assert "nothing.json" in capsys.readouterr().err
