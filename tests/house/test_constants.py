"""A constant of the contract has one home (``paceline/events/``); a second one that drifts apart fails in silence.

Rule of this file: sources are read, never run. ``RULES`` says what counts as a second one: a form of the syntax tree,
not a number or a word alone, so that what only happens to be equal passes. ``OTHERS`` holds what has the form and
another meaning, each with its reason.
"""

import ast
import re
from collections.abc import Callable, Iterable, Iterator
from itertools import pairwise
from pathlib import Path
from typing import NamedTuple

import pytest

from tests.product import PRODUCT

ROOT = Path(__file__).parents[2]
#: The nodes that rules are about.
JUDGED = (
    ast.Assign,
    ast.AnnAssign,
    ast.Call,
    ast.Compare,
    ast.Constant,
    ast.Dict,
    ast.JoinedStr,
    ast.List,
    ast.Set,
    ast.Tuple,
)
FOLDERS = (*PRODUCT, "importers", "simulator")


class Rule(NamedTuple):
    """``finds`` gives those nodes of a source that break it, ``fix`` says what to write instead.

    ``home`` alone may write it out; "" where nobody does. A source that has not all ``words`` (in small letters) is
    passed over: they save time alone.
    """

    home: str
    words: tuple[str, ...]
    finds: Callable[[list[ast.AST]], Iterable[ast.AST]]
    fix: str


def each(breaks: Callable[[ast.AST], bool]) -> Callable[[list[ast.AST]], Iterable[ast.AST]]:
    """The nodes for which ``breaks`` is true."""
    return lambda nodes: filter(breaks, nodes)


def is_target(node: ast.AST) -> bool:
    """Whether it is the text that a target begins with which is about a suggestion."""
    if isinstance(node, ast.JoinedStr) and len(node.values) > 1:
        name, after = node.values[:2]
        is_named = isinstance(name, ast.FormattedValue) and ast.unparse(name.value).endswith("SUGGESTION")
        return is_named and isinstance(after, ast.Constant) and str(after.value).startswith(":")
    return isinstance(node, ast.Constant) and node.value == "suggestion:"


def holds(*members: str) -> Callable[[ast.AST], bool]:
    """Whether a node writes out exactly these words: as a tuple, a set, a list, or the choices of a ``Literal``."""

    def breaks(node: ast.AST) -> bool:
        written = node.elts if isinstance(node, ast.Tuple | ast.Set | ast.List) else ()
        words = [one.value for one in written if isinstance(one, ast.Constant)]
        return len(words) == len(written) == len(members) and set(words) == set(members)

    return breaks


def orders(*members: str) -> Callable[[ast.AST], bool]:
    """Whether a node numbers exactly these words: ``{word: 0, ...}``."""

    def breaks(node: ast.AST) -> bool:
        if not isinstance(node, ast.Dict):
            return False
        words = {key.value for key in node.keys if isinstance(key, ast.Constant)}
        numbers = [one for one in node.values if isinstance(one, ast.Constant) and isinstance(one.value, int)]
        return words == set(members) and len(numbers) == len(node.keys) == len(members)

    return breaks


def named(pattern: str) -> Callable[[ast.AST], bool]:
    """Whether a number is given to a name like that; in lists of names to any of them."""
    like = re.compile(pattern, re.IGNORECASE)

    def breaks(node: ast.AST) -> bool:
        return any(like.fullmatch(name) and is_number(value) for name, value in assigned(node))

    return breaks


def assigned(node: ast.AST) -> Iterator[tuple[str, ast.expr]]:
    """Names and what is given to them."""
    if isinstance(node, ast.AnnAssign) and node.value is not None:
        yield ast.unparse(node.target), node.value
    for target in node.targets if isinstance(node, ast.Assign) else ():
        pairs = [(target, node.value)]
        if isinstance(target, ast.Tuple) and isinstance(node.value, ast.Tuple):
            pairs = list(zip(target.elts, node.value.elts, strict=False))
        yield from ((ast.unparse(name), value) for name, value in pairs)


def is_number(node: ast.expr) -> bool:
    """Whether it is written with numbers alone, as ``2**20`` is."""
    parts = [one for one in ast.walk(node) if isinstance(one, ast.expr)]
    numbers = [one for one in parts if isinstance(one, ast.Constant) and isinstance(one.value, int | float)]
    return bool(numbers) and all(isinstance(one, ast.BinOp | ast.UnaryOp) or one in numbers for one in parts)


def listed(pattern: str) -> Callable[[ast.AST], bool]:
    """Whether a tuple of numbers is given to a name like that."""
    like = re.compile(pattern, re.IGNORECASE)

    def breaks(node: ast.AST) -> bool:
        return any(
            like.fullmatch(name) and isinstance(value, ast.Tuple) and all(map(is_number, value.elts))
            for name, value in assigned(node)
        )

    return breaks


def sides(node: ast.AST) -> list[ast.expr]:
    """What the length of a window is compared with; nothing where it is not compared."""
    if not isinstance(node, ast.Compare):
        return []
    every = [node.left, *node.comparators]
    others = [one for one in every if not (isinstance(one, ast.Attribute) and one.attr == "length_s")]
    parts = [part for one in others for part in (one.elts if isinstance(one, ast.Tuple) else [one])]
    return parts if len(others) < len(every) else []


def picks_windows(node: ast.AST) -> bool:
    """Whether windows are picked by a number: in Python, in SQL, or for an account of energy."""
    if isinstance(node, ast.Constant) and isinstance(node.value, str):
        return re.search(r"\blength_s *(=|<|>|<=|>=|<>|!=) *[1-9]", node.value) is not None
    if isinstance(node, ast.Call) and ast.unparse(node.func).endswith("EnergyBook"):
        return any(map(is_number, node.args[:1]))
    return any(is_number(side) and ast.unparse(side) != "0" for side in sides(node))


def own_lengths(nodes: list[ast.AST]) -> Iterator[ast.AST]:
    """Where names are given numbers that windows are then picked by."""
    compared = {side.id for node in nodes for side in sides(node) if isinstance(side, ast.Name)}
    for node in nodes:
        given = [value for name, value in assigned(node) if name in compared]
        if any(is_number(part) for one in given for part in (one.elts if isinstance(one, ast.Tuple) else [one])):
            yield node


def bounds_times(node: ast.AST) -> bool:
    """Whether 1e11, however it is written, ends a range: in a comparison, or behind 0.0 in a tuple or a call."""
    if isinstance(node, ast.Compare):
        return any(map(_is_latest, (node.left, *node.comparators)))
    parts = node.args if isinstance(node, ast.Call) else node.elts if isinstance(node, ast.Tuple) else []
    return any(ast.unparse(low) in ("0", "0.0") and _is_latest(high) for low, high in pairwise(parts))


def _is_latest(node: ast.expr) -> bool:
    return isinstance(node, ast.Constant) and isinstance(node.value, int | float) and node.value == 1e11


def limits_ranks(node: ast.AST) -> bool:
    """Whether ranks are limited by 2**20, however it is written: in a comparison, or in what is called after them."""
    if not isinstance(node, ast.Compare | ast.Assign | ast.AnnAssign):
        return False
    text = ast.unparse(node)
    about = [ast.unparse(one) for one in node.targets] if isinstance(node, ast.Assign) else [text]
    return "rank" in "".join(about).lower() and re.search(r"2 \*\* 20\b|1 << 20\b|\b1048576\b", text) is not None


OPEN, MEASURED, UNMEASURED = (
    ("new", "accepted", "applied"),
    ("verified", "did_not_help"),
    ("dismissed", "expired", "withdrawn"),
)
SUGGESTIONS = "paceline/events/suggestions.py"
RULES = {
    "suggestion_target": Rule(
        "paceline/events/commands.py",
        ("suggestion",),
        each(is_target),
        "use paceline.events.SUGGESTION_TARGET, or suggestion_target of paceline/command_rules.py",
    ),
    "open_suggestions": Rule(SUGGESTIONS, ("applied",), each(holds(*OPEN)), "use paceline.events.OPEN_SUGGESTIONS"),
    "measured_suggestions": Rule(
        SUGGESTIONS, ("did_not_help",), each(holds(*MEASURED)), "use paceline.events.MEASURED_SUGGESTIONS"
    ),
    "unmeasured_suggestions": Rule(
        SUGGESTIONS, ("withdrawn",), each(holds(*UNMEASURED)), "use paceline.events.UNMEASURED_SUGGESTIONS"
    ),
    "closed_suggestions": Rule(
        "", ("withdrawn",), each(holds(*MEASURED, *UNMEASURED)), "use paceline.events.CLOSED_SUGGESTIONS"
    ),
    "suggestion_states": Rule(
        SUGGESTIONS, ("withdrawn",), each(holds(*OPEN, *MEASURED, *UNMEASURED)), "use paceline.events.SuggestionState"
    ),
    "answerable": Rule(SUGGESTIONS, ("accepted",), each(holds("new", "accepted")), "use paceline.events.ANSWERABLE"),
    "open_findings": Rule(
        "paceline/events/findings.py",
        ("suspected",),
        each(holds("suspected", "confirmed")),
        "use paceline.events.OPEN_FINDINGS",
    ),
    "counted_findings": Rule(
        "paceline/lost_time.py",
        ("recovered",),
        each(holds("confirmed", "recovered")),
        "use COUNTED of paceline/lost_time.py",
    ),
    "finding_states": Rule(
        "paceline/events/findings.py",
        ("suspected",),
        each(holds("suspected", "confirmed", "recovered")),
        "use paceline.events.FindingState",
    ),
    "severities": Rule(
        "paceline/events/findings.py",
        ("critical", "info"),
        each(holds("info", "warning", "critical")),
        "use paceline.events.SEVERITIES or Severity",
    ),
    "severity_order": Rule(
        "",
        ("critical", "info"),
        each(orders("info", "warning", "critical")),
        "use paceline.events.SEVERITY_ORDER",
    ),
    "warm_up_steps": Rule(
        "paceline/events/training.py",
        ("warm",),
        each(named("_?warm_?up(_steps)?")),
        "use paceline.events.WARM_UP_STEPS",
    ),
    "window_length": Rule(
        "", ("window",), each(picks_windows), "compare with SHORT_, MEDIUM_ or LONG_WINDOW_S of paceline.events"
    ),
    "own_window_length": Rule(
        "", ("length_s",), own_lengths, "take it from SHORT_, MEDIUM_ or LONG_WINDOW_S of paceline.events"
    ),
    "window_lengths": Rule(
        "",
        ("window",),
        each(listed("(job_|node_)?(window|length)s?_s")),
        "use JOB_WINDOWS_S or NODE_WINDOWS_S of paceline.events",
    ),
    "window_length_named": Rule(
        "paceline/events/windows.py",
        ("_window_s",),
        each(named("(SHORT|MEDIUM|LONG|ARCHIVE)_WINDOW_S")),
        "use the one of paceline.events",
    ),
    "silence": Rule(
        "paceline/events/silence.py",
        ("silent",),
        each(named("_?(.*_)?SILENT(_.*)?_S")),
        "name it by what is silent, in paceline/events/silence.py",
    ),
    "latest": Rule(
        "",
        ("e11",),
        each(bounds_times),
        "use paceline.events.LATEST_S, or paceline/bounds.py where there is no msgspec",
    ),
    "latest_named": Rule(
        "paceline/bounds.py",
        ("latest_s",),
        each(named("_?LATEST_S")),
        "another bound has a name of its own, as LAST_DATE_S of ui/moments.py",
    ),
    "rank_limit": Rule("paceline/bounds.py", ("rank",), each(limits_ranks), "use paceline.events.RANK_LIMIT"),
    "most_ranks": Rule(
        "",
        ("most_ranks",),
        each(named("_?MOST_RANKS")),
        "use paceline.events.RANK_LIMIT, or the setting MOST_RANKS; another bound has a name of its own",
    ),
}
#: Path and rule of what has the form alone.
OTHERS = {
    ("paceline/alerts/alert.py", "suggestion_target"): "the id of an alert, beside finding:ID; no command goes there",
    ("streams/advice/ledger.py", "answerable"): "states before it is done, of the table in lifecycle.py",
    ("collectors/benchmark/local_ranks.py", "silence"): "a process that the benchmark has started itself",
    ("paceline/balance/pipeline_example.py", "warm_up_steps"): "steps of an example before it measures",
    ("paceline/balance/setting_up.py", "warm_up_steps"): "steps of a mode of the balancer, none unless asked for",
    ("paceline/training/marks.py", "warm_up_steps"): "steps before the probe is switched off and on",
    ("trials/spec.py", "warm_up_steps"): "steps before a trial measures",
    ("streams/episodes/tracker.py", "open_findings"): "which episodes' growth doubles, each kind as its policy says",
    ("streams/advice/follow_up.py", "answerable"): "states before it is done, of the table in lifecycle.py",
}


def repeats(path: str, source: str) -> Iterator[tuple[str, str]]:
    """Each repeat in ``source``: its rule, and where it is and what to write instead."""
    text = source.lower()
    rules = [one for one in RULES.items() if one[1].home != path and all(word in text for word in one[1].words)]
    nodes = [node for node in ast.walk(ast.parse(source)) if isinstance(node, JUDGED)] if rules else []
    for name, rule in rules:
        yield from ((name, f"{path}:{getattr(node, 'lineno', 0)}: {rule.fix}") for node in rule.finds(nodes))


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


@pytest.mark.parametrize("name", [name for name, rule in RULES.items() if rule.home])
def test_the_home_of_each_holds_it(name: str) -> None:
    rule = RULES[name]
    assert any(True for _ in rule.finds(list(ast.walk(ast.parse((ROOT / rule.home).read_text())))))


@pytest.mark.parametrize(
    ("name", "source"),
    [
        ("suggestion_target", 'TARGET = "suggestion:"'),
        ("suggestion_target", 'send(f"suggestion:{id_}")'),
        ("suggestion_target", 'is_ours = target.startswith(f"{SUGGESTION}:")'),
        ("open_suggestions", 'OPEN = frozenset({"applied", "new", "accepted"})'),
        ("open_suggestions", 'open_ = state in ("new", "accepted", "applied")'),
        ("closed_suggestions", 'over = ["verified", "did_not_help", "dismissed", "expired", "withdrawn"]'),
        ("answerable", 'DISMISS_FROM = ("new", "accepted")'),
        ("counted_findings", 'COUNTED = ("confirmed", "recovered")'),
        ("severities", 'order = ("critical", "warning", "info")'),
        ("severities", 'Severity = Literal["info", "warning", "critical"]'),
        ("severity_order", 'rank = {"critical": 0, "warning": 1, "info": 2}.get(word, 3)'),
        ("warm_up_steps", "STEPS, WARM_UP = 4096, 6"),
        ("warm_up_steps", "class Config:  warmup_steps: int = 5"),
        ("window_length", "is_shown = window.length_s == 10.0"),
        ("window_length", "is_kept = 60 <= window.length_s"),
        ("window_length", "sql = 'SELECT * FROM job_window WHERE length_s = 60'"),
        ("window_length", "windows = EnergyBook(10.0)"),
        ("window_lengths", "LENGTHS_S = (1.0, 10.0, 60.0)  # of windows"),
        ("own_window_length", "NODES_S, JOBS_S = 60.0, 10.0; is_shown = event.length_s in (JOBS_S, NODES_S)"),
        ("window_length_named", "MEDIUM_WINDOW_S = 30.0"),
        ("silence", "MOST_JOBS, SILENT_S = 100, 60.0"),
        ("silence", "_NODE_SILENT_S = 5 * 60"),
        ("latest", "is_time = 0.0 <= at_s <= 1.0e11"),
        ("latest", "ever = Scope(0.0, 1e11)"),
        ("latest_named", "LATEST_S = 32_503_680_000.0"),
        ("rank_limit", "is_one = 0 <= rank < 2**20"),
        ("rank_limit", "Rank = Annotated[int, Field(ge=0, lt=1 << 20)]"),
        ("rank_limit", "class Init:  n_ranks: Annotated[int, Meta(ge=1, le=1_048_576)]"),
        ("most_ranks", "MOST_JOBS, MOST_RANKS = 1_000, 4_096"),
        ("finding_states", 'State = Literal["suspected", "confirmed", "recovered"]'),
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
        'ORDER = {"new": 0, "accepted": 1, "applied": 2}',
        "_WARM_UP = (6.0, 2.0, 1.3)",
        "warm_up = config.warmup_steps + 5",
        "good = window.length_s > 0 and window.length_s == MEDIUM_WINDOW_S",
        "sql = 'SELECT sum(length_s) / 3600 FROM device_window WHERE length_s > 0'",
        "SHOWN_S = MEDIUM_WINDOW_S; is_shown = event.length_s == SHOWN_S",
        "BUCKETS_S = (0.5, 1.0, 2.5, 10.0, 60.0)",
        "SILENT_S = silence.NODE_SILENT_S",
        "silent_steps: int = 50",
        "BUS_BYTES_PER_S = 100e9",
        "most_ranks: int = MOST_RANKS.default",
        "MOST_BYTES = 2**20  # of a rank",
        "LATEST_US = int(LATEST_S * 1e6)",
        'LEVELS = ["debug", "info", "warning", "error"]',
        'COLOURS = {"critical": "red", "warning": "yellow", "info": "grey"}',
        'ORDER = {"critical": 0, "warning": 1, "info": 2, "debug": 3}',
        'GONE = ("new", "accepted", other)',
        'OUTCOMES = ("accepted", "refused", "expired")',
    ],
)
def test_what_only_looks_like_one_passes(source: str) -> None:
    assert list(repeats("ui/a.py", source)) == []
