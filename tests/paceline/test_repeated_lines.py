"""An outage is a few lines of the log, however long it lasts."""

import logging

import pytest

from paceline.repeated_lines import FIRST_S, RepeatedLines


def record(at_s: float, text: str, name: str = "aiokafka.client") -> logging.LogRecord:
    made = logging.LogRecord(name, logging.ERROR, "", 0, "%s", (text,), None)
    made.created = at_s
    return made


@pytest.mark.long
def test_five_minutes_of_an_outage_are_a_few_lines():
    """Four kinds of lines, 70 a second together, their numbers all different."""
    lines = RepeatedLines()
    written = [
        line.getMessage()
        for number in range(70 * 300)
        if lines.filter(line := record(number / 70, f"kind {'abcd'[number % 4]}: attempt {number}"))
    ]
    assert len(written) < 20
    assert written[:4] == [f"kind {kind}: attempt {number}" for number, kind in enumerate("abcd")]
    assert "more like it" in written[4]


def test_a_line_that_comes_back_after_a_while_is_new():
    """A second outage is told again at once."""
    lines = RepeatedLines()
    assert lines.filter(record(0.0, "gone"))
    assert not lines.filter(record(1.0, "gone"))
    assert lines.filter(again := record(3 * FIRST_S, "gone"))
    assert again.getMessage() == "gone"


def test_our_own_lines_are_all_written():
    """Each names what it is about."""
    lines = RepeatedLines()
    assert all(lines.filter(record(0.0, f"job-{number} restarts", "streams.door")) for number in range(3))
