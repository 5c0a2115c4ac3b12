"""No verdict of a test depends on how fast the machine was: real time has no upper limit under two minutes.

Rule of this file: sources are read, never run. A limit is what a test passes to a call that waits (``timeout=``,
``.wait(5)``) or to a command (``--wait 5``), what it adds to a clock that only measures, what a measured time is to
stay below, and pytest's own mark. Four short times are none:

* 0: it asks whether something is there, and waits for nothing;
* a pause: a ``wait`` in a loop whose answer nobody takes, so that the loop goes on either way;
* a probe: under ``contextlib.suppress``, in a ``while`` or in a function that one or ``until`` asks again;
* one that is to run out, for that is what the test is about. The line says so: ``# it is to run out``.

What is not a number in the source is not judged here, but for what a measured time is compared with.
"""

import ast
import contextlib
from collections.abc import Iterator
from itertools import pairwise
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
#: The least that a test may give the machine; what waits shorter takes a busy one for a fault.
LEAST_S = 120.0
#: The least that pytest may give one test: it counts the fixtures, and a wait of ``tests/patience.py`` fits in.
LEAST_TEST_S = 300.0
#: Arguments that are an upper limit, whatever is called.
LIMITS = {"timeout", "timeout_s", "default_timeout"}
#: Methods whose first argument is one. ``get`` is a future's or a queue's; a dict is asked by other keys than seconds.
WAITING = {"wait", "join", "communicate", "get", "result", "exception", "acquire", "stop", "close", "flush"}
WAITING |= {"settimeout", "timeout"}
#: Options of commands whose next word is one.
OPTIONS = {"--wait", "--timeout"}
MEASURING = {"time.monotonic()", "time.perf_counter()", "monotonic()", "perf_counter()"}
CLOCKS = MEASURING | {"time.time()"}
ON_PURPOSE = "# it is to run out"


class Scan(ast.NodeVisitor):
    """Goes through one source and keeps where real time is limited too tightly: ``line: what it says``."""

    def __init__(self, source: str) -> None:
        self.lines = source.splitlines()
        self.found: list[str] = []
        tree = ast.parse(source)
        self._constants = constants(tree)
        self._clocked = set(_measured_names(tree))
        self._asked_again = set(_asked_again(tree))
        self._above: list[ast.AST] = []
        self.visit(tree)

    def visit(self, node: ast.AST) -> None:
        self._above.append(node)
        if isinstance(node, ast.Call):
            self._call(node)
            self._options(node.args)
        elif isinstance(node, ast.Compare):
            self._compare(node)
        elif isinstance(node, ast.BinOp):
            self._end(node)
        elif isinstance(node, ast.List | ast.Tuple) and not isinstance(self._above[-2], ast.Compare):
            self._options(node.elts)
        self.generic_visit(node)
        self._above.pop()

    def _call(self, node: ast.Call) -> None:
        called = node.func.attr if isinstance(node.func, ast.Attribute) else ""
        if called == "timeout" and ast.unparse(node.func) == "pytest.mark.timeout":
            if any((self._seconds(each) or LEAST_TEST_S) < LEAST_TEST_S for each in node.args):
                self._keep(node)
            return
        given = [each.value for each in node.keywords if each.arg in LIMITS]
        given += node.args[:1] if called in WAITING and len(node.args) == 1 else []
        if any(self._is_short(each) for each in given) and not self._is_pause(called) and not self._is_probe():
            self._keep(node)

    def _options(self, words: list[ast.expr]) -> None:
        """``"--wait", "5"`` among the words of a command."""
        for option, word in pairwise(words):
            if isinstance(option, ast.Constant) and option.value in OPTIONS and isinstance(word, ast.Constant):
                with contextlib.suppress(ValueError):
                    if 0 < float(word.value) < LEAST_S:
                        self._keep(option)

    def _end(self, node: ast.BinOp) -> None:
        """``time.monotonic() + 5``: until then something is to be there."""
        for clock, seconds in ((node.left, node.right), (node.right, node.left)):
            if isinstance(node.op, ast.Add) and is_clock(clock, MEASURING) and self._is_short(seconds):
                self._keep(node)

    def _compare(self, node: ast.Compare) -> None:
        """``measured < 5``, ``5 > measured`` and ``1 < measured < 5``, where measured has a clock's time in it."""
        for (left, right), operator in zip(pairwise([node.left, *node.comparators]), node.ops, strict=True):
            less, more = (right, left) if isinstance(operator, ast.Gt | ast.GtE) else (left, right)
            ordered = isinstance(operator, ast.Lt | ast.LtE | ast.Gt | ast.GtE)
            if ordered and self._is_measured(less) and (self._seconds(more) or 0.0) < LEAST_S:
                self._keep(node)

    def _is_short(self, node: ast.expr) -> bool:
        return 0 < (self._seconds(node) or 0) < LEAST_S

    def _is_measured(self, node: ast.expr) -> bool:
        """A difference with a clock in it, or a name that was given one."""
        return measured(node) or (isinstance(node, ast.Name) and node.id in self._clocked)

    def _seconds(self, node: ast.expr) -> float | None:
        return value(node, self._constants)

    def _is_pause(self, called: str) -> bool:
        looped = any(isinstance(each, ast.While | ast.For) for each in self._above)
        return called == "wait" and looped and isinstance(self._above[-2], ast.Expr)

    def _is_probe(self) -> bool:
        suppressed = any(
            isinstance(each, ast.With) and any("suppress(" in ast.unparse(item) for item in each.items)
            for each in self._above
        )
        functions = [each for each in self._above if isinstance(each, ast.FunctionDef)]
        again = any(isinstance(each, ast.While) for each in self._above)
        return suppressed and (again or (bool(functions) and functions[-1].name in self._asked_again))

    def _keep(self, node: ast.expr) -> None:
        lines = self.lines[node.lineno - 1 : node.end_lineno]
        if not any(ON_PURPOSE in line for line in lines):
            self.found.append(f"{node.lineno}: {lines[0].strip()}")


def constants(tree: ast.Module) -> dict[str, float]:
    """The numbers that a module gives a name."""
    found: dict[str, float] = {}
    for node in tree.body:
        if isinstance(node, ast.Assign) and isinstance(node.targets[0], ast.Name):
            number = value(node.value, found)
            if number is not None:
                found[node.targets[0].id] = number
    return found


def value(node: ast.expr, named: dict[str, float]) -> float | None:
    """The number that an expression of constants is; None where it cannot be told from the source."""
    if isinstance(node, ast.Constant) and isinstance(node.value, int | float) and not isinstance(node.value, bool):
        return float(node.value)
    if isinstance(node, ast.Name):
        return named.get(node.id)
    if isinstance(node, ast.BinOp) and isinstance(node.op, ast.Add | ast.Sub | ast.Mult | ast.Div):
        left, right = value(node.left, named), value(node.right, named)
        if left is not None and right is not None and not (isinstance(node.op, ast.Div) and right == 0):
            signs = {ast.Add: left + right, ast.Sub: left - right, ast.Mult: left * right}
            return left / right if isinstance(node.op, ast.Div) else signs[type(node.op)]
    return None


def is_clock(node: ast.expr, clocks: set[str]) -> bool:
    """Whether it asks one of ``clocks`` for the time."""
    return isinstance(node, ast.Call) and not node.args and ast.unparse(node) in clocks


def measured(node: ast.expr) -> bool:
    """Whether it takes one time from another, and a clock is one of them."""
    return any(
        isinstance(each, ast.BinOp)
        and isinstance(each.op, ast.Sub)
        and any(is_clock(side, CLOCKS) for side in (each.left, each.right))
        for each in ast.walk(node)
    )


def _measured_names(tree: ast.Module) -> Iterator[str]:
    for node in ast.walk(tree):
        if isinstance(node, ast.Assign) and isinstance(node.targets[0], ast.Name) and measured(node.value):
            yield node.targets[0].id


def _asked_again(tree: ast.Module) -> Iterator[str]:
    """Functions that are handed to ``until``, by name or called in its lambda, or asked by a ``while``."""
    for node in ast.walk(tree):
        if isinstance(node, ast.Call) and getattr(node.func, "attr", getattr(node.func, "id", "")) == "until":
            asked: list[ast.expr] = node.args
        elif isinstance(node, ast.While):
            asked = [node.test]
        else:
            continue
        for each in (part for one in asked for part in ast.walk(one)):
            if isinstance(each, ast.Name):
                yield each.id
            elif isinstance(each, ast.Attribute):
                yield each.attr


@pytest.mark.parametrize(
    "source",
    [
        "urlopen(url, timeout=5)",
        "AppTest.from_function(f, default_timeout=60)",
        "SOON_S = 2 * 10\nprocess.wait(SOON_S)",
        "assert entered.wait(30)",
        "while True:\n    assert entered.wait(0.01)",
        "producer.send(topic, value).get(30)",
        "thread.join(timeout=5)",
        "listener.settimeout(60)",
        "async def f():\n    async with asyncio.timeout(1):\n        await g()",
        "began = time.monotonic()\nassert time.monotonic() - began < 10",
        "began = time.monotonic()\nlasted = time.monotonic() - began\nassert 1 < lasted < 119",
        "assert HEARD_S > time.time() - began",
        "end = time.monotonic() + 60",
        "pytestmark = [pytest.mark.e2e, pytest.mark.timeout(180)]",
        "run('ask', 'job:a', '--wait', '5')",
        "command = [*PACELINE, 'ask', '--wait', '5']",
        "with contextlib.suppress(OSError):\n    urlopen(url, timeout=5)",
        "def asked():\n    return urlopen(url, timeout=5)\nuntil(asked)",
    ],
)
def test_the_scan_sees_a_limit(source: str) -> None:
    """Each of the ways that were in use once."""
    assert len(Scan(source).found) == 1


@pytest.mark.parametrize(
    "source",
    [
        "urlopen(url, timeout=120)",
        "PATIENCE_S = 240.0\nprocess.wait(PATIENCE_S)",
        "from tests.patience import PATIENCE_S\nprocess.wait(PATIENCE_S)",
        "future.result(0)",
        "while not stop.is_set():\n    stop.wait(0.01)",
        "def asked():\n    with contextlib.suppress(OSError):\n        return urlopen(url, timeout=5)\nuntil(asked)",
        "while True:\n    with contextlib.suppress(TimeoutError):\n        queue.get(timeout=0.1)",
        "assert not thread.stop(0.01)  # it is to run out",
        "assert time.monotonic() - began > 5",
        "assert seen <= 51 + 10 * (time.monotonic() - began)",
        "expires_s = time.time() + 60",
        "os.path.join('a', 'b')",
        "pytestmark = pytest.mark.timeout(600)",
        "run('ask', 'job:a', '--wait', '0')",
        "assert declared == ['topics', 'create', '--wait', '60']",
    ],
)
def test_the_scan_lets_what_is_no_limit_be(source: str) -> None:
    assert Scan(source).found == []


@pytest.mark.long
def test_no_test_limits_real_time() -> None:
    """A slow machine would be told as a fault: ``PATIENCE_S`` of ``tests/patience.py`` is the limit to take."""
    scans = {path: Scan(path.read_text(encoding="utf-8")).found for path in sorted(ROOT.glob("tests/**/*.py"))}
    told = {str(path.relative_to(ROOT)): found for path, found in scans.items() if found and path != Path(__file__)}
    assert told == {}
