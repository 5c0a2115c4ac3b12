"""No wait, interval or expiry follows a clock that may be set: it is for dates, ``time.monotonic()`` for all else.

Rule of this file: sources are read, never run. What comes from the wall clock is followed through names, attributes
(``self._clock`` of a ``clock=time.time``) and arguments, within a folder; where it is compared, added to or subtracted
from, the function is named. ``DATES`` holds those that must count in dates, each with its reason.
"""

import ast
from collections import defaultdict
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.product import PRODUCT

ROOT = Path(__file__).parents[2]
WALL = {"time.time", "datetime.now", "datetime.datetime.now", "datetime.utcnow"}
ENDS = "a wait holds from its begin to its end alone, so that a clock set back ends it; its tests set clocks back"
HEARD = "what was heard is dated by the broker's or another machine's clock"
FILES = "what lies on a disk or in an archive is dated, and outlives the process that knows a steady clock"
SHOWN = "a person reads how long ago a date was"
DATES = {
    "annotator/annotating.py": ENDS,
    "annotator/budget.py": ENDS,
    "annotator/later.py": ENDS,
    "annotator/discovery.py": ENDS,
    "annotator/dry_run.py": ENDS,
    "annotator/happenings.py": ENDS,
    "annotator/owners.py": ENDS,
    "annotator/unknown_nodes.py": ENDS,
    "annotator/condition_teller.py": "a state is compared that is called `now`",
    "annotator/book.py": HEARD,
    "annotator/gpu_minute.py": HEARD,
    "archive/archiver.py": HEARD,
    "archive/buffers.py": FILES,
    "archive/iceberg.py": FILES,
    "archive/merging.py": FILES,
    "archive/meters.py": SHOWN,
    "archive/sources/backfill.py": FILES,
    "control/api/gswarm.py": SHOWN,
    "control/outgoing.py": "other machines read a command's end",
    "control/recorder/pace.py": "other machines read a command's end",
    "control/recorder/recording.py": "a recording's gaps are dated",
    "paceline/alerts/book.py": HEARD,
    "paceline/alerts/destination.py": "Alertmanager reads an alert's end",
    "paceline/command_rules.py": "a command's end is a date; to its count of answers a clock set back adds none",
    "paceline/commands/alerts.py": "Alertmanager reads an alert's end",
    "paceline/commands/ask.py": "other machines read a command's end",
    "paceline/commands/checks.py": "the two clocks are compared",
    "paceline/commands/running_checks.py": SHOWN,
    "paceline/commands/suggestion_list.py": SHOWN,
    "paceline/commands/suggestions.py": "other machines read a command's end",
    "paceline/commands/undated.py": "a recording's times are dates",
    "paceline/delivery/orphans.py": FILES,
    "paceline/kafka/follow.py": "brokers find messages by their dates",
    "paceline/sidecar/balance.py": ENDS,
    "paceline/sidecar/decode.py": "ranks date what they send",
    "paceline/sidecar/collective_sums.py": "a step, in a function of another's name",
    "paceline/sidecar/endings.py": "Slurm dates the end of its job",
    "paceline/sidecar/nccl_times.py": "NCCL dates its calls",
    "paceline/sidecar/server.py": "ranks date what they send",
    "paceline/top/picture.py": SHOWN,
    "paceline/tracking/event_records.py": "a number in a file, of a date",
    "streams/archive_source.py": FILES,
    "streams/job_meters.py": "a suggestion's end is a date",
    "streams/report.py": FILES,
}
FOLDERS = sorted({path.parent for name in PRODUCT for path in (ROOT / name).rglob("*.py")})
Function = ast.FunctionDef | ast.AsyncFunctionDef


class Folder:
    """The functions of one folder, and which of their parameters are given the wall clock."""

    def __init__(self, sources: dict[str, str]) -> None:
        self.functions: list[tuple[str, Function, set[str]]] = []
        for path, source in sources.items():
            tree = ast.parse(source)
            for node in ast.walk(tree):
                for one in ast.iter_child_nodes(node):
                    if isinstance(one, Function):
                        clocks = set(_clocks(node)) if isinstance(node, ast.ClassDef) else set()
                        self.functions.append((path, one, clocks))
        self.given: dict[str, set[str]] = defaultdict(set)
        kinds = (ast.Call, ast.Assign, ast.Compare, ast.BinOp)
        self._parts = {
            id(one): [node for node in ast.walk(one) if isinstance(node, kinds)] for _, one, _ in self.functions
        }
        self._by_name: dict[str, list[Function]] = defaultdict(list)
        for _, function, _ in self.functions:
            self._by_name[function.name].append(function)
        while self._follow():
            pass

    def found(self) -> Iterator[str]:
        """``path:function`` of each that counts with the wall clock."""
        for path, function, clocks in self.functions:
            walls = self._walls(function, clocks)
            for node in self._parts[id(function)]:
                parts: list[ast.expr] = []
                if isinstance(node, ast.Compare):
                    parts = [node.left, *node.comparators]
                elif isinstance(node, ast.BinOp) and isinstance(node.op, ast.Add | ast.Sub):
                    parts = [node.left, node.right]
                if any(_is_wall(part, walls, clocks) for part in parts):
                    yield f"{path}:{function.name}"
                    break

    def _follow(self) -> bool:
        """Hand the clock on to the functions that are called with it; whether anything is new."""
        before = sum(map(len, self.given.values()))
        for _, function, clocks in self.functions:
            walls = self._walls(function, clocks)
            for call in (node for node in self._parts[id(function)] if isinstance(node, ast.Call)):
                for called in self._by_name.get(_last(call.func), ()):
                    names = [arg.arg for arg in called.args.args if arg.arg not in ("self", "cls")]
                    given = [*zip(names, call.args, strict=False), *((word.arg, word.value) for word in call.keywords)]
                    self.given[called.name] |= {str(name) for name, value in given if _is_wall(value, walls, clocks)}
        return sum(map(len, self.given.values())) > before

    def _walls(self, function: Function, clocks: set[str]) -> set[str]:
        named = {arg.arg for arg in (*function.args.args, *function.args.kwonlyargs)}
        walls = self.given[function.name] & named
        for node in self._parts[id(function)]:
            if isinstance(node, ast.Assign) and _is_wall(node.value, walls, clocks):
                walls |= {_name(target) for target in node.targets} - {""}
        return walls


def _clocks(owner: ast.ClassDef) -> Iterator[str]:
    """What a class calls its clock, where that is the wall's unless another is handed in."""
    for function in (one for one in owner.body if isinstance(one, Function) and one.name == "__init__"):
        arguments = [*function.args.args[::-1], *function.args.kwonlyargs[::-1]]
        defaults = [*function.args.defaults[::-1], *function.args.kw_defaults[::-1]]
        walls = {
            one.arg
            for one, default in zip(arguments, defaults, strict=False)
            if default and ast.unparse(default) in WALL
        }
        yield from walls
        for node in ast.walk(function):
            if isinstance(node, ast.Assign):
                targets, values = _spread(node.targets[0]), _spread(node.value)
                yield from (
                    ast.unparse(target)
                    for target, value in zip(targets, values, strict=False)
                    if ast.unparse(value) in walls
                )


def _last(node: ast.expr) -> str:
    return node.attr if isinstance(node, ast.Attribute) else node.id if isinstance(node, ast.Name) else ""


def _spread(node: ast.expr) -> list[ast.expr]:
    return node.elts if isinstance(node, ast.Tuple) else [node]


def _is_wall(node: ast.expr, walls: set[str], clocks: set[str]) -> bool:
    if isinstance(node, ast.Call):
        return _name(node.func) in WALL or _name(node.func) in clocks
    if isinstance(node, ast.BinOp):
        return _is_wall(node.left, walls, clocks) or _is_wall(node.right, walls, clocks)
    return _name(node) in walls


def _name(node: ast.expr) -> str:
    """``a.b.c`` of a name or an attribute; nothing of anything else."""
    if isinstance(node, ast.Attribute):
        return f"{_name(node.value)}.{node.attr}"
    return node.id if isinstance(node, ast.Name) else ""


def found(folder: Path) -> set[str]:
    paths = sorted(folder.glob("*.py"))
    if not any(word in path.read_text() for path in paths for word in ("time.time", "datetime")):
        return set()
    return set(Folder({path.relative_to(ROOT).as_posix(): path.read_text() for path in paths}).found())


@pytest.mark.long
@pytest.mark.parametrize("folder", FOLDERS, ids=lambda folder: folder.relative_to(ROOT).as_posix())
def test_no_wait_follows_a_clock_that_may_be_set(folder: Path) -> None:
    counted = found(folder)
    assert sorted(one for one in counted if one.partition(":")[0] not in DATES) == []
    held = {path for path in DATES if (ROOT / path).parent == folder}
    assert held - {one.partition(":")[0] for one in counted} == set(), "nothing there counts in dates any more"


def test_what_is_let_pass_is_there() -> None:
    assert [path for path in DATES if (ROOT / path).parent not in FOLDERS] == []


def test_the_rule_follows_names_attributes_and_arguments() -> None:
    source = """
import time
class Lease:
    def __init__(self, clock=time.time, steady=time.monotonic):
        self._clock, self._steady = clock, steady
    def by_attribute(self): return self._clock() > self.end_s
    def by_name(self):
        now_s = time.time()
        return now_s - self.begin_s
    def steady(self): return self._steady() > self.end_s
    def stamp(self): return {"time_s": time.time()}
    def hands_on(self): self.renew(time.time(), time.monotonic())
    def renew(self, now_s, steady_s): self.later(at_s=now_s, steady_s=steady_s)
    def later(self, at_s, steady_s): return at_s >= self.end_s
    def harmless(self, steady_s): return steady_s >= self.end_s
"""
    assert sorted(Folder({"m": source}).found()) == ["m:by_attribute", "m:by_name", "m:later"]
