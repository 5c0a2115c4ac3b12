"""Every example in a docstring runs, and says what the code answers.

Rule of this file: a module with an example is found by its text, imported under its own name and run by doctest. An
example must not need torch, a broker or a device: what it shows is how a function is called.
"""

import doctest
import importlib
import re
import tomllib
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))
PACKAGES = PROJECT["tool"]["hatch"]["build"]["targets"]["wheel"]["only-include"]
WITH_EXAMPLES = sorted(
    ".".join(path.relative_to(ROOT).with_suffix("").parts)
    for package in PACKAGES
    for path in (ROOT / package).rglob("*.py")
    if re.search(r"^\s*>>> ", path.read_text(encoding="utf-8"), re.M)
)


@pytest.mark.long
@pytest.mark.parametrize("name", WITH_EXAMPLES)
def test_examples_are_right(name: str, capsys: pytest.CaptureFixture[str]) -> None:
    result = doctest.testmod(importlib.import_module(name))
    assert result.attempted > 0, "the example is in no docstring"
    assert result.failed == 0, capsys.readouterr().out


def test_there_are_examples() -> None:
    """Formulas, models and ids show theirs."""
    assert {"streams.episodes.finding", "streams.robust", "forecaster.scores"} <= set(WITH_EXAMPLES)
