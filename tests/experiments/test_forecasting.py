"""The evaluation of forecasts asks for its data, and says what belongs there."""

from pathlib import Path

import pytest

from experiments.forecasting import __main__ as command
from experiments.forecasting.data import FILES, missing

ROOT = Path(__file__).parents[2]


def refusal_of(arguments: list[str], monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> str:
    """The only line it says before it stops with status 2."""
    monkeypatch.setattr("sys.argv", ["experiments.forecasting", *arguments])
    assert command.main() == 2
    (line,) = capsys.readouterr().err.splitlines()
    return line


def test_without_a_folder_one_line_names_every_file(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """Nothing outside the repository is read unasked."""
    line = refusal_of([], monkeypatch, capsys)
    assert "DATA" in line
    assert all(name in line for name in FILES)


def test_a_folder_that_lacks_files_is_told_which(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """Those that are there are not named."""
    for name in FILES[1:]:
        (tmp_path / name).touch()
    line = refusal_of(["--data", str(tmp_path)], monkeypatch, capsys)
    assert FILES[0] in line
    assert FILES[1] not in line
    (tmp_path / FILES[0]).touch()
    assert missing(tmp_path) is None


def test_the_page_says_which_columns_belong_in_each_file() -> None:
    """Whoever wants to run it finds every file in the table."""
    page = (ROOT / "docs" / "benchmarks.md").read_text(encoding="utf-8")
    assert all(f"`{name}`" in page for name in FILES)
