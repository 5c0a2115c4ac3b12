"""The heatmap and the phases of a job, with the controls that belong to them."""

from functools import partial

import numpy as np
import streamlit as st

from .. import figures
from ..ratios import against_median, own_time
from ..snapshot import JobView
from ..stretches import in_stretch, moment_of, newest, nothing_between
from . import charts
from .frame import Shown


def draw_heatmap(shown: Shown, job: JobView) -> None:
    """Ranks x steps: who works longer than the median rank, when, and what was found."""
    title, order = st.columns([3, 1], vertical_alignment="bottom")
    title.html('<div class="pl"><h2>Work time relative to the median rank</h2></div>')
    slow_first = order.toggle("Slowest first", key="slow_first")
    if job.steps.size == 0:
        st.caption("No step received yet. The first comes one or two seconds after the job's first iteration.")
        return
    kept = in_stretch(job.at_s, shown.link.stretch(newest(job.at_s)))
    if not kept.any():
        st.caption(nothing_between(job.at_s))
        return
    own_s = own_time(job.step_s[:, kept], job.waiting_s[:, kept])
    steps, ratio = job.steps[kept], against_median(own_s, job.stages)
    figure = figures.heatmap(steps, ratio, job.episodes, shown.palette, slow_first=slow_first)
    charts.draw(figure, "heatmap", shown.link, zoom=partial(moment_of, steps, job.at_s[kept]), caption=_caption(job))


def _caption(job: JobView) -> str:
    words = "Work time is the step without waiting for other ranks: with waiting, all ranks' steps take equally long."
    if np.unique(job.stages).size > 1:
        words += " A rank is compared with the median rank of its pipeline stage; one that is alone there, with itself."
    words += " Draw a box to zoom in."
    if not np.isfinite(job.waiting_s).any():
        words += " Waiting was not measured in this job, so whole steps are shown."
    if job.step_s.shape[0] > figures.ROWS:
        words += f" The {figures.ROWS} slowest of {job.step_s.shape[0]} ranks."
    if job.refused:
        words += f" {job.refused} rows were too late or impossible and are not shown."
    return words


def draw_phases(shown: Shown, job: JobView) -> None:
    """Where each rank's step went."""
    st.html('<div class="pl"><h2>Time by phase</h2></div>')
    if job.phase_steps == 0:
        st.caption("No complete step received yet.")
        return
    ranks = len(job.phase_s["step"])
    words = f"Last {job.phase_steps} steps of each rank."
    words += f" The {figures.BARS} ranks with the most work time, of {ranks}." if ranks > figures.BARS else ""
    charts.draw(figures.phases(job.phase_s, shown.palette), "phases", shown.link, caption=words)
