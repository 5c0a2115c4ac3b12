"""State is data: a pure module keeps none between calls, and an object's is restored field by field.

Rule of this file: sources are read, never run. What must not be there is shown to the scan itself first, so that a
scan that sees nothing cannot pass.
"""

import ast
import tomllib
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))
PACKAGES = PROJECT["tool"]["hatch"]["build"]["targets"]["wheel"]["only-include"]
#: Methods by which a list, dict, set, deque or array changes.
CHANGING = {"append", "extend", "insert", "remove", "pop", "popitem", "clear", "update", "setdefault", "add", "discard"}
CHANGING |= {"sort", "reverse", "appendleft", "popleft", "fill", "put", "resize"}
MEMOS = {"cache", "lru_cache"}


def sources(*modules: str) -> list[Path]:
    """The files of modules and packages, named with dots."""
    folders = [ROOT / module.replace(".", "/") for module in modules]
    return sorted(
        path
        for folder in folders
        for path in (folder.rglob("*.py") if folder.is_dir() else [folder.with_suffix(".py")])
    )


def decisions() -> list[Path]:
    """The files that the import contract calls pure."""
    contracts = PROJECT["tool"]["importlinter"]["contracts"]
    return sources(*next(each for each in contracts if each["name"].startswith("Decisions"))["source_modules"])


def faults(paths: list[Path], scan: Callable[[ast.Module], list]) -> dict[str, list]:
    """What ``scan`` finds: file -> where."""
    seen = {str(path.relative_to(ROOT)): scan(ast.parse(path.read_text(encoding="utf-8"))) for path in paths}
    return {name: where for name, where in seen.items() if where}


def top_level(tree: ast.Module) -> set[str]:
    """Names that the module binds as it is read."""
    bound = {target for node in tree.body if isinstance(node, ast.Assign) for target in map(_root, node.targets)}
    bound |= {_root(node.target) for node in tree.body if isinstance(node, ast.AnnAssign)}
    bound |= {node.name for node in tree.body if isinstance(node, ast.ClassDef)}
    return bound - {""}


def _root(node: ast.expr) -> str:
    """The name that an attribute, an item or a slice is taken from: ``a`` of ``a.b[0]``."""
    while isinstance(node, ast.Attribute | ast.Subscript | ast.Starred):
        node = node.value
    return node.id if isinstance(node, ast.Name) else ""


def changes(function: ast.AST) -> Iterator[tuple[int, str]]:
    """What is changed in a function and not by giving a local name a new value: line and name."""
    for node in ast.walk(function):
        if isinstance(node, ast.Assign | ast.Delete):
            targets = node.targets
        elif isinstance(node, ast.AugAssign | ast.AnnAssign):
            targets = [node.target]
        elif isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute) and node.func.attr in CHANGING:
            if ast.unparse(node.func.value) != "np":  # numpy's functions of these names give new arrays
                yield node.lineno, _root(node.func.value)
            continue
        else:
            continue
        yield from ((node.lineno, _root(target)) for target in targets if not isinstance(target, ast.Name))


def locals_of(function: ast.FunctionDef) -> set[str]:
    """Names that belong to the function: its arguments and what it binds."""
    arguments = {argument.arg for argument in ast.walk(function.args) if isinstance(argument, ast.arg)}
    return arguments | {
        node.id for node in ast.walk(function) if isinstance(node, ast.Name) and isinstance(node.ctx, ast.Store)
    }


def remembered(tree: ast.Module) -> list[str]:
    """Where a module keeps something from one call to the next, line by line."""
    said = [f"{node.lineno}: global" for node in ast.walk(tree) if isinstance(node, ast.Global)]
    imported = {
        (alias.asname or alias.name).partition(".")[0]
        for node in ast.walk(tree)
        if isinstance(node, ast.Import | ast.ImportFrom)
        for alias in node.names
    }
    shared = top_level(tree) | imported | {"cls"}
    for function in ast.walk(tree):
        if not isinstance(function, ast.FunctionDef | ast.AsyncFunctionDef):
            continue
        outer = (shared - locals_of(function)) | {"cls"}
        said += [f"{line}: changes {name}" for line, name in changes(function) if name in outer]
        memos = [_root(each.func if isinstance(each, ast.Call) else each) for each in function.decorator_list]
        if (MEMOS | {"functools"}) & set(memos) and any(isinstance(each, ast.arg) for each in ast.walk(function.args)):
            said.append(f"{function.lineno}: remembers answers")
    return said


def resets(tree: ast.Module) -> list[int]:
    """Lines that call ``self.__init__``."""
    return [node.lineno for node in ast.walk(tree) if isinstance(node, ast.Call) and _is_init(node.func)]


def _is_init(called: ast.expr) -> bool:
    return isinstance(called, ast.Attribute) and called.attr == "__init__" and _root(called) == "self"


def untyped(tree: ast.Module) -> list[int]:
    """Lines that set fields by names held in data: ``setattr(self, name, ...)`` and ``vars(...).update``."""
    lines = []
    for node in ast.walk(tree):
        if not isinstance(node, ast.Call):
            continue
        called, first = ast.unparse(node.func), ast.unparse(node.args[0]) if node.args else ""
        if (called == "setattr" and first == "self") or (called.startswith("vars(") and called.endswith(".update")):
            lines.append(node.lineno)
        if called.endswith("__dict__.update"):
            lines.append(node.lineno)
    return lines


@pytest.mark.parametrize(
    "source",
    [
        "seen = []\ndef f(x):\n    seen.append(x)",
        "seen = {}\ndef f(x):\n    seen[x] = 1",
        "seen = set()\ndef f(x):\n    seen.discard(x)",
        "count = 0\ndef f():\n    global count\n    count += 1",
        "chosen = []\ndef f(x):\n    chosen[:] = [x]",
        "class Latest:\n    rows = None\ndef f(x):\n    Latest.rows = x",
        "class A:\n    n = 0\n    @classmethod\n    def f(cls):\n        cls.n += 1",
        "from .other import TABLE\ndef f(x):\n    TABLE[x] = 1",
        "from . import other\ndef f(x):\n    other.chosen = x",
        "from functools import lru_cache\n@lru_cache(maxsize=4)\ndef f(x):\n    return x",
        "import functools\n@functools.cache\ndef f(x):\n    return x",
        "table = {}\nclass A:\n    def f(self, x):\n        table.setdefault(x, []).append(x)",
    ],
)
def test_the_scan_sees_what_a_module_remembers(source: str) -> None:
    assert remembered(ast.parse(source))


@pytest.mark.parametrize(
    "source",
    [
        "TABLE = {'a': 1}\ndef f(x):\n    return TABLE[x]",
        "def f(x):\n    seen = []\n    seen.append(x)\n    return seen",
        "class A:\n    def f(self, x):\n        self.seen[x] = 1\n        self.count += 1",
        "from functools import cache\n@cache\ndef shipped():\n    return [1]",
        "TABLE = {}\nTABLE['a'] = 1",
        "rows = [1]\ndef f(rows):\n    rows.append(2)",
    ],
)
def test_the_scan_lets_constants_and_own_state_be(source: str) -> None:
    assert remembered(ast.parse(source)) == []


def test_the_scan_sees_resets_and_untyped_restores() -> None:
    """Each of the ways that were in use once."""
    assert resets(ast.parse("class A:\n    def f(self):\n        self.__init__()")) == [3]
    assert resets(ast.parse("class B(A):\n    def __init__(self):\n        super().__init__()")) == []
    lines = ["setattr(self, name, 1)", "vars(tally).update(values)", "self.__dict__.update(values)"]
    assert untyped(ast.parse("\n".join(lines))) == [1, 2, 3]


@pytest.mark.slow
def test_a_decision_remembers_nothing_outside_its_objects() -> None:
    """The same events give the same verdicts in every process, however often they are told. One class takes down of its
    subclasses what they declare."""
    assert faults(decisions(), remembered).keys() == {"streams/stored.py"}


@pytest.mark.slow
def test_nothing_is_reset_by_its_constructor() -> None:
    """A fresh start is a new object or a method that says what it clears."""
    assert faults(sources(*PACKAGES), resets) == {}


@pytest.mark.slow
def test_state_is_restored_field_by_field() -> None:
    """What a snapshot holds has a type: a name in it never decides which field is set. One file sets those that classes
    declare, and by their types."""
    assert faults(sources(*PACKAGES), untyped).keys() == {"streams/stored.py"}
