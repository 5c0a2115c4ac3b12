"""The forecast page: a series with what comes next, when GPUs are free, what kinds of jobs run and when they end.

Rule of this file: it composes. The body runs again every two seconds, but the picture changes only with a forecast.
"""

from collections.abc import Callable
from datetime import tzinfo

import streamlit as st

from ..forecast_book import SeriesForecast
from ..forecast_figure import busy_chart, fan_chart
from ..forecast_view import amount, badge, job_of, label, listed, staleness
from ..moments import clock, length, zone_of
from ..notices import DOCTOR, Notice
from ..snapshot import Snapshot
from ..theme import STYLE
from ..wording import LONGEST_NAME, age, safe
from . import job_outlook, summary
from .pictures import CONFIG

Source = Callable[[str | None], Snapshot]
REFRESH_S = 2.0
#: Series that the picker lists; the search narrows them.
LISTED = 300
FORECASTER = ("paceline forecaster", "start the forecaster; what it has learned it reads from the topics again")


def show(source: Source) -> None:
    """Draw the whole page from ``source``."""
    st.html(STYLE)
    paused = st.session_state.get("mode") == "Paused"
    st.fragment(_body, run_every=None if paused else REFRESH_S)(source)


def _body(source: Source) -> None:
    snapshot = source(st.query_params.get("job"))
    zone = zone_of(st.context.timezone)
    _title(snapshot)
    with st.container():  # Always there: a notice that comes or goes moves nothing below it.
        said = notice_of(snapshot)
        if said:
            summary.draw_notice(said)
    if snapshot.forecasts:
        job_outlook.draw_free(snapshot, zone)
        chosen = _picked(snapshot)
        if chosen is not None:
            _series(chosen, snapshot, zone)
    job_outlook.draw_jobs(snapshot, zone)
    job_outlook.draw_memory(snapshot, zone)


def notice_of(snapshot: Snapshot) -> Notice | None:
    """Why there is no forecast, or only old ones, and the command that mends it."""
    connection, now_s = snapshot.connection, snapshot.now_s
    if connection.state in ("lost", "failed"):
        kept = " The forecasts heard before are below." if snapshot.forecasts else ""
        return Notice(
            "lost", f"No connection to the broker at {connection.brokers}", connection.cause + kept, (DOCTOR,)
        )
    if not snapshot.forecasts and connection.state == "connecting":
        return Notice("wait", f"Connecting to the broker at {connection.brokers}", "This takes a second or two.")
    windows = next((line for line in snapshot.topics if line.topic == "window"), None)
    if not snapshot.forecasts and (windows is None or windows.last_s is None):
        text = "There are no windows to forecast from: nothing is measured, or no worker makes windows of it."
        streams = ("paceline streams", "make windows of what is measured")
        return Notice(
            "wait", "Nothing to forecast yet", text, (streams, ("paceline collect", "sample this node's GPUs"))
        )
    if not snapshot.forecasts:
        text = (
            "No forecast has come. A series is forecast once it has 12 values: 2 minutes of a job, 12 of a GPU or node."
        )
        return Notice("wait", "No forecaster has spoken", text, (FORECASTER, DOCTOR))
    newest_s = max(one.at_s for one in snapshot.forecasts.values())
    if now_s - newest_s > 600.0:
        text = "Below is the last that it said."
        return Notice("wait", f"No new forecast for {length(now_s - newest_s)}", text, (FORECASTER, DOCTOR))
    return None


def _title(snapshot: Snapshot) -> None:
    count = len(snapshot.forecasts)
    words = (
        f"{count:,} series · {len(snapshot.profiles):,} jobs" if count else "What comes next, and how far to trust it"
    )
    if count:
        words += f" · newest published {age(snapshot.now_s, max(one.at_s for one in snapshot.forecasts.values()))}"
    st.html(f'<div class="pl"><h1>Forecast</h1><p class="muted">{safe(words)}</p></div>')


def _picked(snapshot: Snapshot) -> SeriesForecast | None:
    """The series that link and picker ask for, else the first of the job's, else the cluster's."""
    wanted, job = st.query_params.get("series"), st.query_params.get("job")
    search, picker = st.columns([1, 2.2], vertical_alignment="bottom")
    words = search.text_input("Search", key="series_words", placeholder="job, node, GPU or what is measured")
    found = listed(snapshot.forecasts.values(), words or "")
    if not found:
        st.caption(f"None of {len(snapshot.forecasts):,} series has these words.")
        return None
    of_job = [one for one in found if job is not None and job_of(one) == job]
    keys = [one.key for one in found[:LISTED]]
    shown = wanted if wanted in keys else (of_job or found)[0].key
    if shown not in keys:
        keys = [shown, *keys]
    st.session_state["series"] = shown
    names = {one.key: label(one) for one in found}
    picker.selectbox(
        f"Series ({len(found):,})", keys, key="series", format_func=lambda key: names.get(key, key), on_change=_remember
    )
    if wanted and wanted not in snapshot.forecasts:
        text = "It has no values yet, fewer than 12, or a name of its own; this is another one."
        summary.draw_notice(
            Notice("wait", f"No forecast of {wanted[:LONGEST_NAME]} has been heard", text, (FORECASTER,))
        )
    return snapshot.forecasts[shown]


def _remember() -> None:
    """Put the chosen series into the address, so that the link can be shared."""
    st.query_params["series"] = st.session_state["series"]


def _series(one: SeriesForecast, snapshot: Snapshot, zone: tzinfo) -> None:
    judged = badge(one)
    colour = summary.TONES[judged.tone]
    notes = "".join(f'<p class="muted">{safe(note)}</p>' for note in [staleness(one, snapshot.now_s), *one.event.notes])
    st.html(
        f'<div class="pl"><h2>{safe(label(one))} '
        f'<span class="pl-badge" style="color:{colour};margin-left:0.5rem">{safe(judged.title)}</span></h2>'
        f'<p class="muted">{safe(judged.text)}</p>{notes}</div>'
    )
    _tiles(one, snapshot, zone)
    picture = fan_chart(one, zone)
    st.plotly_chart(picture, theme=None, key="fan", config=CONFIG, alt=f"Forecast of {label(one)}")
    if not one.past.size:
        st.caption("This forecaster does not send the values that it forecasts from: no history is drawn.")
    if not one.naive.size:
        st.caption("No naive forecast is drawn: there is no history to repeat, or this forecaster does not send it.")
    if one.busy.size:
        st.html(
            '<div class="pl"><h2>Probability to be above its rest</h2><p class="muted">It rests on its minimum for '
            "at least 30 % of the time: then it is one or the other, and a median says little.</p></div>"
        )
        st.plotly_chart(busy_chart(one, zone), theme=None, key="busy", config=CONFIG, alt="Probability to be busy")


def _tiles(one: SeriesForecast, snapshot: Snapshot, zone: tzinfo) -> None:
    steps, now = len(one.fan), float(one.past[-1]) if one.past.size else None
    tiles = [summary.tile("Now", summary.parts(amount(one, now)), f"as of {age(snapshot.now_s, one.event.time_s)}")]
    for at in sorted({max(0, steps // 4 - 1), steps - 1}):
        span_s = (at + 1) * one.event.interval_s
        tiles.append(summary.tile(f"In {length(span_s)}", summary.parts(_median(one, at)), _likely(one, at)))
    season = length(one.event.season_s) if one.event.season_s else "none found"
    tiles.append(summary.tile("Season", summary.parts(season), "after which it repeats"))
    what = f"of {one.event.history:,} values, every {length(one.event.interval_s)}"
    tiles.append(summary.tile("Made by", (one.event.model.replace("_", " ")[:LONGEST_NAME], ""), what))
    made = f"published {clock(one.at_s, snapshot.now_s, zone)}, {age(snapshot.now_s, one.at_s)}"
    st.html(f'<div class="pl"><div class="pl-tiles">{"".join(tiles)}</div><p class="muted">{safe(made)}</p></div>')


def _median(one: SeriesForecast, at: int) -> str:
    level = one.level(0.5)
    return amount(one, None if level is None else float(level[at]))


def _likely(one: SeriesForecast, at: int) -> str:
    low, high = one.level(0.1), one.level(0.9)
    if low is None or high is None:
        return "no 80 % interval is sent"
    return f"80 %: {amount(one, float(low[at]))} to {amount(one, float(high[at]))}"
