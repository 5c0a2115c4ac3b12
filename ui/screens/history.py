"""The page of what happened: findings, jobs and nodes of any time that the archive has, and a month of lost hours.

Rule of this file: it composes. It changes only when somebody asks for something else, for the archive is asked each
time; all questions are asked before the first answer is waited for.
"""

import datetime
from collections.abc import Callable, Sequence
from functools import partial
from typing import Any

import numpy as np
import streamlit as st
from streamlit.delta_generator import DeltaGenerator

from paceline.events import CAUSE_WORDS
from paceline.settings import ARCHIVE
from paceline.words import KINDS, digits

from .. import history_figures, history_link, history_words, notices, wording
from .. import history_questions as questions
from ..figure_frame import written
from ..history_door import HistoryDoor, Told, told
from ..history_link import PAST, Sought, next_month
from ..line_figures import bars
from ..notices import Notice
from ..wording import Anchor, safe
from . import charts, frame, history_job, links, summary
from .frame import Shown, Source

KEEP = (f"{ARCHIVE.name}=/srv/paceline paceline archive", "store events as Parquet")
SHOW = (f"{ARCHIVE.name}=/srv/paceline paceline ui", "show the archive on this page")


def show(source: Source, door: HistoryDoor | None = None) -> None:
    """Draw the whole page over what ``door`` leads to."""
    frame.still(source, partial(_draw, door=door), "History")


def _draw(shown: Shown, door: HistoryDoor | None) -> None:
    if door is None or not door.url:
        text = f"Set {ARCHIVE.name} for this page. The other pages work without an archive."
        summary.draw_notice(Notice("wait", "No archive", text, (KEEP, SHOW)), shown.brokers)
        return
    sought, problems = history_link.read(_said(), shown.link)
    for problem in problems:
        summary.draw_notice(notices.wrong_link(problem), shown.brokers)
    now_s = shown.snapshot.now_s
    wanted = {**_QUESTIONS, **(history_job.QUESTIONS if sought.job else {})}
    clusters, *asked = door.ask([questions.clusters(now_s), *(made(sought, now_s) for made in wanted.values())])
    first = told(clusters)
    if first.trouble:
        summary.draw_notice(Notice("lost", "The archive cannot be read", f"{first.trouble}.", (KEEP,)), shown.brokers)
        return
    _controls(sought, [row["cluster"] for row in first.rows])
    answers = {name: told(one) for name, one in zip(wanted, asked, strict=True)}
    for trouble in dict.fromkeys(one.trouble for one in answers.values() if one.trouble):
        summary.draw_notice(Notice("lost", "A part of this page could not be read", f"{trouble}."), shown.brokers)
    _body(shown, sought, answers, now_s)


_QUESTIONS = {
    "use": questions.use,
    "causes": questions.causes,
    "calendar": questions.lost_by_day,
    "nodes": questions.worst_nodes,
    "jobs": questions.jobs,
    "findings": questions.findings,
}


def _said() -> dict[str, str]:
    return {word: st.query_params[word] for word in history_link.KEYS if word in st.query_params}


def _change(**words: str | None) -> None:
    """Put History's own words into the address, or take them out."""
    for word, text in words.items():
        if text:
            st.query_params[word] = text
        elif word in st.query_params:
            del st.query_params[word]


def _controls(sought: Sought, clusters: Sequence[str]) -> None:
    find, cause, kind, cluster, past = st.columns([1.4, 1.05, 1.05, 0.85, 1.5], vertical_alignment="bottom")
    st.session_state["history_find"] = sought.find
    find.text_input(
        "Search",
        key="history_find",
        placeholder="part of the name of a job, node or GPU",
        max_chars=200,
        on_change=lambda: links.change(find=st.session_state["history_find"].strip()),
    )
    _choice(cause, "cause", list(CAUSE_WORDS), sought.cause, history_words.cause)
    _choice(kind, "kind", list(KINDS), sought.kind, history_words.kind)
    _choice(cluster, "cluster", clusters, sought.cluster, str)
    st.session_state["history_past"] = None if sought.day else sought.past
    past.segmented_control(
        "Period",
        list(PAST),
        format_func=PAST.__getitem__,
        key="history_past",
        on_change=lambda: _change(past=st.session_state["history_past"] or sought.past, day=None),
    )
    _chosen(sought)


def _choice(place: DeltaGenerator, word: str, names: Sequence[str], chosen: str, shown: Callable[[str], str]) -> None:
    """A list to choose one of, or all; what a link chose is among them whatever it is."""
    key = f"history_{word}"
    st.session_state[key] = chosen
    place.selectbox(
        word.capitalize(),
        ["", *dict.fromkeys([*names, *([chosen] if chosen else [])])],
        format_func=lambda name: (shown(name) or name)[:60] if name else "all",
        key=key,
        on_change=lambda: _change(**{word: st.session_state[key]}),
    )


def _chosen(sought: Sought) -> None:
    """What narrows all below beside the lists, each with its way back."""
    held = [("job", sought.job, lambda: links.change(job=None)), ("node", sought.node, lambda: links.change(node=None))]
    day = sought.day.isoformat() if sought.day else ""
    held.append(("day", day, lambda: _change(day=None)))
    if any(text for _, text, _ in held):
        with st.container(horizontal=True, vertical_alignment="center", key="history_chosen"):
            for word, text, back in held:
                if text:
                    # A label is Markdown, and names are other people's: the name stands beside the button.
                    st.html(f'<div class="pl"><p>{word} <b>{safe(text)}</b></p></div>', width="content")
                    st.button("✕", key=f"history-no-{word}", on_click=back, help=f"not only this {word}")


def _body(shown: Shown, sought: Sought, answers: dict[str, Told], now_s: float) -> None:
    _tiles(answers)
    if sought.job:
        history_job.draw(shown, sought, answers, now_s)
    left, right = st.columns([1, 1.1], gap="medium")
    with left:
        _calendar(shown, sought, answers["calendar"], now_s)
    with right:
        _causes(shown, answers["causes"])
    _table("Nodes, most lost first", "nodes", history_words.NODES, answers["nodes"], history_words.node_cells)
    cells = partial(history_words.job_cells, pictures=_pictures(shown))
    _table("Jobs, newest first", "jobs", history_words.JOBS, answers["jobs"], cells)
    head = history_words.FINDINGS
    _table("Findings, newest first", "findings", head, answers["findings"], history_words.finding_cells)


def _pictures(shown: Shown) -> dict[str, Anchor]:
    """By job the way to its own page; of none while the page does not know what runs."""
    snapshot, link = shown.snapshot, shown.link.changed(node=None, find="")
    known = snapshot.jobs if snapshot.connection.state == "connected" else []
    named = {line.name: "live page" if line.reports(snapshot.now_s) else "last picture" for line in known}
    return {job: Anchor(text, link.to("job", job=job)) for job, text in named.items()}


def _tiles(answers: dict[str, Told]) -> None:
    causes, use = answers["causes"], answers["use"]
    tiles = []
    if not causes.trouble:
        lost, count = (sum(row[name] or 0 for row in causes.rows) for name in ("gpu_hours", "findings"))
        note = f"{count:,} finding{'s' if count != 1 else ''} in this period"
        tiles.append(summary.tile("Lost to findings", (digits(lost), "device-hours"), note))
    for label, hours, note in history_words.used(use.rows[0]) if use.rows else []:
        value = summary.parts(history_words.hours(hours))
        tiles.append(summary.tile(label, value, note if hours is not None else "no GPU was measured"))
    st.html(f'<div class="pl"><div class="pl-tiles">{"".join(tiles)}</div></div>')


def _calendar(shown: Shown, sought: Sought, told_now: Told, now_s: float) -> None:
    first = sought.shown_month(now_s)
    with st.container(horizontal=True, vertical_alignment="bottom"):
        st.html(f'<div class="pl"><h2>Device-hours lost by day, {first:%B %Y}</h2></div>', width="stretch")
        st.button("←", key="history-month-back", on_click=_month, args=(next_month(first, -1),), help="month before")
        st.button("→", key="history-month-on", on_click=_month, args=(next_month(first),), help="month after")
    if told_now.trouble:
        return
    lost = history_words.days(told_now.rows)
    figure = history_figures.calendar(first, lost, told_now.days, sought.day, shown.palette)
    caption = "Days in UTC. A tile without colour: no data of that day. Click a day to see only that day."
    name = f"calendar-{first:%Y-%m}-{sought.day or 'all'}"
    charts.draw(figure, name, shown.link, pick=_pick, caption=caption, numbers=partial(_calendar_csv, lost))


def _calendar_csv(lost: dict[datetime.date, history_figures.Day]) -> bytes:
    rows = [[day.isoformat(), one.gpu_hours, one.lost_s, one.findings] for day, one in sorted(lost.items())]
    return written(["day", "lost, device-hours", "lost, s", "findings"], rows)


def _month(first: datetime.date) -> None:
    _change(month=f"{first:%Y-%m}")


def _pick(point: dict[str, Any]) -> None:
    """A click on a day: that day alone."""
    held = point.get("customdata")
    day = history_link.date(str(held[0] if isinstance(held, list) and held else held))
    if day is not None:
        _change(day=day.isoformat(), month=f"{day:%Y-%m}")


def _causes(shown: Shown, told_now: Told) -> None:
    st.html('<div class="pl"><h2>Device-hours lost by cause</h2></div>')
    rows = [row for row in told_now.rows if row["gpu_hours"]]
    if not rows:
        st.html('<div class="pl"><p class="muted">No loss was measured in this period.</p></div>')
        return
    named = [history_words.cause(row["cause"])[:40] for row in rows]
    lost = np.array([row["gpu_hours"] for row in rows])
    figure = bars([safe(name) for name in named], lost, [False] * len(rows), ("cause", "device-hours"), shown.palette)
    charts.draw(figure, "history-causes", shown.link)


def _table(
    title: str,
    name: str,
    head: Sequence[tuple[str, str]],
    told_now: Told,
    cells: Callable[[history_words.Row], Sequence[wording.Cell]],
) -> None:
    with st.container(border=True, key=f"history_{name}"):
        words, button = st.columns([5, 1], vertical_alignment="center")
        words.html(f'<div class="pl"><h2 style="margin-top:0">{title}</h2></div>')
        if not told_now.rows:
            text = "no answer" if told_now.trouble else f"No {name} in this period with the filters chosen above."
            st.html(f'<div class="pl"><p class="muted">{text}</p></div>')
            return
        st.html(wording.table(head, [cells(row) for row in told_now.rows]))
        if told_now.cut:
            st.caption(f"The first {len(told_now.rows)}; choose a shorter period to see others.")
        with button:
            charts.csv_button(partial(_csv, told_now), f"history-{name}")


def _csv(told_now: Told) -> bytes:
    names = [name for name in told_now.rows[0] if name != "event"]
    return written(names, [[_flat(row[name]) for name in names] for row in told_now.rows])


def _flat(value: Any) -> Any:
    return "; ".join(map(str, value)) if isinstance(value, list) else value
