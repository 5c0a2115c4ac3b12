"""A constant of the contract has one home (``paceline/events/``); a second one that drifts apart fails in silence.

Rule of this file: sources are read, never run. ``RULES`` says what counts as a second one: a form of the syntax tree,
not a number or a word alone, so that what only happens to be equal passes. ``OTHERS`` holds what has the form and
another meaning, each with its reason.
"""

import ast
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import NamedTuple

import pytest

from tests.product import PRODUCT

ROOT = Path(__file__).parents[2]
FOLDERS = (*PRODUCT, "importers", "simulator")


class Rule(NamedTuple):
    """``words`` are all in a source that breaks it; ``breaks`` judges a node; ``fix`` says what to write instead."""

    home: str
    words: tuple[str, ...]
    breaks: Callable[[ast.AST], bool]
    fix: str


def is_target(node: ast.AST) -> bool:
    """Whether it is the text that a target begins with which is about a suggestion."""
    return isinstance(node, ast.Constant) and node.value == "suggestion:"


RULES = {
    "suggestion_target": Rule(
        "paceline/events/commands.py",
        ("suggestion:",),
        is_target,
        "use paceline.events.SUGGESTION_TARGET, or suggestion_target of paceline/command_rules.py",
    ),
}
#: Path and rule of what has the form alone.
OTHERS = {
    ("paceline/alerts/alert.py", "suggestion_target"): "the id of an alert, beside finding:ID; no command goes there",
}


def repeats(path: str, source: str) -> Iterator[tuple[str, str]]:
    """Each repeat in ``source``: its rule, and where it is and what to write instead."""
    rules = [one for one in RULES.items() if one[1].home != path and all(word in source for word in one[1].words)]
    nodes = ast.walk(ast.parse(source)) if rules else ()
    for node in nodes:
        for name, rule in rules:
            if rule.breaks(node):
                yield name, f"{path}:{getattr(node, 'lineno', 0)}: {rule.fix}"


def found() -> list[tuple[str, str]]:
    paths = [path for folder in FOLDERS for path in sorted((ROOT / folder).rglob("*.py"))]
    named = [(path.relative_to(ROOT).as_posix(), path.read_text()) for path in paths]
    return [one for path, source in named for one in repeats(path, source)]


@pytest.mark.long
def test_a_constant_of_the_contract_has_one_home() -> None:
    every = found()
    others = {(where.partition(":")[0], name) for name, where in every} & OTHERS.keys()
    assert [where for name, where in every if (where.partition(":")[0], name) not in OTHERS] == []
    assert others == OTHERS.keys(), "what is let pass is still there"


@pytest.mark.parametrize("name", RULES)
def test_the_home_of_each_holds_it(name: str) -> None:
    rule = RULES[name]
    assert any(map(rule.breaks, ast.walk(ast.parse((ROOT / rule.home).read_text()))))


@pytest.mark.parametrize(
    ("name", "source"),
    [
        ("suggestion_target", 'TARGET = "suggestion:"'),
        ("suggestion_target", 'send(f"suggestion:{id_}")'),
    ],
)
def test_a_second_one_is_found_with_its_line(name: str, source: str) -> None:
    assert [(rule, where.split()[0]) for rule, where in repeats("ui/a.py", f"\n{source}\n")] == [(name, "ui/a.py:2:")]


@pytest.mark.parametrize(
    "source",
    [
        'HELP = "suggestion:ID or streams"',
        '"""Its target is suggestion: and an id."""',
        'table = "suggestion"',
    ],
)
def test_what_only_looks_like_one_passes(source: str) -> None:
    assert list(repeats("ui/a.py", source)) == []
