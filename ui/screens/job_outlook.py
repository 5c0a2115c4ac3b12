"""Beside the series: when GPUs are free, what kinds of jobs run, when they end, and which memory fills up."""

from datetime import tzinfo

import streamlit as st

from paceline.events import FREE_GPUS
from paceline.words import verdict

from .. import profile_words
from ..forecast_book import SeriesForecast
from ..forecast_view import amount, best_stretch, filling, held_words, label
from ..free_figure import free_chart
from ..free_hours import FIELD, free_hours, free_words
from ..moments import ahead, clock, length
from ..snapshot import Snapshot, name_of
from ..wording import command, ratio, safe, table
from . import charts, summary
from .frame import Shown

#: Clusters, jobs and memories that are listed; the rest is counted.
CLUSTERS, JOBS, MEMORIES = 4, 12, 8
#: As many GPUs as somebody wants who does not say how many.
WANTED = 8


def draw_free(shown: Shown, zone: tzinfo) -> None:
    """Of each cluster, when most of its GPUs will be free; hour by hour where its quarter hours are known."""
    snapshot = shown.snapshot
    free = [one for one in snapshot.forecasts.values() if one.scope == "cluster" and one.field == FREE_GPUS]
    tiles = [_free(one, snapshot.now_s, zone) for one in sorted(free, key=lambda one: one.key)[:CLUSTERS]]
    if tiles:
        columns = "grid-template-columns:repeat(auto-fill,minmax(min(100%,22rem),1fr))"
        st.html(f'<div class="pl"><div class="pl-tiles" style="{columns}">{"".join(tiles)}</div></div>')
    if len(free) > CLUSTERS:
        st.caption(f"and {len(free) - CLUSTERS} more clusters: search for free GPUs")
    _draw_hours(shown, zone)


def _draw_hours(shown: Shown, zone: tzinfo) -> None:
    known = [one for one in shown.snapshot.forecasts.values() if one.scope == "cluster" and one.field == FIELD]
    now_s = shown.snapshot.now_s
    ordered = sorted(known, key=lambda one: one.key)[:CLUSTERS]
    days = [(one, hours) for one in ordered if (hours := free_hours(one, now_s))]
    if not days:
        return
    st.html('<div class="pl"><h2>Free GPUs, hour by hour</h2></div>')
    field, said = st.columns([1, 4], vertical_alignment="bottom")
    wanted = field.number_input("GPUs wanted", 1, 1_000_000, WANTED, key="gpus_wanted")
    lines = [
        (f"Cluster {one.event.cluster[:60]}: " if len(days) > 1 else "") + free_words(hours, wanted, now_s, zone)
        for one, hours in days
    ]
    said.html(f'<div class="pl">{"".join(f"<p>{safe(line)}</p>" for line in lines)}</div>')
    for number, (one, hours) in enumerate(days):
        caption = (
            f"Cluster {one.event.cluster[:60]}: median and 80 % interval of that quarter of each hour in which the "
            f"fewest are free. {held_words(one)}"
        )
        charts.draw(free_chart(hours, wanted, zone, shown.palette), f"free-hours-{number}", shown.link, caption=caption)


def _free(one: SeriesForecast, now_s: float, zone: tzinfo) -> str:
    best = best_stretch(one)
    name = f"GPUs free in cluster {one.event.cluster[:60]}"
    if best is None:
        return summary.tile(name, ("unknown", ""), "this forecaster sends no median")
    of_all = f"of {one.event.maximum:,.0f}" if one.event.maximum and one.event.maximum < 1e9 else "GPUs"
    when = f"most from {clock(best.start_s, now_s, zone)} to {clock(best.end_s, now_s, zone)}"
    likely = "" if best.low is None or best.high is None else f", 80 %: {best.low:,.0f} to {best.high:,.0f}"
    seen = f"; forecast of {length(len(one.fan) * one.event.interval_s)}"
    held = held_words(one)
    below = f"{when}{likely}{seen}" + (f". {held}" if held else "")
    return summary.tile(name, (f"{best.median:,.0f}" if best.median < 1e9 else "many", of_all), below)


def draw_jobs(shown: Shown, zone: tzinfo) -> None:
    """A line a job: its kind, cycle with the next occurrence, and expected end."""
    st.html('<div class="pl"><h2>Jobs: kind, cycle, expected end</h2></div>')
    snapshot = shown.snapshot
    found = profile_words.profiles_listed(snapshot.profiles, shown.link.job)
    if not found:
        st.html(
            '<div class="pl"><p class="muted">No job has a profile yet. Start '
            f"{command('paceline forecaster', shown.brokers)}.</p></div>"
        )
        return
    ended = {(line.cluster, line.job) for line in snapshot.jobs if line.ended_s is not None}
    head = [("job", ""), ("kind", ""), ("cycle", ""), ("next", ""), ("expected end", ""), ("updated", "n")]
    rows = []
    for one in found[:JOBS]:
        due_s = profile_words.next_cycle_s(one, snapshot.now_s)
        over = (one.cluster, one.job) in ended
        end = "has ended" if over else profile_words.end_words(one, snapshot.now_s)
        at = "" if over or one.end_s is None else f", {clock(one.end_s, snapshot.now_s, zone)}"
        between = "" if over else profile_words.end_between(one, snapshot.now_s, zone)
        due = "-" if over or due_s is None else f"{clock(due_s, snapshot.now_s, zone)}, {ahead(due_s, snapshot.now_s)}"
        cells = [
            name_of(one.cluster, one.job)[:120],
            profile_words.kind_words(one),
            profile_words.cycle_words(one),
            due,
        ]
        rows.append(
            [
                *((text, "") for text in cells),
                (f"{end}{at} ({between})" if between else end + at, ""),
                (profile_words.as_of_words(one, snapshot.now_s), "n"),
            ]
        )
    st.html(table(head, rows))
    if len(found) > JOBS:
        st.caption(f"and {len(found) - JOBS:,} more; ?job=NAME in the address shows one")
    notes = {note[:200] for one in found[:JOBS] for note in one.notes[:3]}
    if notes:
        with st.expander("Details of kinds and cycles", key="profile-notes"):
            st.html(
                f'<div class="pl">{"".join(f"""<p class="muted">{safe(note)}</p>""" for note in sorted(notes))}</div>'
            )


def draw_memory(snapshot: Snapshot, zone: tzinfo) -> None:
    """Memories that may be full within their forecast, and open findings of such."""
    st.html('<div class="pl"><h2>Time until memory is full</h2></div>')
    measured = [one for one in snapshot.forecasts.values() if one.field.endswith("_used_bytes") and one.event.maximum]
    found = filling(measured)
    for episode in [*(snapshot.job.episodes if snapshot.job else []), *snapshot.node_findings]:
        newest = episode[-1]
        if newest.kind == "out_of_memory_risk" and newest.state != "recovered":
            st.html(f'<div class="pl"><p><b>{safe(verdict(newest))}</b>: {safe(newest.summary)}</p></div>')
    if not measured:
        text = "No memory forecast yet. Run paceline collect on the nodes, and paceline forecaster."
    elif not found:
        furthest_s = max(len(one.fan) * one.event.interval_s for one in measured)
        text = f"No memory is expected to fill up within {length(furthest_s)}."
    else:
        text = "Full at these times with a probability of 10 % and 50 %."
    st.html(f'<div class="pl"><p class="muted">{safe(text)}</p></div>')
    if found:
        head = [("memory", ""), ("now", "n"), ("size", "n"), ("full, 10 %", ""), ("full, 50 %", "")]
        st.html(table(head, [_memory(*line, snapshot.now_s, zone) for line in found[:MEMORIES]]))
    if len(found) > MEMORIES:
        st.caption(f"and {len(found) - MEMORIES:,} more")


def _memory(
    one: SeriesForecast, early_s: float | None, half_s: float | None, now_s: float, zone: tzinfo
) -> list[tuple[object, str]]:
    used, size = float(one.past[-1]) if one.past.size else None, one.event.maximum
    share = f" ({ratio(used / size)})" if used is not None and size else ""
    whens = [
        "not within the forecast" if at is None else f"{clock(at, now_s, zone)}, {ahead(at, now_s)}"
        for at in (early_s, half_s)
    ]
    return [(label(one), ""), (amount(one, used) + share, "n"), (amount(one, size), "n"), *((w, "") for w in whens)]
