"""What a peer wrote is shown to a person and does nothing to the terminal, the log or the direction of reading."""

import json
import logging
import unicodedata

import pytest
from hypothesis import given
from hypothesis import strategies as st

from collectors.logs import LineFormatter
from paceline.terminal import VisibleFormatter, say
from paceline.visible import visible

#: Clears the screen, starts a line, in C1 too, turns the reading direction, separates paragraphs.
HOSTILE = "job\x1b[2J\r\nERROR forged\x9b2J\x85\u202e\u2066\u200f\u2029\x7f"
FORMATTERS = [LineFormatter(), VisibleFormatter("%(levelname)s %(name)s: %(message)s")]


def unseen(text: str) -> set[str]:
    """What ``text`` holds that no person sees and a terminal obeys."""
    marks = {"LRE", "RLE", "PDF", "LRO", "RLO", "LRI", "RLI", "FSI", "PDI"}
    return {
        letter
        for letter in text
        if unicodedata.category(letter) in {"Cc", "Cs", "Zl", "Zp"}
        or unicodedata.bidirectional(letter) in marks
        or letter in "\u061c\u200e\u200f"
    }


@pytest.mark.long
@given(st.text(st.characters(exclude_categories=["Cs"]) | st.sampled_from(HOSTILE)))
def test_nothing_unseen_is_left_and_json_stays_the_same(text: str) -> None:
    """Any text becomes one harmless line; JSON that holds it holds it afterwards too."""
    assert not unseen(visible(text))
    assert json.loads(visible(json.dumps(text, ensure_ascii=False))) == text


def test_what_can_be_read_stays_as_it_is() -> None:
    """Letters of any script, also with a joiner, are no escape."""
    for text in ("resnet-7 Größe 日本語", "\u0645\u06cc\u200c\u062e\u0648", "a\\nb"):
        assert visible(text) == text


@pytest.mark.parametrize("formatter", FORMATTERS, ids=lambda formatter: type(formatter).__name__)
def test_a_name_forges_no_line_of_a_log(formatter: logging.Formatter) -> None:
    """A record is one line; those of a traceback cannot be mistaken for records."""
    try:
        raise ValueError(HOSTILE)
    except ValueError as error:
        caught = (type(error), error, error.__traceback__)
    record = logging.LogRecord("paceline", logging.ERROR, "", 0, "job %s", (HOSTILE,), caught)
    first, *rest = formatter.format(record).split("\n")
    assert not unseen("".join([first, *rest]))
    assert all(line.startswith("    ") for line in rest)
    assert "forged" in first


def test_a_name_forges_no_line_of_a_command(capsys: pytest.CaptureFixture[str]) -> None:
    """What is said is one line."""
    say(f"job {HOSTILE}")
    assert not unseen(capsys.readouterr().err.removesuffix("\n"))
