"""The job's screen: picker, headline, heatmap, phases, findings, health.

Rule of this file: it composes; every part draws itself. The body is one fragment that runs again every two seconds, or
not at all while the page is paused: then it shows the snapshot taken at that moment, and zooms last.
"""

from collections.abc import Callable

import streamlit as st

from ..headline import headline
from ..notices import notice
from ..snapshot import Snapshot
from ..theme import STYLE
from . import findings, health, pictures, summary

Source = Callable[[str | None], Snapshot]
REFRESH_S = 2.0


def show(source: Source) -> None:
    """Draw the whole screen from ``source``."""
    st.html(STYLE)
    paused = st.session_state.get("mode") == "Paused"
    st.fragment(_body, run_every=None if paused else REFRESH_S)(source, paused)


def _body(source: Source, paused: bool) -> None:
    wanted = st.query_params.get("job")
    snapshot = _taken(source, wanted, paused)
    _bar(snapshot, wanted)
    if (st.session_state.get("mode") == "Paused") != paused:
        st.rerun()  # Only a whole run of the script changes how often the fragment runs.
    said = notice(snapshot, wanted)
    with st.container():  # Always there: a notice that comes or goes moves nothing below it, and no open card closes.
        if said:
            summary.draw_notice(said)
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
        pictures.draw_heatmap(snapshot.job)
        pictures.draw_phases(snapshot.job)
    with right:
        findings.draw(snapshot.job, snapshot.now_s)
        health.draw_machines(snapshot)
        health.draw(snapshot)


def _taken(source: Source, wanted: str | None, paused: bool) -> Snapshot:
    """A new snapshot, or the one held since the pause began."""
    held = st.session_state.get("held")
    if paused and held is not None and held[0] == wanted:
        kept: Snapshot = held[1]
        return kept
    snapshot = source(wanted)
    st.session_state["held"] = (wanted, snapshot)
    return snapshot


def _bar(snapshot: Snapshot, wanted: str | None) -> None:
    """Name and state of the job on the left, picker and switch on the right."""
    title, picker, mode = st.columns([2.2, 1, 0.6], vertical_alignment="bottom")
    with title:
        summary.draw_title(snapshot)
    shown = wanted or (snapshot.job.name if snapshot.job else None)
    if shown is not None:
        names = [line.name for line in snapshot.jobs]
        # Without a link's ?job= the page follows the newest running job, so the picker is told, not asked.
        st.session_state["job"] = shown
        picker.selectbox("Job", names if shown in names else [shown, *names], key="job", on_change=_remember)
    mode.segmented_control("Refresh", ["Live", "Paused"], default="Live", key="mode", required=True)


def _remember() -> None:
    """Put the chosen job into the address, so that the link can be shared."""
    st.query_params["job"] = st.session_state["job"]
