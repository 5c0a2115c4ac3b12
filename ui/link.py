"""What a link to a page says: which job, rank, node and time, and how they are shown.

Rule of this file: pure. A link comes from anywhere: what in it cannot be is reported, and left out.
"""

import math
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, fields, replace
from datetime import UTC, datetime
from typing import Any
from urllib.parse import urlencode

from paceline.events import LATEST_S, RANK_LIMIT

#: Names longer than this are no names.
LONGEST = 300
#: The shared time range: its word in a link, and seconds back from the newest that is held; None is all.
SPANS: dict[str, float | None] = {"5m": 300.0, "15m": 900.0, "1h": 3600.0, "6h": 21_600.0, "all": None}
SPAN = "15m"


@dataclass(frozen=True)
class Link:
    """What a link says; None and defaults are what it leaves out. Times are Unix seconds.

    ``from_s`` and ``to_s`` are a stretch that was chosen in a picture: they go before ``span``.
    """

    job: str | None = None
    rank: int | None = None
    node: str | None = None
    find: str = ""
    metric: str | None = None
    span: str = SPAN
    from_s: float | None = None
    to_s: float | None = None
    live: bool = True

    def changed(self, **changes: Any) -> "Link":
        """This link but for ``changes``; another job has other ranks."""
        if "job" in changes and changes["job"] != self.job and "rank" not in changes:
            changes["rank"] = None
        return replace(self, **changes)

    def params(self) -> dict[str, str]:
        """As a link's query: what differs from a page opened without one."""
        told = {
            _word(one.name): getattr(self, one.name) for one in fields(self) if getattr(self, one.name) != one.default
        }
        return {word: _text(value) for word, value in told.items()}

    def to(self, page: str, **changes: Any) -> str:
        """A link to ``page`` of this site with these ``changes``, relative to any of its pages."""
        query = urlencode(self.changed(**changes).params())
        return f"{page}?{query}" if query else page

    def stretch(self, newest_s: float | None) -> tuple[float, float]:
        """The time to show, from and to, where ``newest_s`` is the newest that is held.

        The range counts back from the newest data and not from now, so that a clock that is off hides nothing.

        >>> Link(span="5m").stretch(1000.0), Link(span="all").stretch(1000.0), Link(from_s=5.0, to_s=9.0).stretch(None)
        ((700.0, inf), (-inf, inf), (5.0, 9.0))
        """
        if self.from_s is not None or self.to_s is not None:
            return (
                self.from_s if self.from_s is not None else -math.inf,
                self.to_s if self.to_s is not None else math.inf,
            )
        back_s = SPANS[self.span]
        return (-math.inf if back_s is None or newest_s is None else newest_s - back_s, math.inf)


def read(params: Mapping[str, str]) -> tuple[Link, list[str]]:
    """What a query says, and a sentence for each part of it that cannot be.

    >>> read({"job": "llm", "rank": "7", "from": "2026-01-05T08:00:00Z", "span": "6h"})[0].params()
    {'job': 'llm', 'rank': '7', 'span': '6h', 'from': '1767600000'}
    >>> read({"rank": "-1", "to": "nan"})
    (Link(job=None, rank=None, node=None, find='', metric=None, span='15m', from_s=None, to_s=None, live=True), \
["rank='-1' is no rank", "to='nan' is no time"])
    """
    said: dict[str, Any] = {}
    problems = []
    for one in fields(Link):
        text = params.get(_word(one.name))
        if text is None or text == "":
            continue
        value = _value(one.name, text)
        if value is None:
            problems.append(f"{_word(one.name)}={text[:40]!r} is no {_KINDS[one.name]}")
        else:
            said[one.name] = value
    if said.get("from_s", -math.inf) >= said.get("to_s", math.inf):
        problems.append("from is not before to")
        del said["from_s"], said["to_s"]
    return Link(**said), problems


def keys() -> Iterable[str]:
    """The words of a query that are read."""
    return [_word(one.name) for one in fields(Link)]


_KINDS = {
    "job": "name",
    "rank": "rank",
    "node": "name",
    "find": "name",
    "metric": "name",
    "span": f"range ({', '.join(SPANS)})",
    "from_s": "time",
    "to_s": "time",
    "live": "choice (0, 1)",
}


def _word(name: str) -> str:
    return name.removesuffix("_s")


def _text(value: object) -> str:
    if isinstance(value, bool):
        return str(int(value))
    return f"{value:.3f}".rstrip("0").rstrip(".") if isinstance(value, float) else str(value)


def _value(name: str, text: str) -> Any:
    """What ``text`` says of ``name``; None where it cannot be."""
    if name == "rank":
        return int(text) if text.isascii() and text.isdigit() and len(text) <= 7 and int(text) < RANK_LIMIT else None
    if name in ("from_s", "to_s"):
        return moment(text)
    if name == "span":
        return text if text in SPANS else None
    if name == "live":
        return {"0": False, "1": True}.get(text)
    return text if len(text) <= LONGEST else None


def moment(text: str) -> float | None:
    """Unix seconds that ``text`` says, as such or as ISO 8601 (without a zone: UTC); None where it says none.

    >>> moment("12.5"), moment("2026-01-05 08:00:00"), moment("1e300"), moment("inf")
    (12.5, 1767600000.0, None, None)
    """
    try:
        at_s = float(text)
    except ValueError:
        try:
            at = datetime.fromisoformat(text)
            at_s = (at if at.tzinfo else at.replace(tzinfo=UTC)).timestamp()
        except (ValueError, OverflowError):
            return None
    return at_s if math.isfinite(at_s) and 0 <= at_s <= LATEST_S else None
