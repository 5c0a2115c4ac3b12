"""``paceline import``: files in, a recording out, and what it says when it cannot."""

import gzip
import os
import resource
import subprocess
import sys
from pathlib import Path

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


@pytest.fixture(scope="module")
def bomb(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A file of a thousandth of the size of what it holds."""
    path = tmp_path_factory.mktemp("bomb") / "bomb.gz"
    path.write_bytes(gzip.compress(b" " * (100 << 20)) * 15)
    return path


@pytest.mark.slow
@pytest.mark.parametrize(
    ("kind", "name"), [("kineto", "rank0.json.gz"), ("nccl-inspector", "a.log.gz"), ("timeline", "t.csv.gz")]
)
@pytest.mark.parametrize("options", [["--most-unpacked", "0.125"], []], ids=["bound", "memory"])
def test_a_bomb_costs_one_line(tmp_path, bomb, kind, name, options):
    """More than is allowed, or than memory holds: one line that names the file, and no recording."""
    path = tmp_path / name
    path.symlink_to(bomb)
    assert path.stat().st_size < 2_000_000
    done = subprocess.run(
        [sys.executable, "-m", "paceline", "import", kind, str(path), "-o", str(tmp_path / "o.jsonl"), *options],
        preexec_fn=lambda: resource.setrlimit(resource.RLIMIT_AS, (700 << 20, 700 << 20)),
        env=os.environ | {"OPENBLAS_NUM_THREADS": "1"},
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode in (1, 2)
    assert len(done.stderr.splitlines()) == 1, done.stderr
    assert name in done.stderr
    assert ("--most-unpacked" if options else "memory") in done.stderr
    assert not (tmp_path / "o.jsonl").exists()


def test_what_is_within_the_bound_is_imported(tmp_path, capsys):
    """A table read twice, once for its header, counts once."""
    table, out = tmp_path / "t.csv.gz", tmp_path / "out.jsonl"
    table.write_bytes(gzip.compress(GOOD.encode()))
    assert main(["timeline", str(table), "-o", str(out), "--most-unpacked", str(len(GOOD) / 2**30)]) == 0
    assert main(["timeline", str(table), "-o", str(out), "--most-unpacked", str((len(GOOD) - 1) / 2**30)]) == 1
    assert "t.csv.gz: more than" in capsys.readouterr().err


def test_damaged_compression_costs_one_line(tmp_path, capsys):
    """What is no longer gzip in the middle is told with the file's name."""
    table = tmp_path / "t.csv.gz"
    packed = bytearray(gzip.compress(os.urandom(4096).hex().encode()))
    packed[100:200] = bytes(100)
    table.write_bytes(packed)
    assert main(["timeline", str(table), "-o", str(tmp_path / "out.jsonl")]) == 1
    (line,) = capsys.readouterr().err.splitlines()
    assert "t.csv.gz" in line


def test_quiet_says_nothing_of_what_was_written(tmp_path, capfd):
    """Whoever imports into a file of his own for a moment has nothing to say of it."""
    table, recording = tmp_path / "ops.csv", tmp_path / "run.jsonl"
    table.write_text("rank,step,op,start,duration\n0,0,forward,0,1\n1,0,forward,0,1\n")
    for options, says in (([], True), (["--quiet"], False)):
        assert main(["timeline", str(table), "-o", str(recording), *options]) == 0
        assert (str(recording) in capfd.readouterr().err) is says
