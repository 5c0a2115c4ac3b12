"""README and docs use plain field terms, and each page opens with its reader and the command that most of them want."""

import re
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
