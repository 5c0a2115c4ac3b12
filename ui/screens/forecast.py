"""The forecast page: a series with what comes next, when GPUs are free, what kinds of jobs run and when they end.

Rule of this file: it composes. The body runs again every two seconds, but the picture changes only with a forecast.
"""

from datetime import tzinfo

import streamlit as st

from paceline.words import LONGEST_NAME, age

from ..calibration_figure import calibration_chart
from ..forecast_book import SeriesForecast
from ..forecast_figure import busy_chart, fan_chart
from ..forecast_view import amount, badge, held_words, job_of, label, listed, staleness
from ..moments import as_of, clock, length, zone_of
from ..notices import DOCTOR, Notice
from ..snapshot import Snapshot
from ..wording import safe
from . import charts, frame, job_outlook, summary
from .frame import Shown, Source

#: Series that the picker lists; the search narrows them.
LISTED = 300
FORECASTER = ("paceline forecaster", "start the forecaster; it reads its history from the topics")
#: Seconds within which a forecaster that runs reports a job that runs, and any series that is measured by the minute.
REPORTS_JOB_S, REPORTS_SERIES_S = 60.0, 900.0


def show(source: Source) -> None:
    """Draw the whole page from ``source``."""
    frame.show(source, _draw, "Forecast", ranged=False)


def _draw(shown: Shown) -> None:
    snapshot, zone = shown.snapshot, zone_of(st.context.timezone)
    with st.container():  # Always there: a notice that comes or goes moves nothing below it.
        said = notice_of(snapshot)
        if said:
            summary.draw_notice(said, shown.brokers)
    if snapshot.forecasts:
        job_outlook.draw_free(shown, zone)
        chosen = _picked(shown)
        if chosen is not None:
            _series(chosen, shown, zone)
    job_outlook.draw_jobs(shown, zone)
    job_outlook.draw_memory(snapshot, zone)


def notice_of(snapshot: Snapshot) -> Notice | None:
    """Why there is no forecast, or only old ones, and the command that fixes it."""
    now_s = snapshot.now_s
    if snapshot.connection.state != "connected":
        return None  # The frame says so.
    windows = next((line for line in snapshot.topics if line.topic == "window"), None)
    if not snapshot.forecasts and (windows is None or windows.last_s is None):
        text = "There are no windows to forecast from: nothing is measured, or no stream worker is running."
        streams = ("paceline streams", "make windows from the measurements")
        return Notice(
            "wait", "Nothing to forecast yet", text, (streams, ("paceline collect", "sample this node's GPUs"))
        )
    if not snapshot.forecasts:
        first = "The first forecast comes after 12 values of a series: 2 minutes of a job, 12 of a GPU or node."
        if snapshot.profiles:  # It has reported what it knows of jobs.
            return Notice("wait", "No forecast yet", f"The forecaster runs. {first}")
        if _overdue(snapshot):
            text = f"No forecaster is running, or it is behind. {first} Under paceline up its log is forecaster.log."
            return Notice("wait", "No forecaster has reported", text, (DOCTOR, FORECASTER))
        text = f"{first} paceline up runs a forecaster. Otherwise start one:"
        return Notice("wait", "No forecast yet", text, (FORECASTER,))
    newest_s = max(one.at_s for one in snapshot.forecasts.values())
    if now_s - newest_s > 600.0:
        text = "The newest forecast is shown below."
        return Notice("wait", f"No new forecast for {length(now_s - newest_s)}", text, (FORECASTER, DOCTOR))
    return None


def _overdue(snapshot: Snapshot) -> bool:
    """Whether a forecaster that runs would have reported a job or a series by now."""
    running = [line.first_s for line in snapshot.jobs if line.ended_s is None and line.first_s is not None]
    windows_s = [line.began_s for line in snapshot.topics if line.topic == "window" and line.last_s is not None]
    return any(snapshot.now_s - first_s > REPORTS_JOB_S for first_s in running) or any(
        snapshot.now_s - began_s > REPORTS_SERIES_S for began_s in windows_s
    )


def _picked(shown: Shown) -> SeriesForecast | None:
    """The series that link and picker ask for, else the first of the job's, else the cluster's."""
    snapshot, job, wanted = shown.snapshot, shown.link.job, st.query_params.get("series")
    search, picker = st.columns([1, 2.2], vertical_alignment="bottom")
    words = search.text_input("Search", key="series_words", placeholder="job, node, GPU or what is measured")
    found = listed(snapshot.forecasts.values(), words or "")
    if not found:
        st.caption(f"None of {len(snapshot.forecasts):,} series matches.")
        return None
    of_job = [one for one in found if job is not None and job_of(one) == job]
    keys = [one.key for one in found[:LISTED]]
    chosen = wanted if wanted in keys else (of_job or found)[0].key
    if chosen not in keys:
        keys = [chosen, *keys]
    st.session_state["series"] = chosen
    names = {one.key: label(one) for one in found}
    picker.selectbox(
        f"Series ({len(found):,})", keys, key="series", format_func=lambda key: names.get(key, key), on_change=_remember
    )
    if wanted and wanted not in snapshot.forecasts:
        text = "It has fewer than 12 values, or the name is wrong. Another series is shown."
        summary.draw_notice(
            Notice("wait", f"No forecast of {wanted[:LONGEST_NAME]} yet", text, (FORECASTER,)),
            shown.brokers,
        )
    return snapshot.forecasts[chosen]


def _remember() -> None:
    """Put the chosen series into the address, so that the link can be shared."""
    st.query_params["series"] = st.session_state["series"]


def _series(one: SeriesForecast, shown: Shown, zone: tzinfo) -> None:
    snapshot, judged = shown.snapshot, badge(one)
    colour = summary.TONES[judged.tone]
    notes = "".join(f'<p class="muted">{safe(note)}</p>' for note in [staleness(one, snapshot.now_s), *one.event.notes])
    pill = f'<span class="pl-badge" style="color:{colour};margin-left:0.5rem">{safe(judged.title)}</span>'
    st.html(
        f'<div class="pl"><h2>{safe(label(one))} {pill if judged.title else ""}</h2>'
        f'<p class="muted">{safe(judged.text)}</p>{notes}</div>'
    )
    _tiles(one, snapshot, zone)
    charts.draw(fan_chart(one, zone, shown.palette), "forecast", shown.link, caption=_caption(one))
    if one.busy.size:
        st.html(
            '<div class="pl"><h2>Probability of use</h2><p class="muted">This series is at its minimum for '
            "at least 30 % of the time. The probability that it is above is more useful than a median.</p></div>"
        )
        charts.draw(busy_chart(one, zone, shown.palette), "busy", shown.link)
    if (calibration := calibration_chart(one, shown.palette)) is not None:
        st.html(
            '<div class="pl"><h2>How its forecasts did</h2><p class="muted">What was published before, beside the '
            "values that came. True forecasts lie on the dashed line. Steeper in the middle: the intervals are too "
            "wide; flatter: too narrow. Wholly above it: values came lower than forecast; below it: higher.</p></div>"
        )
        charts.draw(calibration, "calibration", shown.link)


def _tiles(one: SeriesForecast, snapshot: Snapshot, zone: tzinfo) -> None:
    steps, now = len(one.fan), float(one.past[-1]) if one.past.size else None
    tiles = [summary.tile("Now", summary.parts(amount(one, now)), f"updated {as_of(one.event.time_s, snapshot.now_s)}")]
    for at in sorted({max(0, steps // 4 - 1), steps - 1}):
        span_s = (at + 1) * one.event.interval_s
        tiles.append(summary.tile(f"In {length(span_s)}", summary.parts(_median(one, at)), _likely(one, at)))
    season = length(one.event.season_s) if one.event.season_s else "none found"
    tiles.append(summary.tile("Season", summary.parts(season), "after which it repeats"))
    what = f"of {one.event.history:,} values, every {length(one.event.interval_s)}"
    tiles.append(summary.tile("Made by", (one.event.model.replace("_", " ")[:LONGEST_NAME], ""), what))
    made = f"published {clock(one.at_s, snapshot.now_s, zone)}, {age(snapshot.now_s, one.at_s)}"
    said = " ".join(filter(None, [f"{made}.", held_words(one)]))
    st.html(f'<div class="pl"><div class="pl-tiles">{"".join(tiles)}</div><p class="muted">{safe(said)}</p></div>')


def _median(one: SeriesForecast, at: int) -> str:
    level = one.level(0.5)
    return amount(one, None if level is None else float(level[at]))


def _likely(one: SeriesForecast, at: int) -> str:
    low, high = one.level(0.1), one.level(0.9)
    if low is None or high is None:
        return "no 80 % interval is sent"
    return f"80 %: {amount(one, float(low[at]))} to {amount(one, float(high[at]))}"


def _caption(one: SeriesForecast) -> str:
    """How the picture is read, and what of it is missing."""
    said = "Bands: 50, 80 and 95 % intervals. Dotted: naive forecast."
    if not one.past.size:
        said += " No history: this forecaster does not send the past values."
    if not one.naive.size:
        said += " No naive forecast: the history is too short, or this forecaster does not send it."
    return said
