"""How long ago a time was is put into words in one place, which knows that no time of 0 is a date.

Rule of this file: sources are read, never run.
"""

import ast
from pathlib import Path

import pytest

from tests.product import PRODUCT

ROOT = Path(__file__).parents[2]
#: ``age`` and ``ahead`` themselves; and how late a command came, which is no date.
PLACES = {"paceline/words.py", "ui/moments.py", "paceline/command_rules.py"}


def says_ago(source: str) -> bool:
    """Whether a text with a number in it ends in "ago"."""
    return any(
        isinstance(part, ast.Constant) and " ago" in f"{part.value} "
        for node in ast.walk(ast.parse(source))
        if isinstance(node, ast.JoinedStr)
        for part in node.values
    )


@pytest.mark.long
def test_how_long_ago_is_said_in_one_place() -> None:
    paths = [path for name in PRODUCT for path in (ROOT / name).rglob("*.py")]
    sources = {path.relative_to(ROOT).as_posix(): path.read_text() for path in paths}
    assert {name for name, source in sources.items() if " ago" in source and says_ago(source)} == PLACES


def test_the_rule_finds_what_it_is_for() -> None:
    assert says_ago('f"{now_s - then_s:.0f} s ago"')
    assert not says_ago('f"as of {age(now_s, then_s)}"')
