"""The heatmap and the phases of a job, with the controls that belong to them."""

import numpy as np
import streamlit as st

from .. import figures
from ..ratios import against_median, own_time
from ..snapshot import JobView

CONFIG = {"displaylogo": False, "modeBarButtonsToRemove": ["lasso2d", "select2d"], "scrollZoom": False}
#: Words of the control -> steps back; None is all that is held.
SPANS = {"100 steps": 100, "600 steps": 600, "All": None}


def draw_heatmap(job: JobView) -> None:
    """Ranks x steps: who works longer than the median rank, when, and what was found."""
    title, span, order = st.columns([1.5, 1.25, 0.9], vertical_alignment="bottom")
    title.html('<div class="pl"><h2>Own time against the median rank</h2></div>')
    span.segmented_control(
        "Span", list(SPANS), default="600 steps", key="span", required=True, label_visibility="collapsed"
    )
    slow_first = order.toggle("Slowest first", key="slow_first")
    if job.steps.size == 0:
        st.caption("No step has been heard yet; the first comes a second or two after the job's first iteration.")
        return
    back = SPANS[st.session_state.get("span") or "600 steps"] or job.steps.size
    ratio = against_median(own_time(job.step_s, job.waiting_s))[:, -back:]
    figure = figures.heatmap(job.steps[-back:], ratio, job.episodes, slow_first=slow_first)
    st.plotly_chart(figure, theme=None, key="heatmap", config=CONFIG)
    st.caption(_caption(job))


def _caption(job: JobView) -> str:
    words = "Own time is a step without the time spent waiting for other ranks: all ranks' steps take equally long."
    if not np.isfinite(job.waiting_s).any():
        words += " Waiting was not measured in this job, so this shows whole steps."
    if job.step_s.shape[0] > figures.ROWS:
        words += f" The {figures.ROWS} slowest of {job.step_s.shape[0]} ranks."
    if job.refused:
        words += f" {job.refused} rows were too late or impossible and are left out."
    return words


def draw_phases(job: JobView) -> None:
    """Where each rank's step went."""
    st.html('<div class="pl"><h2>Where the time went</h2></div>')
    if job.phase_steps == 0:
        st.caption("No whole step has been heard yet.")
        return
    st.plotly_chart(figures.phases(job.phase_s), theme=None, key="phases", config=CONFIG)
    ranks = len(job.phase_s["step"])
    words = f"Last {job.phase_steps} steps of each rank."
    st.caption(words + (f" The {figures.BARS} ranks with most own time, of {ranks}." if ranks > figures.BARS else ""))
