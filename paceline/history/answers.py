"""Answers of an archive as text: a table for people, JSON Lines or CSV for programs.

Rule of this file: pure. Units are in the names of columns, and words came from outside: they are made visible.
"""

import csv
import datetime
import io
import math
from collections.abc import Callable, Iterator, Mapping, Sequence
from types import MappingProxyType
from typing import Any

import msgspec

from paceline.visible import visible
from paceline.words import seconds

from .query import Answer

_LONGEST = 100


def table(answer: Answer, titles: Mapping[str, str] = MappingProxyType({})) -> str:
    """Columns side by side, a heading first: the column's name, or its title among ``titles``."""
    if not answer.rows:
        return "nothing"
    heads = [titles.get(name, name).upper() for name in answer.columns]
    cells = [[_cell(name, value) for name, value in zip(answer.columns, row, strict=True)] for row in answer.rows]
    widths = [max(len(row[at]) for row in (heads, *cells)) for at in range(len(heads))]
    right = [all(isinstance(row[at], int | float | None) for row in answer.rows) for at in range(len(heads))]
    lines = [
        "  ".join(
            cell.rjust(width) if to_right else cell.ljust(width)
            for cell, width, to_right in zip(row, widths, right, strict=True)
        ).rstrip()
        for row in (heads, *cells)
    ]
    if answer.cut:
        lines.append(f"… the first {len(answer.rows)}; --limit shows more")
    return "\n".join(lines)


def _cell(name: str, value: Any) -> str:
    if value is None or (isinstance(value, float) and not math.isfinite(value)):
        return "-"
    if isinstance(value, datetime.datetime):
        return value.strftime(_DATE)
    if isinstance(value, bool) or not isinstance(value, int | float):
        words = ", ".join(map(str, value)) if isinstance(value, list) else str(value)
        shown = visible(words)
        return shown if len(shown) <= _LONGEST else shown[: _LONGEST - 1] + "…"
    if name in _MOMENTS and 0 <= value <= _LAST_DATE_S:
        return datetime.datetime.fromtimestamp(value, datetime.UTC).strftime(_DATE)
    return next(
        (show(value) for ending, show in _SHOWN.items() if name.endswith(ending)),
        f"{value:.6g}" if isinstance(value, float) else str(value),
    )


_DATE, _LAST_DATE_S = "%Y-%m-%d %H:%M:%S", 250_000_000_000.0
#: Columns of Unix seconds; others whose names end alike are lengths of time.
_MOMENTS = frozenset(
    f"{name}_s"
    for name in (
        *("time", "t0", "start", "started", "end", "ended", "stopped", "heard", "since", "until", "updated", "expires"),
        *("first", "last", "first_seen", "end_low", "end_high"),
    )
)
_SHOWN: dict[str, Callable[[float], str]] = {
    "_ratio": lambda value: f"{value:.0%}",
    "_bytes": lambda value: f"{value / 2**30:.1f} GiB",
    "_w": lambda value: f"{value:.0f} W",
    "_j": lambda value: f"{value / 3.6e6:.3g} kWh",
    "_s": seconds,
    "hours": lambda value: f"{value:.4g}",
}


def json_lines(answer: Answer) -> Iterator[str]:
    """An object a row, on a line of its own."""
    for row in answer.rows:
        told = {name: _plain(value) for name, value in zip(answer.columns, row, strict=True)}
        yield visible(msgspec.json.encode(told).decode())


def _plain(value: Any) -> Any:
    if isinstance(value, datetime.datetime):
        return value.isoformat() + ("Z" if value.tzinfo is None else "")
    if isinstance(value, list | tuple):
        return [_plain(one) for one in value]
    if isinstance(value, dict):
        return {str(name): _plain(one) for name, one in value.items()}
    return value if isinstance(value, int | float | str | bool | None) else str(value)


def csv_lines(answer: Answer) -> Iterator[str]:
    """A heading and a line a row, by RFC 4180; lists are JSON."""
    yield _csv(answer.columns)
    for row in answer.rows:
        told = map(_plain, row)
        yield _csv([msgspec.json.encode(one).decode() if isinstance(one, list | dict) else one for one in told])


def _csv(cells: Sequence[Any]) -> str:
    out = io.StringIO()
    csv.writer(out, lineterminator="").writerow(["" if cell is None else cell for cell in cells])
    return out.getvalue()
