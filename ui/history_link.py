"""What a link to History says beside what all pages share: cause, kind, cluster, how far back, which month and day.

Rule of this file: pure. A link comes from anywhere: what in it cannot be is reported, and left out. Days are of UTC.
"""

import datetime
import re
from collections.abc import Mapping
from typing import NamedTuple
from urllib.parse import urlencode

from paceline.history.spans import seconds

from .link import LONGEST, Link

PAGE = "history"
#: How far back, its word in a link, and in words.
PAST = {"24h": "24 h", "7d": "7 d", "30d": "30 d", "90d": "90 d", "365d": "1 y"}
WEEK = "7d"
#: The words of a query that History alone reads.
KEYS = ("cause", "kind", "cluster", "past", "month", "day")
#: Periods that end now begin and end on such a grid, so that a question asked again is the same one.
GRID_S = 30.0
DAY_S = 86_400.0
_FIRST, _LAST = datetime.date(1971, 1, 1), datetime.date(2999, 12, 31)


class Sought(NamedTuple):
    """What History is asked for; empty words ask for all. ``find`` is a part of a name."""

    job: str = ""
    node: str = ""
    find: str = ""
    cause: str = ""
    kind: str = ""
    cluster: str = ""
    past: str = WEEK
    #: The first day of the calendar's month.
    month: datetime.date | None = None
    day: datetime.date | None = None

    def period(self, now_s: float) -> tuple[float, float]:
        """From and to, in Unix seconds: the day that was chosen, else so far back from ``now_s``.

        >>> Sought().period(1_000_000.0), Sought(day=datetime.date(1971, 1, 2)).period(1_000_000.0)
        ((395220.0, 1000020.0), (31622400.0, 31708800.0))
        """
        if self.day is not None:
            return midnight(self.day), midnight(self.day) + DAY_S
        until_s = (now_s // GRID_S + 1.0) * GRID_S
        return max(0.0, until_s - seconds(self.past)), until_s

    def shown_month(self, now_s: float) -> datetime.date:
        """The first day of the month that the calendar shows."""
        return self.month or (self.day or _date(now_s)).replace(day=1)


def read(params: Mapping[str, str], link: Link) -> tuple[Sought, list[str]]:
    """What a query and the ``link`` in it say, and a sentence for each part that cannot be.

    >>> read({"past": "30d", "day": "2026-11-25"}, Link(node="gpu-17"))[0].day
    datetime.date(2026, 11, 25)
    >>> read({"past": "1e9d", "month": "2026-13"}, Link())[1]
    ["past='1e9d' is no length (24h, 7d, 30d, 90d, 365d)", "month='2026-13' is no month, as 2026-11"]
    """
    problems = []
    said: dict[str, str] = {}
    for word in KEYS:
        text = params.get(word, "")
        if text and _mend(word, text):
            problems.append(f"{word}={text[:40]!r} is no {_mend(word, text)}")
        elif text:
            said[word] = text
    month, day = said.pop("month", ""), said.pop("day", "")
    return (
        Sought(
            job=link.job or "",
            node=link.node or "",
            find=link.find,
            month=date(f"{month}-01") if month else None,
            day=date(day) if day else None,
            **said,
        ),
        problems,
    )


def _mend(word: str, text: str) -> str:
    """What ``text`` is not, "" where it is what ``word`` may be."""
    if word == "past":
        return "" if text in PAST else f"length ({', '.join(PAST)})"
    if word == "month":
        return "" if date(f"{text}-01") else "month, as 2026-11"
    if word == "day":
        return "" if date(text) else "day, as 2026-11-25"
    return "" if len(text) <= LONGEST else "name"


def date(text: str) -> datetime.date | None:
    """The day that ``text`` says; None where it says none, or one that no archive has."""
    if not re.fullmatch(r"[0-9]{4}-[0-9]{2}-[0-9]{2}", text, re.ASCII):
        return None
    try:
        told = datetime.date.fromisoformat(text)
    except ValueError:
        return None
    return told if _FIRST <= told <= _LAST else None


def midnight(day: datetime.date) -> float:
    """When ``day`` begins, in Unix seconds."""
    return datetime.datetime(day.year, day.month, day.day, tzinfo=datetime.UTC).timestamp()


def next_month(first: datetime.date, by: int = 1) -> datetime.date:
    """The first day of the month ``by`` months after that of ``first``, kept among those that a link may say.

    >>> next_month(datetime.date(2026, 12, 1)), next_month(datetime.date(2026, 1, 1), -1)
    (datetime.date(2027, 1, 1), datetime.date(2025, 12, 1))
    """
    months = first.year * 12 + first.month - 1 + by
    return min(max(datetime.date(months // 12, months % 12 + 1, 1), _FIRST), _LAST.replace(day=1))


def address(**words: str) -> str:
    """A link to History with these words, relative to any page.

    >>> address(job="llm/7b", cause="")
    'history?job=llm%2F7b'
    """
    query = urlencode({word: text for word, text in words.items() if text})
    return f"{PAGE}?{query}" if query else PAGE


def _date(now_s: float) -> datetime.date:
    return datetime.datetime.fromtimestamp(now_s, datetime.UTC).date()
