"""The job's page: headline, heatmap, phases, findings, health, and its balancer where it has one.

Rule of this file: it composes; every part draws itself.
"""

import streamlit as st

from .. import wording
from ..headline import headline
from ..history_link import address
from ..theme import FAST
from ..wording import safe
from . import balance, findings, frame, health, pictures, summary
from .frame import Shown, Source


def show(source: Source) -> None:
    """Draw the page from ``source``."""
    frame.show(source, _draw)


def _draw(shown: Shown) -> None:
    snapshot = shown.snapshot
    if snapshot.job is None:
        if snapshot.connection.state != "lost":
            if snapshot.node_findings:
                health.draw_machines(snapshot)
            health.draw(snapshot)
        return
    numbers = headline(snapshot.job)
    summary.draw_tiles(snapshot.job, numbers, snapshot.now_s)
    left, right = st.columns([1.65, 1], gap="medium")
    with left:
        pictures.draw_heatmap(shown, snapshot.job)
        pictures.draw_phases(shown, snapshot.job)
        if snapshot.job.balance is not None:
            balance.draw(shown, snapshot.job.balance)
    with right:
        findings.draw(snapshot.job, snapshot.now_s)
        _record(shown, snapshot.job.name)
        if health.nodes_of_job(snapshot):  # Of a job whose nodes are not known, other machines say nothing.
            health.draw_machines(snapshot)
        health.draw(snapshot)


def _record(shown: Shown, job: str) -> None:
    """Links to where what was found, and what follows, can be recorded under a name, and to what is kept."""
    way = shown.link.changed(live=True, from_s=None, to_s=None).to("sessions", job=job)
    link = f'<a style="color:{FAST}" href="{safe(way)}" target="_blank" rel="noopener">record a session of it</a>'
    kept = wording.cell(wording.Anchor("its history", address(job=job)))
    words = f"To keep what happens in this job: {link}. What happened before: {kept}."
    st.html(f'<div class="pl"><p class="muted">{words}</p></div>')
