import datetime

import pytest

from ui.history_link import DAY_S, KEYS, Sought, address, date, midnight, next_month, read
from ui.link import Link

WRONG = [
    ("past", "-7d"),
    ("past", "7"),
    ("past", "9999999d"),
    ("month", "2026-00"),
    ("month", "2026-1"),
    ("month", "\u0662\u0660\u0662\u0666-11"),
    ("day", "2026-02-30"),
    ("day", "0001-01-01"),
    ("day", "9999-12-31"),
    ("day", "2026-11-25T08:00"),
    ("cause", "x" * 301),
    ("cluster", "x" * 4000),
]


@pytest.mark.parametrize(("word", "text"), WRONG)
def test_what_cannot_be_is_named_and_left_out(word, text):
    """One sentence of bounded length, and the rest of the link holds."""
    sought, problems = read({word: text, "kind": "hang"}, Link(job="llm"))
    assert sought == Sought(job="llm", kind="hang")
    assert len(problems) == 1
    assert problems[0].startswith(f"{word}=")
    assert len(problems[0]) < 120


def test_a_link_says_all_that_history_reads():
    """Its own words beside those that all pages share; what no version knows yet is taken as it is."""
    said = {"cause": "loose_bolt", "kind": "hang", "cluster": "lab/2", "past": "90d"}
    said |= {"month": "2026-10", "day": "2026-10-31"}
    sought, problems = read(said, Link(job="a/b", node="n'1", find='"; --'))
    assert problems == []
    assert set(said) == set(KEYS)
    month, day = datetime.date(2026, 10, 1), datetime.date(2026, 10, 31)
    assert sought == Sought("a/b", "n'1", '"; --', "loose_bolt", "hang", "lab/2", "90d", month, day)


def test_a_period_ends_now_on_a_grid_so_that_the_same_question_is_asked_again():
    """Two visitors within the same half minute ask the same; it is never the past alone."""
    one, other = Sought().period(1000.0), Sought().period(1019.0)
    assert one == other
    assert one[1] > 1019.0
    assert Sought(past="24h").period(10 * DAY_S)[1] - Sought(past="24h").period(10 * DAY_S)[0] == DAY_S


def test_a_day_goes_before_the_period_and_decides_the_month():
    """From midnight to midnight, UTC."""
    sought = Sought(past="24h", day=datetime.date(2026, 2, 28))
    begin_s = midnight(datetime.date(2026, 2, 28))
    assert sought.period(0.0) == (begin_s, begin_s + DAY_S)
    assert sought.shown_month(0.0) == datetime.date(2026, 2, 1)
    assert Sought(month=datetime.date(2025, 1, 1)).shown_month(0.0) == datetime.date(2025, 1, 1)


def test_months_end_where_links_do():
    """Whoever clicks on and on stays within what a link may say."""
    for by, last in ((1, datetime.date(2999, 12, 1)), (-1, datetime.date(1971, 1, 1))):
        month = last
        for _ in range(3):
            month = next_month(month, by)
            assert month == last
            assert date(month.isoformat()) == month


def test_an_address_quotes_names():
    """Names come from other people's jobs."""
    assert address(job="a&b=c", node="") == "history?job=a%26b%3Dc"
    assert address() == "history"
