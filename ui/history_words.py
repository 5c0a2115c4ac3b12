"""Rows of an archive in the words and cells of a page.

Rule of this file: pure. A row may be of a later version, or hold what nobody measured: it is reported as it is.
"""

import datetime
import math
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

import msgspec
import numpy as np
import numpy.typing as npt

from paceline import words
from paceline.decoders import json_decoder
from paceline.events import CAUSE_WORDS, Finding
from paceline.words import NONE, WAITING, state_words

from .history_figures import Day, Episode
from .history_link import address
from .history_questions import day_of
from .moments import LAST_DATE_S, length
from .snapshot import name_of
from .wording import Anchor, Cell, ratio

Row = Mapping[str, Any]
#: Letters of a summary that fit into a table's cell, and nodes.
_LETTERS, _NODES = 160, 3
FINDINGS = (("time", ""), ("finding", ""), ("state", ""), ("job", ""), ("nodes", ""), ("lost", "n"), ("summary", ""))
JOBS = (
    ("began", ""),
    ("job", ""),
    ("ran", "n"),
    ("ranks", "n"),
    ("steps", "n"),
    ("a step", "n"),
    (WAITING, "n"),
    ("findings", "n"),
    ("lost", "n"),
    ("now", ""),
)
_USES = {
    "Busy": "busy",
    "Idle with a job": "idle_held",
    "Idle without a job": "idle_free",
    "Use not measured": "unmeasured",
}
NODES = (("node", ""), ("findings", "n"), ("jobs", "n"), ("lost", "n"), ("mostly", ""), ("last", "n"))


def moment(at_s: float | None) -> str:
    """When it was, in UTC.

    >>> moment(0.0), moment(1e30), moment(None)
    ('1970-01-01 00:00', 'not known', 'not known')
    """
    if at_s is None or not 0.0 <= at_s < LAST_DATE_S:
        return "not known"
    return datetime.datetime.fromtimestamp(at_s, datetime.UTC).strftime("%Y-%m-%d %H:%M")


def cause(name: str | None) -> str:
    """A cause in a few words; of a newer Paceline's, its name."""
    return CAUSE_WORDS.get(name or "") or (name or NONE).replace("_", " ")


def kind(name: str | None) -> str:
    """A kind of finding in a few words."""
    return words.KINDS.get(name or "") or (name or NONE).replace("_", " ").capitalize()


def hours(value: float | None) -> str:
    """Device-hours; what nobody told is not 0."""
    return NONE if value is None or not math.isfinite(value) else f"{words.digits(value)} device-hours"


def lost(row: Row, hours_name: str = "gpu_hours", seconds_name: str = "lost_s") -> str:
    """What was lost: in device-hours where they are reported, else in time.

    >>> lost({"gpu_hours": 1.5, "lost_s": 60.0}), lost({"gpu_hours": 0.0, "lost_s": 60.0}), lost({"lost_s": None})
    ('1.50 device-hours', '60.0 s', '-')
    """
    if row.get(hours_name):
        return hours(row[hours_name])
    told = row.get(seconds_name)
    return "-" if told is None or not math.isfinite(told) else "nothing" if told == 0 else words.seconds(told)


def verdict(row: Row) -> str:
    """The finding in one line; of a later version's, its kind and cause."""
    try:
        return words.verdict(json_decoder(Finding).decode(row["event"]))
    except (msgspec.DecodeError, TypeError, KeyError):
        return f"{kind(row.get('kind'))}: {cause(row.get('cause'))}"


def job_name(row: Row) -> str:
    """What links call the job of a row; "" where it has none."""
    return name_of(row.get("cluster") or "default", row["job"]) if row.get("job") else ""


def finding_cells(row: Row) -> Sequence[Cell]:
    """A row of the table of findings."""
    job, summary = job_name(row), row.get("summary") or ""
    state = state_words(row.get("kind") or "", row.get("state") or "")
    return [
        (moment(row["time_s"]), "w"),
        (verdict(row), ""),
        (state or NONE, "w own" if state == "confirmed" else "w"),
        (Anchor(job, address(job=job)) if job else "-", ""),
        (_nodes(row.get("nodes") or []), ""),
        (lost(row, "cost_gpu_hours", "cost_lost_s"), "n"),
        (summary if len(summary) <= _LETTERS else f"{summary[: _LETTERS - 1]}…", ""),
    ]


def _nodes(nodes: Sequence[str]) -> object:
    if len(nodes) == 1:
        return Anchor(nodes[0], address(node=nodes[0]))
    shown = ", ".join(nodes[:_NODES])
    return (f"{shown} and {len(nodes) - _NODES} more" if len(nodes) > _NODES else shown) or "-"


def job_cells(row: Row, pictures: Mapping[str, Anchor]) -> Sequence[Cell]:
    """A row of the table of jobs; ``pictures`` has links to the pages of those that are on the bus."""
    name, end_s = job_name(row), row.get("ended_s") or row.get("heard_s")
    began_s, attempt = row.get("started_s"), row.get("attempt") or 0
    ran = NONE
    if end_s and began_s and end_s > began_s:
        ran = length(end_s - began_s) + ("" if row.get("ended_s") else " so far")
    steps, ranks, found = row.get("steps"), row.get("ranks"), row.get("findings") or 0
    return [
        (moment(began_s), "w"),
        (Anchor(f"{name}, attempt {attempt}" if attempt else name, address(job=name)) if name else "-", ""),
        (ran, "n"),
        (NONE if ranks is None else f"{ranks:,}", "n"),
        (NONE if steps is None else f"{steps:,}", "n"),
        (words.seconds(row.get("step_s")), "n"),
        (ratio(row.get("wait_ratio")), "n"),
        (f"{found:,}", "n"),
        (lost(row, "lost_gpu_hours") if found else "nothing", "n"),
        (pictures.get(name, ""), ""),
    ]


def node_cells(row: Row) -> Sequence[Cell]:
    """A row of the table of nodes."""
    return [
        (Anchor(row["node"], address(node=row["node"])), ""),
        (f"{row['findings']:,}", "n"),
        (f"{row['jobs']:,}", "n"),
        (lost(row), "n"),
        (cause(row.get("cause")), ""),
        (moment(row["time_s"]), "n"),
    ]


def days(rows: Iterable[Row]) -> dict[datetime.date, Day]:
    """What was lost on each day."""
    return {
        day_of(row["day"]): Day(row.get("gpu_hours") or 0.0, row.get("lost_s") or 0.0, row["findings"]) for row in rows
    }


def episode(row: Row) -> Episode:
    """A finding's life in a picture; one that has not recovered is reported until it was last."""
    return Episode(
        verdict(row),
        state_words(row.get("kind") or "", row.get("state") or "") or NONE,
        row["first_s"],
        row["last_s"],
        lost(row),
    )


def with_gaps(rows: Sequence[Row]) -> tuple[npt.NDArray[np.float64], list[Row]]:
    """The moments of a job's pace and their rows; where nothing is kept in between stands an empty row.

    >>> with_gaps([{"at_s": 0.0, "bucket_s": 60.0}, {"at_s": 60.0, "bucket_s": 60.0}, {"at_s": 600.0}])[0].tolist()
    [0.0, 60.0, 120.0, 600.0]
    """
    told: list[Row] = []
    for row in rows:
        if told and row["at_s"] - told[-1]["at_s"] > 2.5 * told[-1]["bucket_s"]:
            told.append({"at_s": told[-1]["at_s"] + told[-1]["bucket_s"]})
        told.append(row)
    return np.array([row["at_s"] for row in told], np.float64), told


def used(row: Row) -> list[tuple[str, float | None, str]]:
    """Device-hours by use: a label, the hours, and a note; hours are None where nobody was watched."""
    watched = row.get("watched")
    told = [("Measured", watched, f"{ratio(row.get('utilization_ratio'))} busy on average")]
    for label, name in _USES.items():
        value = row.get(name) or 0.0
        if name != "unmeasured" or value:
            told.append((label, value if watched else None, ratio(value / watched) if watched else ""))
    return told
