"""One module builds decoders: elsewhere two threads could meet a type at the same time, which ends the process.

Rule of this file: sources are read, never run.
"""

import ast
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.product import PRODUCT

ROOT = Path(__file__).parents[2]
HOME = "paceline/decoders.py"


def built(tree: ast.Module) -> Iterator[int]:
    """The lines where a type is handed to msgspec."""
    for node in ast.walk(tree):
        if isinstance(node, ast.ImportFrom) and _takes_decoders(node):
            yield node.lineno
        if not isinstance(node, ast.Call) or not isinstance(node.func, ast.Attribute):
            continue
        name = ast.unparse(node.func)
        typed = node.func.attr == "decode" and any(word.arg == "type" for word in node.keywords)
        if typed or name == "msgspec.convert" or (name.startswith("msgspec.") and node.func.attr == "Decoder"):
            yield node.lineno


def _takes_decoders(node: ast.ImportFrom) -> bool:
    """Whether calls would no longer say that they are msgspec's."""
    whole = node.module == "msgspec" and any(one.name in ("convert", "json", "msgpack") for one in node.names)
    return whole or node.module in ("msgspec.json", "msgspec.msgpack")


@pytest.mark.parametrize("folder", PRODUCT)
def test_decoders_are_built_in_one_place(folder: str) -> None:
    paths = {path.relative_to(ROOT).as_posix(): path for path in (ROOT / folder).rglob("*.py")}
    found = {name: list(built(ast.parse(path.read_text()))) for name, path in paths.items() if name != HOME}
    assert {name: lines for name, lines in found.items() if lines} == {}


def test_the_rule_sees_each_way() -> None:
    source = """
from msgspec import json
msgspec.json.Decoder(Page)
msgspec.convert(told, Page)
encoding.decode(content, type=Page)
msgspec.json.decode(content)
content.decode()
"""
    assert list(built(ast.parse(source))) == [2, 3, 4, 5]
