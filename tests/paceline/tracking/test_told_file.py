"""What the analyzer tells in a file, read as it grows."""

from pathlib import Path

from paceline.events import Finding
from paceline.tracking.told_file import Panel, ToldFile
from streams.told_file import ToldFile as Written
from tests.derived_events import HOSTILE, finding


def test_what_the_analyzer_writes_is_what_is_read(tmp_path: Path) -> None:
    path = tmp_path / "told.jsonl"
    read = ToldFile(path)
    assert read.read() == []
    written = Written(str(path))
    found = finding(summary=HOSTILE)
    written.finding(found)
    assert read.read() == [found]
    written.panel("line 1\nline 2")
    assert read.read() == [Panel("line 1\nline 2")]
    assert read.read() == []


def test_half_a_line_is_waited_for_and_what_is_none_is_passed_over(tmp_path: Path) -> None:
    path = tmp_path / "told.jsonl"
    whole = tmp_path / "whole"
    Written(str(whole)).finding(finding())
    data = b'{"finding":{"id":1}}\nnot json\n\xff\n[]\n' + whole.read_bytes()
    read = ToldFile(path)
    path.write_bytes(data[:-10])
    assert read.read() == []
    path.write_bytes(data)
    (told,) = read.read()
    assert isinstance(told, Finding)
