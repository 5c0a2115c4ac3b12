"""A picture as tables of text: titles, cells and the widths that fit a terminal.

Rule of this file: pure. Every cell is safe for a terminal and on one line.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any
from unicodedata import combining, east_asian_width

from paceline.events import Finding, Suggestion
from paceline.own_host import here
from paceline.settings import aimed_at
from paceline.visible import visible
from paceline.words import LONGEST_NAME, WAITING, age, digits, measured, seconds, state_words, verdict

from .picture import Picture

#: Characters of a cell that are looked at: a name may be a megabyte long.
LONGEST = 2_000
#: Columns of a terminal between two columns of a table.
GAP = 2


@dataclass(frozen=True)
class Column:
    """A column: its title; ``least`` is how narrow it may become, None as wide as what is in it."""

    title: str
    least: int | None = None
    right: bool = False


@dataclass(frozen=True)
class Table:
    """Rows of cells under columns; ``keys`` says which row is which from one picture to the next."""

    name: str
    columns: tuple[Column, ...]
    rows: list[tuple[str, ...]]
    keys: list[str]
    empty: str


JOBS = (
    Column("state", 8),
    Column("job", 12),
    Column("ranks", right=True),
    Column("step", right=True),
    Column("slowest", right=True),
    Column(WAITING, right=True),
    Column("lost", right=True),
    Column("updated", right=True),
)
RANKS = (
    Column("rank", right=True),
    Column("node", 10),
    Column("work time", right=True),
    Column("of others", right=True),
    Column("step", right=True),
    Column("cause", 14),
)
FINDINGS = (Column("state", 9), Column("job", 10), Column("finding", 20), Column("lost", right=True))
SUGGESTIONS = (Column("state", 8), Column("for", 10), Column("suggestion", 20), Column("gain", right=True))


def tables(picture: Picture, words: str = "") -> list[Table]:
    """The four tables, of each row whose cells hold ``words``, whatever their case."""
    now_s = picture.as_of_s
    job = "" if picture.job is None else f" of {_cell(picture.job)}"
    no_rank = "no ranks" if picture.job is None else NO_RANK
    made = [
        _table("Jobs", JOBS, picture.jobs, lambda row: _job_cells(row, now_s), lambda row: repr(row.key), "no jobs"),
        _table(f"Ranks{job}, slowest first", RANKS, picture.ranks, _rank_cells, lambda row: str(row.rank), no_rank),
        _table("Findings", FINDINGS, picture.findings, _finding_cells, lambda row: row.finding.id, "no findings"),
        _table(
            "Suggestions",
            SUGGESTIONS,
            picture.suggestions,
            _suggestion_cells,
            lambda row: row.suggestion.id,
            "no suggestions",
        ),
    ]
    return [_filtered(table, words.lower()) for table in made] if words else made


NO_RANK = "no window of a rank yet; start a worker: paceline streams"


def nothing(picture: Picture, address: str, only: str | None) -> str | None:
    """Where there is nothing to show, why, and the command that changes it for the brokers at ``address``; else None.

    ``only`` is the job that alone is to be shown.
    """
    if picture.jobs or picture.findings or picture.suggestions:
        return None
    if only is not None:
        every = aimed_at("paceline top --once", address)
        return _cell(f"job {only[:LONGEST_NAME]!r} has not reported yet; all jobs: {every}")
    return _cell(f"no job has reported yet; start one: {aimed_at('paceline run -- torchrun train.py', address)}")


def fit(table: Table, width: int | None) -> list[int]:
    """The width of each column, so that all fit ``width``; None: nothing is cut.

    What is missing is taken from the columns that may become narrower, from each in proportion to what it can give.

    >>> table = Table("t", (Column("a"), Column("b", 3)), [("xxxx", "yyyyyyyyyy")], ["k"], "")
    >>> fit(table, None), fit(table, 12), fit(table, 5)
    ([4, 10], [4, 6], [4, 3])
    """
    natural = [
        max(wide(column.title), max((wide(row[place]) for row in table.rows), default=0))
        for place, column in enumerate(table.columns)
    ]
    if width is None:
        return natural
    room = [
        0 if one.least is None else max(0, have - one.least) for one, have in zip(table.columns, natural, strict=True)
    ]
    over = min(sum(natural) + GAP * (len(natural) - 1) - width, sum(room))
    if over <= 0:
        return natural
    given = [over * one // sum(room) for one in room]
    for place in sorted(range(len(room)), key=lambda at: given[at] - room[at])[: over - sum(given)]:
        given[place] += 1
    return [have - less for have, less in zip(natural, given, strict=True)]


def cut(text: str, width: int) -> str:
    """``text`` in ``width`` columns of a terminal, or as much of it as goes in.

    >>> cut("abcdef", 4), cut("ab", 4)
    ('abc…', 'ab')
    """
    if wide(text) <= width:
        return text
    kept, used = [], 0
    for sign in text:
        used += wide(sign)
        if used > width - 1:
            break
        kept.append(sign)
    return "".join(kept) + "…" if width > 0 else ""


def wide(text: str) -> int:
    """Columns that ``text`` takes in a terminal: two for a wide character, none for a mark on the one before."""
    if text.isascii():
        return len(text)
    return sum(0 if combining(sign) else 2 if east_asian_width(sign) in "WF" else 1 for sign in text)


def finding_lines(finding: Finding) -> list[str]:
    """A finding in full, a line a fact."""
    numbers = [measured(item) for item in finding.evidence[:20]]
    where = [
        f"job {finding.job}, attempt {finding.attempt}",
        f"nodes {', '.join(finding.nodes[:16])}" * bool(finding.nodes),
    ]
    lost = f"lost {seconds(finding.cost.lost_s)}, {digits(finding.cost.gpu_hours)} device-hours"
    steps = f"steps {finding.first_step} to {finding.last_step}" if finding.first_step >= 0 else ""
    lines = [
        verdict(finding),
        f"{state_words(finding.kind, finding.state)}, {finding.severity}, confidence {finding.confidence:.0%}",
    ]
    return [_cell(line) for line in [*lines, *where, steps, lost, finding.summary, *numbers] if line]


def suggestion_lines(suggestion: Suggestion, host: str = "") -> list[str]:
    """A suggestion in full, a line a fact; commands as ``host`` takes them, the machine that they are read on."""
    lines = [suggestion.title, f"{suggestion.state}, {suggestion.target}", suggestion.reason]
    lines += [
        f"gain {_gain(suggestion)}" if _gain(suggestion) else "",
        f"risk {suggestion.risk} {suggestion.risk_reason}",
    ]
    lines += [f"{number}. {step}" for number, step in enumerate(suggestion.steps[:20], 1)]
    lines += [f"$ {here(command, host)}" for command in suggestion.apply[:20]]
    lines += [f"id {suggestion.id}"]
    return [_cell(line) for line in lines if line]


def _table(
    name: str,
    columns: tuple[Column, ...],
    rows: Sequence[Any],
    cells: Callable[[Any], tuple[str, ...]],
    key: Callable[[Any], str],
    empty: str,
) -> Table:
    return Table(name, columns, [tuple(map(_cell, cells(row))) for row in rows], [key(row) for row in rows], empty)


def _filtered(table: Table, words: str) -> Table:
    kept = [at for at, row in enumerate(table.rows) if any(words in cell.lower() for cell in row)]
    rows, keys = [table.rows[at] for at in kept], [table.keys[at] for at in kept]
    empty = table.empty if not table.rows else f"none of {len(table.rows)} matches the filter"
    return Table(table.name, table.columns, rows, keys, empty)


def _cell(text: str) -> str:
    return visible(text[:LONGEST])


def _job_cells(row: Any, now_s: float) -> tuple[str, ...]:
    """A job that is slow has its slowest rank beside it; of one that is stuck no other column says where."""
    worst = f"rank {row.worst_rank} {digits(row.worst_ratio)}x" if row.worst_ratio is not None else "-"
    return (
        row.detail if row.state == "stuck" else row.state,
        row.job + (f" (attempt {row.attempt})" if row.attempt else "") + (" (two runs)" if row.twice else ""),
        str(row.ranks) if row.ranks else "-",
        "-" if row.step_s is None else seconds(row.step_s),
        worst,
        "-" if row.wait_ratio is None else f"{row.wait_ratio:.0%}",
        seconds(row.lost_s) if row.lost_s else "-",
        age(now_s, row.heard_s),
    )


def _rank_cells(row: Any) -> tuple[str, ...]:
    ratio = "-" if row.ratio is None else f"{digits(row.ratio)}x"
    return str(row.rank), row.node, seconds(row.own_s), ratio, seconds(row.step_s), row.cause


def _finding_cells(row: Any) -> tuple[str, ...]:
    finding: Finding = row.finding
    lost = seconds(finding.cost.lost_s) if finding.cost.lost_s > 0 else "-"
    state = state_words(finding.kind, finding.state)
    return state, finding.job or ", ".join(finding.nodes[:2]), verdict(finding), lost


def _suggestion_cells(row: Any) -> tuple[str, ...]:
    held: Suggestion = row.suggestion
    return held.state.replace("_", " "), held.job or held.target, held.title, _gain(held) or "-"


def _gain(suggestion: Suggestion) -> str:
    gain = suggestion.gain
    if gain.gpu_hours_per_day is not None:
        return f"{digits(gain.gpu_hours_per_day)} device-h/day"
    return f"{gain.throughput_ratio:+.0%}" if gain.throughput_ratio is not None else ""
