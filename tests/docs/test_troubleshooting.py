"""docs/troubleshooting.md quotes what the product says."""

import ast
import re
import tomllib
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))
#: What the wheel holds is what a user runs, and so what can print a message.
PACKAGES = PROJECT["tool"]["hatch"]["build"]["targets"]["wheel"]["only-include"]
#: What a library or the system says, and the product passes on.
OF_OTHERS = ("NVML Shared Library Not Found",)
LEAST_LETTERS = 6


def said(node):
    """The text of a string, with … for what is filled in; None for anything else."""
    if isinstance(node, ast.Constant):
        return node.value if isinstance(node.value, str) else None
    if isinstance(node, ast.JoinedStr):
        return "".join(part.value if isinstance(part, ast.Constant) else "…" for part in node.values)
    return None


@pytest.fixture(scope="module")
def sentences():
    """Every text in the product's code, one below the other."""
    texts = []
    for package in PACKAGES:
        for file in sorted((ROOT / package).rglob("*.py")):
            texts += filter(None, map(said, ast.walk(ast.parse(file.read_text()))))
    return "\n".join(texts)


def messages():
    """The quoted messages: of each row of a table under the heading ``message``, what stands in backquotes first."""
    heading = ""
    for line in (ROOT / "docs/troubleshooting.md").read_text().splitlines():
        cells = [cell.strip() for cell in line.strip("|").split("|")]
        if line.startswith("|---"):
            continue
        if not line.startswith("|"):
            heading = ""
        elif not heading:
            heading = cells[0]
        elif heading == "message":
            yield from re.findall(r"`([^`]+)`", cells[0])


QUOTED = list(messages())


def test_messages_are_quoted():
    """The tables were read."""
    assert len(QUOTED) > 25


@pytest.mark.long
@pytest.mark.parametrize("message", QUOTED)
def test_the_product_says_it(message, sentences):
    """Every part of a quoted message that is not filled in stands in the code."""
    parts = [part.strip(" :;,") for part in message.split("…")]
    for part in (part for part in parts if len(part) >= LEAST_LETTERS and part not in OF_OTHERS):
        assert part in sentences, part
