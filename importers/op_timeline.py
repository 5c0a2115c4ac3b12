"""A generic timeline of ops (rank, dp, stage, step, op, microbatch, start, duration) to rows.

Rule of this file: what is missing, impossible or double is left out and counted; what is guessed (a rank from its
place, a start from the order of the file, a unit that looks wrong) is said.
"""

from collections.abc import Hashable, Iterable, Mapping
from dataclasses import dataclass, field
from typing import IO, Any

import numpy as np
from numpy.typing import NDArray

from paceline import nsight_tables
from paceline.events import LATEST_S, OP_INDEX, RANK_LIMIT

from .aliases import COLUMNS, find_columns, op_of
from .exposed_communication import phases
from .notes import Notes, SourceError
from .op_rows import TOTAL, Floats, ImportedJob, Ints, Rows
from .step_clock import astray, ends, laid_out, one_after_another
from .tables import Piece, columns_of, numbers, pieces
from .time_cells import MISSING, AmbiguousError, Decimal, column_seconds, decimal_of, number, unit_of

UNITS = {"s": 1.0, "ms": 1e-3, "us": 1e-6, "ns": 1e-9}
_ABSURD_S = 86_400.0
#: Median steps outside these are more likely a wrong unit than a job.
_LIKELY_S = (1e-3, 100.0)
_MOST_STEP = 2**53
#: Of the rows of a table: what is odd about fewer is dirt.
_NEARLY_ALL = 0.9
#: Beside the fields of a row: its fingerprint.
_ROW = "row"
#: Fields that are times, and those whose cells show which sign is the decimal one.
_TIMES = ("start", "duration")
_NUMERIC = (*_TIMES, "step", "microbatch")


@dataclass(frozen=True)
class TimelineOptions:
    """What the user said: columns by field, the unit of times, ops by name, the job's name."""

    columns: Mapping[str, str] = field(default_factory=dict)
    #: "" where none was named: seconds.
    unit: str = ""
    ops: Mapping[str, str] = field(default_factory=dict)
    job: str = "imported"

    @property
    def unit_s(self) -> float:
        """One unit of times in seconds, where neither a column nor a cell names another."""
        return UNITS[self.unit or "s"]


class _Labels:
    """Words of a text column as numbers."""

    def __init__(self) -> None:
        self.words: dict[Any, int] = {}

    def numbers(self, values: Iterable[Any]) -> Ints:
        """The number of each word, -1 for none; a list or a mapping is no word."""
        words = self.words
        missing = {None, "", "nan", "NaN", "null", "None"}

        def number(word: Any) -> int:
            if not isinstance(word, Hashable) or word in missing or word != word:
                return -1
            return words.setdefault(word, len(words))

        return np.array([number(word) for word in values], dtype=np.int64)


class OpTimeline:
    """Reads tables of one job, then gives ``rows`` and ``job``."""

    def __init__(self, options: TimelineOptions, notes: Notes) -> None:
        self.options = options
        self.notes = notes
        self._columns: dict[str, list[NDArray[Any]]] = {name: [] for name in (*COLUMNS, _ROW)}
        self._labels = {"op": _Labels(), "node": _Labels(), "rank": _Labels()}
        self._named_ranks = False
        self._decimal: Decimal | None = None

    def read(self, stream: IO[bytes], kind: str, name: str) -> None:
        """Take in one table.

        Raises:
            SourceError: a column that is needed is not there, or it is no table.
        """
        there = columns_of(stream, kind)
        stream.seek(0)
        if said := nsight_tables.refusal(there):
            raise SourceError(f"{name}: {said}")
        columns = find_columns(there, self.options.columns)
        self._check(columns, there, name)
        used = list(dict.fromkeys(columns.values()))
        self._say_units(columns)
        self._decimal = None
        for piece in pieces(stream, kind, used, self.notes):
            self._append(piece, columns, name)

    def _check(self, columns: dict[str, str], there: list[str], name: str) -> None:
        for wanted, column in columns.items():
            if column not in there:
                raise SourceError(f"{name}: no column {column!r} for {wanted}; there are {', '.join(there)[:300]}")
        for wanted in ("step", "op", "duration"):
            if wanted not in columns:
                raise SourceError(
                    f"{name}: which column is the {wanted}? --map {wanted}=COLUMN; there are {', '.join(there)[:300]}"
                )
        if not {"rank", "dp", "stage"} & set(columns):
            raise SourceError(f"{name}: no rank, dp or stage; --map rank=COLUMN; there are {', '.join(there)[:300]}")

    def _say_units(self, columns: dict[str, str]) -> None:
        """Which columns are in a unit of their own name."""
        for name in _TIMES:
            unit_s = unit_of(columns.get(name, ""))
            if unit_s is not None and unit_s != self.options.unit_s:
                self.notes.remark(
                    f"{columns[name]} is in the unit of its name, not in --time-unit {self.options.unit or 's'}"
                )

    def _append(self, piece: Piece, columns: dict[str, str], file: str) -> None:
        count = piece.fingerprints.size
        numeric = [piece.columns[columns[name]] for name in _NUMERIC if name in columns]
        texts = (cell for values in numeric if isinstance(values, list) for cell in values if isinstance(cell, str))
        self._decimal = self._decimal or decimal_of(texts)
        self._columns[_ROW].append(piece.fingerprints)
        for name in COLUMNS:
            column = columns.get(name)
            values: Any = piece.columns[column] if column is not None else None
            if values is None:
                converted: NDArray[Any] = np.full(count, -1 if name in ("op", "node") else np.nan)
            elif name in ("op", "node"):
                converted = self._labels[name].numbers(values.tolist() if isinstance(values, np.ndarray) else values)
            elif name == "rank":
                converted = self._ranks(values)
            elif name in _TIMES:
                converted = self._seconds(values, str(column), piece.lines, file)
            else:
                converted = self._numbers(values)
            self._columns[name].append(converted)

    def _numbers(self, values: list[Any] | NDArray[Any]) -> Floats:
        """Numbers, also with signs between thousands."""
        told = numbers(values)
        for place in np.flatnonzero(np.isnan(told)).tolist():
            if isinstance(values[place], str):
                told[place] = number(values[place], self._decimal or ".")
        return told

    def _seconds(self, values: list[Any] | NDArray[Any], column: str, lines: Ints, file: str) -> Floats:
        """A column of times; a cell that is none is named with its line.

        Raises:
            SourceError: a comma may be a decimal one or between thousands, and no other cell tells.
        """
        unit_s = unit_of(column) or self.options.unit_s
        if isinstance(values, np.ndarray):
            return np.asarray(values, dtype=np.float64) * unit_s
        if self._decimal != ",":
            plain = numbers(values)
            if not np.isnan(plain).any():
                return plain * unit_s
        try:
            told = column_seconds(values, unit_s, self._decimal)
        except AmbiguousError as error:
            cell, place = error.args
            raise SourceError(
                f"{file}, line {lines[place]}: {column} {cell[:40]!r}: is the comma a decimal one or between thousands?"
                " Write it with a point, or without"
            ) from None
        for place in np.flatnonzero(np.isnan(told)).tolist():
            cell = values[place]
            if cell is not None and str(cell).strip().lower() not in MISSING:
                self.notes.remark(f"{file}, line {lines[place]}: {column} {str(cell)[:40]!r} is no time that is read")
                break
        return told

    def _ranks(self, values: list[Any] | NDArray[Any]) -> Floats:
        ranks = numbers(values)
        if not self._named_ranks and np.isnan(ranks).all() and len(values):
            self._named_ranks = not self._columns["rank"]
        if self._named_ranks:
            named = self._labels["rank"].numbers(values).astype(np.float64)
            ranks = np.where(named < 0, np.nan, named)
        return ranks

    def rows(self) -> tuple[Rows, ImportedJob]:
        """The rows of all that was read, cleaned, with every step closed.

        Raises:
            SourceError: nothing is left.
        """
        columns = {name: np.concatenate(parts) if parts else np.empty(0) for name, parts in self._columns.items()}
        for parts in self._columns.values():
            parts.clear()
        columns["rank"] = self._place(columns)
        columns["op"] = self._ops(columns["op"].astype(np.int64))
        columns = self._sound(columns)
        rows = self._rows(columns)
        job = self._job(columns, rows)
        rows = self._timed(rows.by_cell()) if np.isfinite(rows.start).all() else laid_out(rows.by_cell())
        out = phases(rows, ends(rows))
        self._judge_unit(out)
        return out, job

    def _timed(self, rows: Rows) -> Rows:
        """The rows on one clock."""
        wrong = astray(rows)
        self.notes.drop("start a day or more from the rest of the step", int(wrong.sum()))
        rows, restarts = one_after_another(rows.only(~wrong))
        if restarts:
            steps = np.unique(rows.step).size
            self.notes.remark(
                f"starts go back in {restarts:,} of {steps:,} steps: every step is laid after the one before it"
            )
        beyond = rows.start + rows.duration > LATEST_S
        self.notes.drop("impossible start", int(beyond.sum()))
        return rows.only(~beyond)

    def _place(self, columns: dict[str, NDArray[Any]]) -> Floats:
        """The rank of each row; from its place where the table has none."""
        rank, dp, stage, tp = (columns[name] for name in ("rank", "dp", "stage", "tp"))
        if self._named_ranks and self._labels["rank"].words:
            words = [str(word) for word in self._labels["rank"].words]
            self.notes.remark(f"ranks are names ({words[0]}, …): numbered in the order in which they first come")
        why = "no rank"
        if not np.isnan(rank).all():
            if not _within_a_group(rank, dp, stage):
                return rank
            why = "ranks count within a group only"
        if np.isnan(dp).all():
            self.notes.remark("no rank: the stage is taken for the rank")
            return stage
        if np.isnan(stage).all():
            self.notes.remark("no rank: the place in the data dimension is taken for the rank")
            return dp
        size = _size(dp)
        place, rule = np.asarray(stage * size + dp), f"stage x {size} + dp"
        if _size(tp) > 1:
            place, rule = place * _size(tp) + tp, f"({rule}) x {_size(tp)} + tp"
        self.notes.remark(f"{why}: it is taken to be {rule}")
        return place

    def _ops(self, labels: Ints) -> Ints:
        """Each row's op as an index into ``OPS``, -1 where there is none."""
        unknown, table = [], []
        for word in self._labels["op"].words:
            op = op_of(str(word), self.options.ops)
            if op is None:
                unknown.append(str(word))
            table.append(OP_INDEX["other" if op is None else op])
        if unknown:
            shown = ", ".join(unknown[:5]) + (", …" if len(unknown) > 5 else "")
            self.notes.remark(f"{len(unknown)} unknown ops count as other: {shown}; --op NAME=PHASE says otherwise")
        return np.where(labels >= 0, np.array([*table, -1], dtype=np.int64)[labels], -1)

    def _sound(self, columns: dict[str, NDArray[Any]]) -> dict[str, NDArray[Any]]:
        """The rows that can be used."""
        rank, step, duration, start = (columns[name] for name in ("rank", "step", "duration", "start"))
        keep = np.ones(rank.size, dtype=bool)

        def leave_out(which: NDArray[np.bool_], reason: str) -> None:
            self.notes.drop(reason, int((keep & which).sum()))
            keep[which] = False

        for name in ("rank", "step", "duration"):
            leave_out(~np.isfinite(columns[name]), f"no {name}")
        leave_out(columns["op"] < 0, "no op")
        with np.errstate(invalid="ignore"):
            leave_out((rank < 0) | (rank >= RANK_LIMIT) | (rank != np.floor(rank)), "impossible rank")
            leave_out((step < 0) | (step > _MOST_STEP) | (step != np.floor(step)), "impossible step")
            leave_out(duration < 0, "negative duration")
            if (duration[keep] > _ABSURD_S).sum() > keep.sum() / 10:
                self._doubt_unit("the median row", float(np.median(duration[keep])))
            leave_out(duration > _ABSURD_S, "longer than a day")
        timed = np.isfinite(start)
        if timed.any():
            leave_out(~timed, "no start")
            with np.errstate(invalid="ignore"):
                leave_out((start < 0) | (start + duration > LATEST_S), "impossible start")
            leave_out(_again(columns, keep), "the same row twice")
        else:
            self.notes.remark(
                "no start: rows are taken to follow each other as they stand, and ranks to meet at each step"
            )
        if not keep.any():
            raise SourceError("no row can be used: " + "; ".join(self.notes.lines()))
        return {name: values[keep] for name, values in columns.items()}

    def _rows(self, columns: dict[str, NDArray[Any]]) -> Rows:
        microbatch = columns["microbatch"]
        with np.errstate(invalid="ignore"):
            whole = np.isfinite(microbatch) & (microbatch >= 0) & (microbatch < _MOST_STEP)
        return Rows(
            columns["rank"].astype(np.int64),
            columns["step"].astype(np.int64),
            columns["op"],
            np.where(whole, np.where(whole, microbatch, 0), -1).astype(np.int64),
            columns["start"].astype(np.float64),
            columns["duration"].astype(np.float64),
        )

    def _job(self, columns: dict[str, NDArray[Any]], rows: Rows) -> ImportedJob:
        ranks, first = np.unique(rows.rank, return_index=True)
        hosts = [str(word) for word in self._labels["node"].words]

        def places(name: str) -> dict[int, int]:
            values = columns[name][first]
            placed = np.isfinite(values) & (values >= 0) & (values < RANK_LIMIT)
            return dict(zip(ranks[placed].tolist(), values[placed].astype(np.int64).tolist(), strict=True))

        nodes = columns["node"][first].astype(np.int64).tolist()
        named = {rank: hosts[host] for rank, host in zip(ranks.tolist(), nodes, strict=True) if host >= 0}
        return ImportedJob(self.options.job, ranks.tolist(), places("dp"), places("stage"), named, places("tp"))

    def _judge_unit(self, rows: Rows) -> None:
        """Say it when steps are so long or short that the unit is likely another."""
        median = float(np.median(rows.duration[rows.op == TOTAL]))
        if median and not _LIKELY_S[0] <= median <= _LIKELY_S[1]:
            self._doubt_unit("the median step", median)

    def _doubt_unit(self, what: str, median: float) -> None:
        raw = median / self.options.unit_s
        likely = [unit for unit, scale in UNITS.items() if _LIKELY_S[0] <= raw * scale <= _LIKELY_S[1]]
        advice = f"; is it --time-unit {' or '.join(likely)}?" if likely else ""
        said = (
            f"in --time-unit {self.options.unit}" if self.options.unit else "if its times are seconds: no unit is named"
        )
        self.notes.remark(f"{what} takes {median:.3g} s {said}{advice}")


def _size(places: Floats) -> int:
    """How long a dimension is, by the places in it."""
    return int(places[(places >= 0) & (places < RANK_LIMIT)].max(initial=0)) + 1


def _within_a_group(rank: Floats, dp: Floats, stage: Floats) -> bool:
    """Whether most ranks stand for several workers: at several places of the data dimension, or at every stage.

    One worker may well have several stages, where these are virtual, but then others have its place in the data.
    """
    told = np.isfinite(rank) & np.isfinite(dp) & np.isfinite(stage) & (rank >= 0) & (rank < RANK_LIMIT)
    if not told.any():
        return False
    number, place = rank[told].astype(np.int64), dp[told]
    if (rank[told] == place).mean() > _NEARLY_ALL:
        return bool(np.unique(stage[told]).size > 1)
    low, high = np.full(number.max() + 1, np.inf), np.full(number.max() + 1, -np.inf)
    np.minimum.at(low, number, place)
    np.maximum.at(high, number, place)
    there = np.isfinite(low)
    return bool(2 * (low < high)[there].sum() > there.sum())


def _again(columns: dict[str, NDArray[Any]], keep: NDArray[np.bool_]) -> NDArray[np.bool_]:
    """Which rows are there already, the same in every column of the table; a row of no length is not worth the doubt.

    Rows whose fingerprints are equal by chance differ in what is known of them.
    """
    order = np.argsort(columns[_ROW], kind="stable")
    order = order[keep[order] & (columns["duration"][order] > 0)]
    same = np.ones(max(order.size - 1, 0), dtype=bool)
    for name in (_ROW, "rank", "step", "op", "start", "duration"):
        values = columns[name][order]
        same &= values[1:] == values[:-1]
    again = np.zeros(keep.size, dtype=bool)
    again[order[1:][same]] = True
    return again
