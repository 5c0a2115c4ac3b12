"""README, docs and what programs show are in plain field terms; a page of docs opens with its reader and a command."""

import ast
import re
from collections.abc import Iterator
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
#: Made by `make docs`: their sentences are the code's.
GENERATED = {"events.md", "gpu-rules.md", "metrics.md", "suggestions.md"}
PAGES = ["README.md", *sorted(f"docs/{path.name}" for path in (ROOT / "docs").glob("*.md"))]
WRITTEN = [page for page in PAGES if Path(page).name not in GENERATED]
#: What is not written -> what is.
DROPPED = {
    r"told|foretold|foretells?": "reported, predicted",
    r"said": "reported, or the name of who says it",
    r"heard|unheard|hears": "received, reporting, without data",
    r"passed on|passes on": "sent, forwarded",
    r"given out": "assigned, handed out",
    r"anew": "again, reloaded, recreated",
    r"in hand": "pending",
    r"at once": "immediately, or at the same time",
    r"wary": "cautious: name the threshold",
    r"(?:the|a|same|own|half|these|those) bars?(?! chart)": "threshold",
    r"mend|mends|mended|mending": "fix, repair",
    r"dear|dearer": "expensive",
    r"lasts": "is open, takes",
    r"stands": "is, remains",
    r"(?:is|are|was|were) there(?! (?:a|an|any|no)\b)": "exists, runs, is reachable",
    r"whoever|nobody": "name who; no rank, no program",
}


def prose(page: str) -> str:
    """A page without code, links' addresses and tables that a program has written."""
    text = (ROOT / page).read_text(encoding="utf-8")
    text = re.sub(r"^```.*?^```|^<!-- (\S+): begin -->.*?^<!-- \1: end -->", "", text, flags=re.M | re.S)
    return re.sub(r"`[^`\n]+`|\]\([^)\n]*\)", "", text)


def dropped(text: str) -> dict[str, str]:
    """The dropped words in ``text``, each with what is written in its place.

    >>> dropped("The worker is told at once.")
    {'told': 'reported, predicted', 'at once': 'immediately, or at the same time'}
    >>> dropped("A rank reports immediately; is there a bar chart?")
    {}
    """
    text = " ".join(text.split())
    return {
        found.group().lower(): instead
        for words, instead in DROPPED.items()
        for found in re.finditer(rf"\b(?:{words})\b", text, re.I)
    }


def opening(page: str) -> str:
    """The first three lines below the title."""
    lines = [line for line in (ROOT / page).read_text(encoding="utf-8").splitlines() if line.strip()]
    return "\n".join(lines[1:4])


def faults(page: str) -> dict[str, str]:
    """What keeps ``page`` from being done."""
    wrong = dropped(prose(page))
    if page != "README.md" and not re.search(r"^For\b", opening(page), re.M):
        wrong["(opening)"] = "`For` and the reader, at the beginning of one of the first three lines"
    if page != "README.md" and not re.search(r"`(?:paceline|make|docker|helm|srun|kafka)\b", opening(page)):
        wrong["(command)"] = "the command that most readers want, in the first three lines"
    return wrong


@pytest.mark.parametrize("page", WRITTEN)
def test_a_page_is_in_plain_words(page: str) -> None:
    """And opens with its reader and a command."""
    assert faults(page) == {}


@pytest.mark.parametrize(
    "sentence",
    [
        "Who is asked is told so.",
        "No worker is heard.",
        "1.6 times the bar",
        "half the bar",
        "how to mend it",
        "the page is loaded\nanew",
        "Nobody knows.",
        "while it lasts",
        "if the topic is there",
    ],
)
def test_a_dropped_word_is_found(sentence: str) -> None:
    """In any case, and over the end of a line."""
    assert dropped(sentence)


@pytest.mark.parametrize(
    "sentence", ["a bar chart", "barrier", "recommend", "amended", "a standard", "Is there a GPU?"]
)
def test_a_usual_word_is_not(sentence: str) -> None:
    """Parts of other words are no dialect."""
    assert dropped(sentence) == {}


#: Programs whose strings people read: page, panel, findings, --help, errors, logs.
PROGRAMS = (
    "annotator",
    "archive",
    "collectors",
    "control",
    "forecaster",
    "importers",
    "paceline",
    "postmortem",
    "simulator",
    "streams",
    "trials",
    "ui",
)
#: What is no sentence: SQL, and types in quotes.
CODE = re.compile(r"\b(?:SELECT|FROM|EXISTS)\b|^\w+\[.*\]$")
#: Not done yet; what is done leaves this list.
NOT_YET: set[str] = set()
FOLDERS = sorted(
    {path.parent.relative_to(ROOT).as_posix() for name in PROGRAMS for path in (ROOT / name).rglob("*.py")}
)


def sentences(source: str) -> Iterator[tuple[int, str]]:
    """Line and text of each string of two words and more, without code in it; no docstring, and no assertion's.

    >>> list(sentences('def f(x):\\n    "A docstring."\\n    return f"{x} is told of `told` by --told"'))
    [(3, '… is told of  by ')]
    """
    waiting: list[ast.AST] = [ast.parse(source)]
    while waiting:
        node = waiting.pop()
        if isinstance(node, ast.Assert) or (isinstance(node, ast.Expr) and isinstance(node.value, ast.Constant)):
            continue
        text = ""
        if isinstance(node, ast.JoinedStr):
            text = "".join(str(one.value) if isinstance(one, ast.Constant) else "…" for one in node.values)
            waiting += [one for one in node.values if isinstance(one, ast.FormattedValue)]
        elif isinstance(node, ast.Constant):
            text = node.value if isinstance(node.value, str) else ""
        else:
            waiting += ast.iter_child_nodes(node)
        if re.search(r"\w\W*\s\W*\w", text) and not CODE.search(text):
            yield node.lineno, re.sub(r"`[^`\n]+`|--[a-z][a-z-]*", "", text)  # type: ignore[attr-defined]


def shown_faults(folder: str) -> dict[str, dict[str, str]]:
    """The dropped words that the files of ``folder`` show: place -> word -> what is written in its place."""
    found = {}
    for path in sorted((ROOT / folder).glob("*.py")):
        name = path.relative_to(ROOT).as_posix()
        if name not in NOT_YET:
            for line, text in sentences(path.read_text(encoding="utf-8")):
                if wrong := dropped(text):
                    found[f"{name}:{line}"] = wrong
    return found


@pytest.mark.long
@pytest.mark.parametrize("folder", FOLDERS)
def test_programs_speak_in_plain_words(folder: str) -> None:
    """In every sentence, help text, message and label."""
    assert shown_faults(folder) == {}


def docstrings(source: str) -> Iterator[tuple[int, str]]:
    """Line and text of each docstring, without code in it.

    >>> list(docstrings('def f():\\n    "What `told` is."'))
    [(1, 'What  is.')]
    """
    for node in ast.walk(ast.parse(source)):
        if not isinstance(node, ast.Module | ast.ClassDef | ast.FunctionDef | ast.AsyncFunctionDef):
            continue
        if text := ast.get_docstring(node):
            yield getattr(node, "lineno", 1), re.sub(r"`[^`\n]+`", "", text)


@pytest.mark.parametrize("folder", ["paceline/events", *(name for name in FOLDERS if name.endswith("/api"))])
def test_an_interface_describes_itself_in_plain_words(folder: str) -> None:
    """Docstrings of routes and shapes are what OpenAPI shows, those of events what docs/events.md and schemas show."""
    wrong = {
        f"{path.name}:{line}": found
        for path in sorted((ROOT / folder).glob("*.py"))
        for line, text in docstrings(path.read_text(encoding="utf-8"))
        if (found := dropped(text))
    }
    assert wrong == {}


def test_what_is_not_done_is_there_and_not_done() -> None:
    """The list only shrinks: a file in plain words is not on it."""
    for name in NOT_YET:
        texts = sentences((ROOT / name).read_text(encoding="utf-8"))
        assert any(dropped(text) for _, text in texts), name


@pytest.mark.parametrize(
    "source",
    [
        'say("nobody is heard")',
        'f"rank {rank} is {x} at once"',
        'parser.add_argument("--x", help="what is told")',
        'NAMES = {"a": "1.6 times the bar"}',
        'f"{a}" "; how to mend it"',
        "log.warning('it said %s and ended', x)",
    ],
)
def test_a_dropped_word_in_a_program_is_found(source: str) -> None:
    """Wherever the string is, also in parts."""
    assert any(dropped(text) for _, text in sentences(source))


@pytest.mark.parametrize(
    "source",
    [
        '"""What is said at once."""',
        'def f():\n    """Nobody is told."""',
        'assert told, "it was told"',
        'state["heard"] = told  # said at once',
        '"run `paceline analyze --told FILE`"',
        'f"{told} ranks reported"',
        '"SELECT * FROM told"',
    ],
)
def test_what_people_do_not_read_is_not(source: str) -> None:
    """Docstrings, comments, names, keys and code."""
    assert not any(dropped(text) for _, text in sentences(source))
