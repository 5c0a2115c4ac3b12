"""What a report says to its reader is in plain words, as the docs are."""

import ast
from pathlib import Path

import pytest

from tests.house.test_words import dropped

SECTIONS = sorted((Path(__file__).parents[4] / "streams/reports/documents").glob("*.py"))


class Sentences(ast.NodeVisitor):
    """Strings of a module with a blank in them: no docstring, no name. Of an f-string its words, joined."""

    def __init__(self, source):
        self.found = []
        self.visit(ast.parse(source))

    def visit_Expr(self, node):
        if not isinstance(node.value, ast.Constant):
            self.generic_visit(node)

    def visit_JoinedStr(self, node):
        self._keep("".join(part.value if isinstance(part, ast.Constant) else "0" for part in node.values))
        for part in node.values:
            if isinstance(part, ast.FormattedValue):
                self.visit(part.value)

    def visit_Constant(self, node):
        if isinstance(node.value, str):
            self._keep(node.value)

    def _keep(self, text):
        if " " in text:
            self.found.append(text)


@pytest.mark.parametrize("path", SECTIONS, ids=lambda path: path.stem)
def test_sections_are_in_plain_words(path):
    """Customers read them."""
    wrong = {text: dropped(text) for text in Sentences(path.read_text(encoding="utf-8")).found}
    assert {text: words for text, words in wrong.items() if words} == {}


def test_a_dropped_word_is_seen_wherever_it_is_shown():
    """Also around a number and inside one; a docstring is nobody's to read in a report."""
    source = (
        '"""Told."""\ndef f(n):\n    """Heard."""\n    return [f"{n:,} were heard", "It stands", g("a told one")]\n'
    )
    assert [words for words in map(dropped, Sentences(source).found) if words] == [
        {"heard": "received, reporting, without data"},
        {"stands": "is, remains"},
        {"told": "reported, predicted"},
    ]
