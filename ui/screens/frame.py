"""The frame of every page: style, title, job, time range, Live or Paused, the notice above the picture.

Rule of this file: a page draws itself from one snapshot. Its body is a fragment that runs again every two seconds, less
often while many pages are open, or not at all while the page is paused: then it shows the snapshot taken when the
pause began.
"""

import threading
import time
from collections.abc import Callable
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Protocol

import streamlit as st
from streamlit.delta_generator import DeltaGenerator
from streamlit.runtime.scriptrunner import get_script_run_ctx

from .. import notices
from ..link import SPANS, Link
from ..refresh_rate import RefreshRate
from ..snapshot import Snapshot
from ..theme import Palette, palette, style
from . import links, summary

SPAN_WORDS = {"5m": "5 min", "15m": "15 min", "1h": "1 h", "6h": "6 h", "all": "All kept"}


#: Pages drawn at once: more would wait for the interpreter in the midst of it, and the server that answers with them.
_TURNS = threading.Semaphore(2)


class Refreshing:
    """How often this process draws its pages, whoever asks."""

    def __init__(self) -> None:
        self._lock, self._rate = threading.Lock(), RefreshRate()

    def drawn(self, page: str, took_s: float) -> None:
        """A page was drawn; ``took_s`` of its thread's own time."""
        with self._lock:
            self._rate.drawn(page, took_s, time.monotonic())

    def told(self) -> tuple[float, int]:
        """Seconds between two drawings, and how many pages are open."""
        with self._lock:
            now_s = time.monotonic()
            return self._rate.interval_s(now_s), self._rate.pages(now_s)


@st.cache_resource(show_spinner=False)
def refreshing() -> Refreshing:
    """The process's one."""
    return Refreshing()


class Source(Protocol):
    """Where snapshots come from: the newest of everything, and ``job`` (and its ``rank``) in full."""

    def __call__(self, job: str | None, rank: int | None = None) -> Snapshot:
        """A snapshot of now."""


@dataclass(frozen=True)
class Shown:
    """What a page is given to draw: a snapshot, what the address says, and the colours."""

    snapshot: Snapshot
    link: Link
    palette: Palette

    @property
    def brokers(self) -> str:
        """What the commands on this page are typed for."""
        return self.snapshot.connection.brokers


def show(source: Source, draw: Callable[[Shown], None], title: str | None = None, *, ranged: bool = True) -> None:
    """Draw a page whose body is ``draw``; one without ``title`` is of the job in the address.

    A page that is not ``ranged`` shows nothing that the time range chooses.
    """
    st.html(style(palette(_appearance())))
    live, every_s = links.current()[0].live, refreshing().told()[0]
    st.fragment(_body, run_every=every_s if live else None)(source, draw, title, (live, every_s), ranged)


def still(source: Source, draw: Callable[[Shown], None], title: str) -> None:
    """Draw a page that changes only when something else is asked of it: it is told neither time range nor pace."""
    st.html(style(palette(_appearance())))
    link, problems = links.current()
    shown = Shown(source(link.job), link, palette(_appearance()))
    summary.draw_title(shown.snapshot, title)
    with st.container():
        for problem in problems:
            summary.draw_notice(notices.wrong_link(problem), shown.brokers)
    draw(shown)


def _body(
    source: Source, draw: Callable[[Shown], None], title: str | None, paced: tuple[bool, float], ranged: bool
) -> None:
    link, problems = links.current()
    every_s, pages = refreshing().told()
    if (link.live, every_s) != paced:
        st.rerun()  # Only a whole run of the script changes how often the fragment runs.
    with _TURNS:
        began_s = time.thread_time()
        shown = Shown(_taken(source, link), link, palette(_appearance()))
        _bar(
            shown,
            title,
            ranged,
            f"Refreshed every {every_s:g} s" + (f": {pages} pages are open." if pages > 1 else "."),
        )
        with st.container():  # Always there: a notice that comes or goes moves nothing below it, no open card closes.
            for problem in problems:
                summary.draw_notice(notices.wrong_link(problem), shown.brokers)
            said = notices.notice(shown.snapshot, link.job) if title is None else notices.of_connection(shown.snapshot)
            if said:
                summary.draw_notice(said, shown.brokers)
        # What is not there yet would be denied; a page that is paused would wait for ever.
        if shown.snapshot.connection.state != "reading" or not link.live:
            draw(shown)
        if link.live:
            refreshing().drawn(_visitor(), time.thread_time() - began_s)


def _visitor() -> str:
    context = get_script_run_ctx()
    return context.session_id if context is not None else ""


def _appearance() -> str | None:
    kind: str | None = st.context.theme.type
    return kind


def _taken(source: Source, link: Link) -> Snapshot:
    """A new snapshot, or the one held since the pause began; a live page holds none, for they are large."""
    if link.live:
        st.session_state.pop("held", None)
        return source(link.job, link.rank)
    wanted = (link.job, link.rank)
    if "held" not in st.session_state or st.session_state["held"][0] != wanted:
        st.session_state["held"] = (wanted, source(link.job, link.rank))
    held: Snapshot = st.session_state["held"][1]
    return held


def _bar(shown: Shown, title: str | None, ranged: bool, pace: str) -> None:
    """The title on the left, then the job where the page is of one, the time range and the switch."""
    left, picker, span, mode = st.columns([1.6, 1, 1.5, 0.75], vertical_alignment="bottom")
    with left:
        summary.draw_title(shown.snapshot, title)
    if title is None:
        _picker(picker, shown)
    if ranged:
        _range(span, shown.link)
    st.session_state["mode"] = "Live" if shown.link.live else "Paused"
    mode.segmented_control("Refresh", ["Live", "Paused"], key="mode", required=True, on_change=_switch, help=pace)


def _picker(place: DeltaGenerator, shown: Shown) -> None:
    job = shown.snapshot.job
    wanted = shown.link.job or (job.name if job else None)
    if wanted is None:
        return
    names = [line.name for line in shown.snapshot.jobs]
    # Without a link's ?job= the page follows the newest running job, so the picker is told, not asked.
    st.session_state["job"] = wanted
    place.selectbox("Job", names if wanted in names else [wanted, *names], key="job", on_change=_choose)


def _range(place: DeltaGenerator, link: Link) -> None:
    """The shared time range, or the stretch chosen in a picture and the way back."""
    if link.from_s is not None or link.to_s is not None:
        place.button(f"{_moment(link.from_s)} to {_moment(link.to_s)} UTC  ✕", key="unzoom", on_click=_unzoom)
        return
    st.session_state["span"] = link.span
    place.segmented_control(
        "Time range", list(SPANS), format_func=SPAN_WORDS.__getitem__, key="span", required=True, on_change=_respan
    )


def _moment(at_s: float | None) -> str:
    return "…" if at_s is None else datetime.fromtimestamp(at_s, UTC).strftime("%H:%M:%S")


def _choose() -> None:
    links.change(job=st.session_state["job"], from_s=None, to_s=None)


def _respan() -> None:
    links.change(span=st.session_state["span"])


def _switch() -> None:
    links.change(live=st.session_state["mode"] == "Live")


def _unzoom() -> None:
    links.change(from_s=None, to_s=None)
