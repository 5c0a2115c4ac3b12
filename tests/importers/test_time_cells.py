"""Tables with units in the names of their columns or in their cells, decimal commas, thousands, dates, differences."""

import io
import json
from datetime import datetime, timedelta
from decimal import Decimal

import numpy as np
import pytest

from importers.notes import Notes, SourceError
from importers.op_timeline import OpTimeline, TimelineOptions
from importers.tables import pieces
from importers.time_cells import AmbiguousError, decimal_of, number, seconds

#: (step, rank, start, duration) in seconds: rank 1 is slow.
ROWS = [(step, rank, step * 2.0 + 1.0, 1.25 if rank else 0.5) for step in range(4) for rank in range(2)]
HEAD = ("step", "rank", "op", "start", "duration")


def table(start, duration, *, head=HEAD, sep=",", above="", encoding="utf-8"):
    """A table whose times are written by ``start`` and ``duration``."""
    lines = [sep.join(head)]
    lines += [sep.join((str(step), str(rank), "forward", start(at), duration(long))) for step, rank, at, long in ROWS]
    return io.BytesIO((above + "\n".join(lines) + "\n").encode(encoding))


def load(stream, kind="csv", unit="s"):
    notes = Notes()
    timeline = OpTimeline(TimelineOptions(unit=unit), notes)
    timeline.read(stream, kind, "ops.csv")
    rows, _ = timeline.rows()
    works = rows.only(rows.op == rows.op[np.argmax(rows.duration == 1.25)]) if (rows.duration == 1.25).any() else rows
    return sorted({round(float(one), 9) for one in works.duration}), notes


def plain(factor=1.0, digits=6):
    return lambda value: f"{value * factor:.{digits}f}"


def comma(factor=1.0, digits=6):
    return lambda value: f"{value * factor:.{digits}f}".replace(".", ",")


def quoted(write):
    return lambda value: f'"{write(value)}"'


def named(start, duration):
    return (*HEAD[:3], start, duration)


FORMS = {
    "seconds": table(plain(), plain()),
    "milliseconds by name": table(plain(1e3), plain(1e3), head=named("start_ms", "duration_ms")),
    "each its own": table(plain(1e6, 0), plain(1e3), head=named("start_us", "duration_ms")),
    "in brackets": table(plain(1e9, 0), plain(1e6, 0), head=named("Start (ns)", "Duration [µs]")),
    "camel case": table(plain(), plain(1e3), head=named("startTime", "durationMs")),
    "words": table(plain(), plain(1e3), head=named("start_seconds", "elapsed_milliseconds")),
    "short words": table(plain(), plain(1e3), head=named("start_secs", "duration_millisec")),
    "short words in cells": table(plain(), lambda v: f"{v * 1e6:.0f} microsec"),
    "units in cells": table(lambda v: f"{v} s", lambda v: f"{v * 1e3:.0f}ms"),
    "unit in a cell under another name": table(plain(), lambda v: f"{v} s", head=named("start", "duration_ms")),
    "minutes and seconds": table(plain(), lambda v: f"0m {v}s"),
    "decimal commas": table(comma(), comma(), sep=";"),
    "decimal commas in quotes": table(quoted(comma()), quoted(comma())),
    "decimal commas and units": table(plain(), lambda v: f"{v:.2f} s".replace(".", ","), sep="\t"),
    "thousands": table(
        lambda v: f'"{v * 1e6:,.0f}"', lambda v: f'"{v * 1e6:,.0f}"', head=named("start_us", "duration_us")
    ),
    "blanks between thousands": table(
        lambda v: f"{v * 1e6:,.0f}".replace(",", "\u202f"),
        lambda v: f"{v * 1e6:,.0f}".replace(",", " "),
        head=named("start_us", "duration_us"),
    ),
    "German thousands": table(
        lambda v: f"{v * 1e6:,.0f}".replace(",", "."),
        lambda v: f"{v * 1e6:,.1f}".replace(",", "x").replace(".", ",").replace("x", "."),
        head=named("start_us", "duration_us"),
        sep=";",
    ),
    "differences of pandas": table(lambda v: f"0 days 00:00:{v:09.6f}", lambda v: f"0 days 00:00:{v:09.6f}"),
    "differences of Python": table(lambda v: f"0:00:{v:09.6f}", lambda v: str(timedelta(seconds=v))),
    "ISO durations": table(plain(), lambda v: f"PT{v}S"),
    "dates": table(lambda v: f"2026-11-20 10:00:{v:09.6f}", plain()),
    "dates with a zone": table(lambda v: f"2026-11-20T10:00:{v:09.6f}Z", plain(1e3), head=named("start", "dur_ms")),
    "dates with a comma, as loggers write": table(lambda v: f'"2026-11-20 10:00:{v:06.3f}"'.replace(".", ","), plain()),
    "what Excel says of its separator": table(plain(), plain(), above="sep=,\n"),
    "comments above": table(plain(), plain(), above="# a tool, 1.2\n# more\n\n"),
    "UTF-16": table(plain(), plain(), encoding="utf-16"),
    "bars": table(plain(), plain(), sep="|"),
}


@pytest.mark.parametrize("form", FORMS)
def test_every_form_of_time_is_read_the_same(form):
    """Whatever the table says of the same rows, the same durations come of it, and nothing is left out."""
    works, notes = load(FORMS[form])
    assert 0.5 in works
    assert 1.25 in works
    assert not notes.dropped
    assert max(works) < 3.0


def test_json_lines_may_write_times_as_text():
    """With the unit of the key."""
    rows = [
        {"step": step, "rank": rank, "op": "forward", "start_ms": at * 1e3, "duration_ms": f"{long * 1e3:.0f}"}
        for step, rank, at, long in ROWS
    ]
    works, notes = load(io.BytesIO(b"".join(json.dumps(row).encode() + b"\n" for row in rows)), "jsonl")
    assert {0.5, 1.25} <= set(works)
    assert not notes.dropped


def test_a_comma_that_may_be_either_is_refused_with_its_line():
    """Three digits behind every comma, none of which begins with 0: 120.5 or 120500?"""
    both = table(plain(), lambda v: '"120,500"', above="# a tool\n")
    with pytest.raises(SourceError, match=r"ops\.csv, line 3: duration '120,500': is the comma a decimal one"):
        load(both)


def test_another_column_tells_what_the_commas_are():
    """One file is written in one way."""
    both = table(lambda v: f'"{v * 1e6 + 1e6:,.0f}"', lambda v: '"120,500"', head=named("start_us", "duration_us"))
    works, _ = load(both)
    assert 0.1205 in works


def test_a_cell_that_is_no_time_is_named_with_its_line():
    """The first of a column; the row is left out and counted, the others are imported."""
    stream = table(plain(), lambda v: "soon" if v > 1 else f"{v}")
    _, notes = load(stream)
    assert notes.dropped == {"no duration": 4}
    assert any("ops.csv, line 3: duration 'soon' is no time that is read" in line for line in notes.lines())


def test_a_unit_that_is_not_the_chosen_one_is_said():
    """The name of a column says more than a default."""
    _, notes = load(table(plain(1e3), plain(1e3), head=named("start_ms", "duration_ms")))
    assert "start_ms is in the unit of its name, not in --time-unit s" in notes.lines()


def test_steps_without_numbers_for_thousands():
    """Steps may be written with thousands, too."""
    lines = ["step;rank;op;start;duration"] + [f"1,00{s};0;forward;{s}.0;0.5" for s in range(3)]
    works, notes = load(io.BytesIO("\n".join(lines).encode()))
    assert not notes.dropped
    assert 0.5 in works


@pytest.mark.parametrize(
    "text", ["", "abc", "1,2,3.4.5", "--5", "1e999x", "5 parsecs", "12:61:00", "P", "PT", "\u0665"]
)
def test_what_is_no_time_is_none(text):
    """Not a number, and no error."""
    assert not seconds(text, 1.0, ".") >= 0 or text == "\u0665"


def test_the_sign_of_a_number_is_asked_of_the_column():
    """And never guessed."""
    assert decimal_of(["5", "1.5", "10:00:00,500"]) is None
    with pytest.raises(AmbiguousError):
        number("1,234", None)
    assert (number("1,234", ","), number("1,234", ".")) == (1.234, 1234.0)
    assert (number("1.234", ","), number("1.234", ".")) == (1234.0, 1.234)


def test_negative_differences_are_negative():
    """As pandas writes them."""
    assert seconds("-1 days +23:59:59.5", 1.0, None) == -0.5


def test_exact_numbers_of_parquet_are_read(tmp_path):
    """Also where some are missing, and no column can be made of numbers alone."""
    pyarrow, parquet = pytest.importorskip("pyarrow"), pytest.importorskip("pyarrow.parquet")
    rows = [(step, rank, "forward", at, Decimal(str(long))) for step, rank, at, long in ROWS]
    rows.append((9, 0, "forward", 19.0, None))
    columns = dict(zip(HEAD, map(list, zip(*rows, strict=True)), strict=True))
    parquet.write_table(pyarrow.table(columns), tmp_path / "t.parquet")
    with (tmp_path / "t.parquet").open("rb") as stream:
        assert {0.5, 1.25} <= set(load(stream, "parquet")[0])


@pytest.mark.parametrize("unit", ["s", "ms", "us", "ns"])
def test_lengths_and_dates_of_parquet_need_no_pandas(tmp_path, unit):
    """Nor do they lose anything: without it Arrow gives no nanoseconds."""
    pyarrow, parquet = pytest.importorskip("pyarrow"), pytest.importorskip("pyarrow.parquet")
    columns = {
        "long": pyarrow.array([5, None], pyarrow.int64()).cast(pyarrow.duration(unit)),
        "at": pyarrow.array([5, None], pyarrow.int64()).cast(pyarrow.timestamp(unit, tz="UTC")),
    }
    parquet.write_table(pyarrow.table(columns), tmp_path / "t.parquet")
    with (tmp_path / "t.parquet").open("rb") as stream:
        (piece,) = pieces(stream, "parquet", ["long", "at"], Notes())
    told = {name: [type(cell) for cell in cells] for name, cells in piece.columns.items()}
    assert told == {"long": [timedelta, type(None)], "at": [datetime, type(None)]}
