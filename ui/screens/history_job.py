"""What is kept of one job: its findings as episodes on a timeline, and its pace.

Rule of this file: it composes.
"""

import numpy as np
import streamlit as st

from .. import history_questions as questions
from .. import history_words
from ..history_door import Told
from ..history_figures import timeline
from ..history_link import Sought
from ..history_words import Row, episode
from ..line_figures import Panel, beside
from ..wording import Anchor, cell, safe
from . import charts
from .frame import Shown

#: Panels of the pace: title, unit, factor, the worse column, and the median's beside it.
_PANELS = (
    ("Step time", "s", 1.0, "step_p95_s", "step_median_s"),
    ("Own time", "s", 1.0, "own_worst_s", "own_median_s"),
    ("Waiting", "%", 100.0, "wait_ratio", ""),
)


#: What is asked of a job alone.
QUESTIONS = {"episodes": questions.episodes, "pace": questions.pace}


def draw(shown: Shown, sought: Sought, answers: dict[str, Told], now_s: float) -> None:
    """The job in full."""
    with st.container(border=True, key="history_job"):
        now = _now(shown, sought.job)
        st.html(f'<div class="pl"><h2 style="margin-top:0">Job {safe(sought.job)}</h2><p class="muted">{now}</p></div>')
        stretch = _stretch(answers, sought.period(now_s))
        st.html('<div class="pl"><h2>Findings over time</h2></div>')
        _timeline(shown, answers["episodes"], stretch)
        st.html('<div class="pl"><h2>Step time</h2></div>')
        _pace(shown, answers["pace"])


def _now(shown: Shown, job: str | None) -> str:
    """Whether the job runs, with the way to its picture, for HTML; empty while the page does not know what runs."""
    snapshot = shown.snapshot
    if snapshot.connection.state != "connected":
        return ""
    line = next((line for line in snapshot.jobs if line.name == job), None)
    if line is None:
        return "It is not running now."
    address = shown.link.changed(node=None, find="").to("job", job=line.name)
    if line.reports(snapshot.now_s):
        return f"It is running now: {cell(Anchor('its own page', address))}."
    state = "is silent" if line.ended_s is None else "has ended"
    return f"It {state}: {cell(Anchor('its last picture', address))}."


def _stretch(answers: dict[str, Told], period: tuple[float, float]) -> tuple[float, float]:
    """The part of the period in which anything of the job is kept."""
    told_s = [row[name] for row in answers["episodes"].rows for name in ("first_s", "last_s")]
    told_s += [row["at_s"] for row in answers["pace"].rows]
    if not told_s:
        return period
    first_s, last_s = min(told_s), max(told_s)
    margin_s = max(60.0, 0.02 * (last_s - first_s))
    return max(period[0], first_s - margin_s), min(period[1], last_s + margin_s)


def _timeline(shown: Shown, told: Told, stretch: tuple[float, float]) -> None:
    if not told.rows:
        st.html('<div class="pl"><p class="muted">No finding in this period with the filters chosen above.</p></div>')
        return
    figure = timeline([episode(row) for row in told.rows], stretch, shown.palette)
    words = "Each finding from its first to its last message."
    words += f" The {len(told.rows)} that cost most." if told.cut else ""
    charts.draw(figure, "history-episodes", shown.link, caption=words)


def _pace(shown: Shown, told: Told) -> None:
    if not told.rows:
        st.html(
            '<div class="pl"><p class="muted">No step times in this period: no window of this job is kept.</p></div>'
        )
        return
    at_s, rows = history_words.with_gaps(told.rows)
    panels = []
    for title, unit, factor, worse, median in _PANELS:
        own, beside_it = _column(rows, worse) * factor, _column(rows, median) * factor
        if np.isfinite(own).any():
            panels.append(Panel(title, unit, shown.palette.accent, at_s, own, beside_it))
    figure = beside(panels, "worst", "median", shown.palette)
    # A stretch that is as short as a point is seen, too.
    figure.update_traces(mode="lines+markers", marker={"size": 3}, selector={"mode": "lines"})
    words = "Line: 95 % of steps, the slowest rank, and the share of a step spent waiting. Dotted: the median."
    charts.draw(figure, "history-pace", shown.link, caption=words)


def _column(rows: list[Row], name: str) -> np.ndarray:
    values = [row.get(name) for row in rows]
    return np.array([np.nan if value is None else value for value in values], np.float64)
