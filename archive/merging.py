"""Which files are merged, which windows are made coarser and which files are too old: decided by the manifest alone.

Rule of this file: pure. A file is merged again only with others of about its size, so that a row is written a few times
and not once a commit. What another source than the bus has filled in stays apart, so that it can be taken out again.
"""

from collections.abc import Iterable
from typing import NamedTuple

from paceline.events import ARCHIVE_WINDOW_S, LONG_WINDOW_S
from paceline.history.manifest import DataFile, written_for
from paceline.history.table import Keep
from paceline.history.tables import BY_NAME
from paceline.history.views import IDLE_S, USED_S

from .buffers import Place, day

#: Files of one size that are merged into one; numbers and words that a merged file holds at most.
FAN_IN, MOST_CELLS = 8, 40_000_000
#: Files of a day that is over are merged into few, whatever their size, once it has been over for so long.
SETTLED_S = 3 * 3600.0
DAY_S = 86_400.0
#: Windows older than their detail are merged into such of so many seconds.
COARSE_S = int(ARCHIVE_WINDOW_S)
#: The tables whose windows are made coarser. Of jobs, of which there are few, those of a minute stay as they are.
COARSENED = ("job_window", "rank_window", "device_window", "host_window")
OF_JOB_S = LONG_WINDOW_S
SUMMED = tuple(table for table in COARSENED if table != "job_window")
#: How long GPUs were used is known of every minute; of minutes that an older version joined it is not.
_UNKNOWN = f"length_s > {LONG_WINDOW_S:g} AND used_s IS NULL AND mean_utilization_ratio IS NOT NULL"
_OF_USE = {
    name: f"CASE WHEN NOT coalesce(bool_or({_UNKNOWN}), false) THEN sum({told}) END"
    for name, told in (("used_s", USED_S), ("idle_s", IDLE_S))
}


class Days(NamedTuple):
    """For how many days each kind of table is kept, and windows in their detail."""

    raw: float = 7.0
    windows: float = 400.0
    documents: float = 1100.0
    detail: float = 7.0

    def of(self, keep: Keep) -> float:
        """How long tables of this kind are kept."""
        return {"raw": self.raw, "windows": self.windows, "documents": self.documents}[keep]


class Merge(NamedTuple):
    """Files that shall become one."""

    place: Place
    files: list[DataFile]
    coarse: bool = False
    filled: bool = False

    @property
    def of_sums(self) -> bool:
        """Whether rows of one key are to be added: sums of different minutes, made when some came late.

        Elsewhere they are the same window, published twice.
        """
        return self.place.table in SUMMED and not self.filled and all(file.coarse for file in self.files)


def expired(files: Iterable[DataFile], days: Days, now_s: float) -> list[DataFile]:
    """The files whose day is over for longer than they are kept; of tables that are not known, none."""
    return [
        file
        for file in files
        if (table := BY_NAME.get(file.table)) is not None
        and file.date < day(max(0.0, now_s - days.of(table.keep) * DAY_S))
    ]


def next_merge(files: Iterable[DataFile], days: Days, now_s: float) -> Merge | None:
    """The most useful merge, None where there is none."""
    places: dict[Place, list[DataFile]] = {}
    for file in files:
        if file.table in BY_NAME:
            places.setdefault(Place(file.table, file.date, file.cluster), []).append(file)
    merges = [merge for place, held in places.items() if (merge := _merge(place, held, days, now_s)) is not None]
    # Each takes about as long as its rows: the most files the sooner.
    return max(merges, key=lambda merge: len(merge.files), default=None)


def _merge(place: Place, files: list[DataFile], days: Days, now_s: float) -> Merge | None:
    if place.table in COARSENED and place.date < day(max(0.0, now_s - days.detail * DAY_S)):
        fine = [file for file in files if not file.coarse]
        if fine:
            return Merge(place, _fitting(sorted(fine, key=_by_path)), coarse=True)
    settled = place.date < day(max(0.0, now_s - SETTLED_S))
    sizes: dict[tuple[bool, bool, int], list[DataFile]] = {}
    for file in files:
        size = 0 if settled and file.rows < most_rows(place.table) // 2 else _size(file)
        sizes.setdefault((file.filled, file.coarse, size), []).append(file)
    for _, alike in sorted(sizes.items()):
        chosen = _fitting(sorted(alike, key=_by_path))
        if len(chosen) >= (2 if settled else FAN_IN):
            return Merge(place, chosen, coarse=chosen[0].coarse, filled=chosen[0].filled)
    return None


def _by_path(file: DataFile) -> tuple[int, str]:
    """Older files first: of rows that were told twice the last counts."""
    return written_for(file.path), file.path


def _size(file: DataFile) -> int:
    """The class of a file's size: each is ``FAN_IN`` times the one before."""
    size, rows = 0, file.rows
    while rows >= 1000:
        size, rows = size + 1, rows // FAN_IN
    return size


def most_rows(table: str) -> int:
    """Rows of ``table`` that a merged file holds at most, so that merging them fits the memory."""
    return MOST_CELLS // len(BY_NAME[table].columns)


def _fitting(files: list[DataFile]) -> list[DataFile]:
    """The first of ``files`` that fit one file."""
    chosen: list[DataFile] = []
    rows = 0
    for file in files:
        if chosen and rows + file.rows > most_rows(file.table):
            break
        chosen.append(file)
        rows += file.rows
    return chosen


def coarser(table: str) -> str:
    """SQL that makes of windows in the table ``rows`` such of ``COARSE_S`` seconds; of those, again the same.

    ``length_s`` is how much of that time was told, ``used_s`` and ``idle_s`` how much of it a GPU was used or idle.
    Means are weighted by what they are means of: samples, or steps. Of medians the weighted mean is taken, which is
    close where a rank's pace does not change within minutes.
    """
    known = BY_NAME[table]
    if table not in SUMMED:
        return f"SELECT * FROM rows WHERE length_s >= {OF_JOB_S}"
    weight = "steps" if table == "rank_window" else "samples"
    columns = {name: _coarse_column(name, kind, weight) for name, kind in known.columns.items()}
    bucket = f"floor(start_s / {COARSE_S}) * {COARSE_S}"
    groups = ["cluster", *(name for name in known.key if name not in ("start_s", "length_s"))]
    if table == "device_window":
        columns |= _OF_USE
    columns |= {"start_s": bucket, "length_s": "sum(length_s)"} | {name: f'"{name}"' for name in groups}
    told = ", ".join(f'{text} AS "{name}"' for name, text in columns.items())
    coarse = f"SELECT {told} FROM rows GROUP BY {', '.join(groups)}, {bucket}"
    if table != "device_window":
        return coarse
    # What is told by job is added up word by word.
    same = " AND ".join(f'coarse."{name}" IS NOT DISTINCT FROM shares."{name}"' for name in (*groups, "start_s"))
    keys = ", ".join(f'"{name}"' for name in groups)
    return f"""
        WITH coarse AS ({coarse}), parts AS (
            SELECT {keys}, {bucket} AS start_s, key, sum(CAST(value AS DOUBLE)) AS joules
            FROM rows, json_each(CAST(rows.energy_by_job AS JSON)) GROUP BY ALL
        ), shares AS (
            SELECT {keys}, start_s, CAST(json_group_object(key, joules) AS VARCHAR) AS told FROM parts GROUP BY ALL
        )
        SELECT coarse.* REPLACE (shares.told AS energy_by_job) FROM coarse LEFT JOIN shares ON {same}
    """


def _coarse_column(name: str, kind: str, weight: str) -> str:
    if name == weight:
        return f"CAST(sum({weight}) AS BIGINT)"
    if name == "first_step":
        return "min(first_step)"
    if name in ("last_step", "kafka_offset") or name.startswith("max_"):
        return f'max("{name}")'
    if name.endswith("_j") and not name.startswith("mean_"):
        return f'sum("{name}")'
    if name == "energy_source":
        return f"CASE WHEN min({name}) = max({name}) THEN min({name}) WHEN count({name}) > 0 THEN 'mixed' END"
    if kind == "f64":
        return f'sum("{name}" * {weight}) / nullif(sum({weight}) FILTER ("{name}" IS NOT NULL), 0)'
    return f'last("{name}" ORDER BY start_s)'
