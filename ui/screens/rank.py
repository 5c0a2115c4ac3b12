"""The page of one rank: its phases, GPU and host beside those with equal work, and its findings.

Opened without a rank it is that of the accused, or of the slowest.

Rule of this file: it composes; what is beside what is decided in ``rank_view``.
"""

from collections.abc import Callable
from dataclasses import replace
from typing import Any

import numpy as np
import streamlit as st

from paceline import words
from paceline.events import RANK_LIMIT
from paceline.gpu.throttle import SLOWING, in_words

from .. import wording
from ..headline import headline
from ..line_figures import Panel, beside
from ..notices import COLLECT
from ..rank_view import Gauges, RankView
from ..snapshot import JobView
from ..stretches import in_stretch, newest, nothing_between
from ..theme import PHASE_COLOURS, Palette
from ..wording import safe
from . import charts, findings, frame, links, summary
from .frame import Shown, Source

#: Phases shown: those in which the rank differs most.
PHASES = 4
GPU_PANELS = (
    ("utilization_ratio", "Utilisation", "%", 100.0),
    ("sm_active_ratio", "SM activity", "%", 100.0),
    ("sm_clock_mhz", "SM clock", "MHz", 1.0),
    ("temperature_celsius", "Temperature", "°C", 1.0),
    ("power_w", "Power", "W", 1.0),
    ("memory_ratio", "Memory used", "%", 100.0),
)
HOST_PANELS = (
    ("cpu_ratio", "CPU", "%", 100.0),
    ("memory_ratio", "Memory used", "%", 100.0),
    ("pressure_cpu_ratio", "Waiting for CPU", "%", 100.0),
    ("pressure_memory_ratio", "Waiting for memory", "%", 100.0),
    ("pressure_io_ratio", "Waiting for disk", "%", 100.0),
)


def show(source: Source) -> None:
    """Draw the page from ``source``."""
    frame.show(source, _draw)


def _draw(shown: Shown) -> None:
    job, view = shown.snapshot.job, shown.snapshot.rank
    if job is None:
        return
    if shown.link.rank is None and (worth := _worth_a_look(job)[0]):
        links.change(rank=worth[0])
        st.rerun()
    _choice(job, shown.link.rank)
    if view is None:
        if shown.link.rank is not None:
            st.html(f'<div class="pl"><b>Rank {shown.link.rank} of this job has not reported.</b></div>')
        return
    _tiles(view)
    watched = view.gpu is not None or view.host is not None
    left, right = st.columns([1.65, 1], gap="medium")
    with left:
        _phases(shown, view)
        _gauges(shown, view.gpu, GPU_PANELS, ("gpu", "GPU", "GPUs"), shown.palette.accent, watched)
    with right:
        mine = [episode for episode in job.episodes if view.rank in episode[-1].ranks]
        findings.draw(replace(job, episodes=mine), shown.snapshot.now_s, view.rank)
        _gauges(shown, view.host, HOST_PANELS, ("host", "Host", "hosts"), shown.palette.good, watched)


def _choice(job: JobView, rank: int | None) -> None:
    """A field for the rank, and those worth a look."""
    field, hints = st.columns([0.5, 2.6], vertical_alignment="bottom")
    st.session_state["rank"] = rank
    field.number_input(
        "Rank", 0, RANK_LIMIT - 1, step=1, key="rank", placeholder=f"0 to {job.world_size - 1}", on_change=_choose
    )
    worth, accused = _worth_a_look(job)
    with hints.container(horizontal=True, vertical_alignment="center"):
        for one in worth:
            words = f"Rank {one}: {'named in a finding' if one in accused else 'slowest now'}"
            st.button(words, key=f"worth-{one}", on_click=links.change, kwargs={"rank": one}, disabled=one == rank)


def _worth_a_look(job: JobView) -> tuple[list[int], list[int]]:
    """The ranks worth a look, the accused before the slowest; and those of them that are accused."""
    accused = [one for episode in job.episodes if episode[-1].state != "recovered" for one in episode[-1].ranks]
    worst = headline(job).worst_rank
    return list(dict.fromkeys([*accused, *([worst] if worst is not None else [])]))[:6], accused


def _choose() -> None:
    links.change(rank=st.session_state["rank"])


def _tiles(view: RankView) -> None:
    work = [name for name in PHASE_COLOURS if name in view.own_s]
    own_s, median_s = (_typical({name: held[name] for name in work}) for held in (view.own_s, view.median_s))
    apart = {name: _mean(view.own_s[name]) - _mean(view.median_s[name]) for name in work}
    known = {name: more for name, more in apart.items() if more == more}
    largest = max(known, key=lambda name: known[name], default="")
    factor = f"{own_s / median_s:.2f}{wording.TIMES} the cohort's median" if median_s > 0 else ""
    slow = "slow" if median_s > 0 and own_s > 1.1 * median_s else ""
    stage = f"stage {view.stage}" if view.stage is not None else "no stages known"
    tiles = [
        summary.tile(f"Rank {view.rank}", (view.node or "node not known", ""), view.device),
        summary.tile("Work time per step", words.seconds_parts(own_s), factor, slow),
        summary.tile(
            "Cohort's median", words.seconds_parts(median_s), f"{words.many(view.cohort.size, 'rank')}, {stage}"
        ),
        summary.tile("Largest difference in", (largest or words.NONE, ""), _more(apart.get(largest, np.nan))),
    ]
    st.html(f'<div class="pl"><div class="pl-tiles">{"".join(tiles)}</div></div>')


def _typical(phases: dict[str, Any]) -> float:
    told = [value for value in map(_mean, phases.values()) if value == value]
    return sum(told) if told else float("nan")


def _mean(values: Any) -> float:
    return float(np.nanmean(values)) if np.isfinite(values).any() else float("nan")


def _more(seconds: float) -> str:
    if seconds != seconds:
        return "nothing to compare with"
    return f"{words.seconds(seconds)} more per step than the median" if seconds > 0 else "no difference"


def _phases(shown: Shown, view: RankView) -> None:
    st.html('<div class="pl"><h2>Phases, compared with the cohort median</h2></div>')
    kept = in_stretch(view.at_s, shown.link.stretch(newest(view.at_s)))
    if not kept.any():
        st.caption(nothing_between(view.at_s) if np.isfinite(view.at_s).any() else "No step received yet.")
        return
    told = [name for name in PHASE_COLOURS if np.isfinite(view.own_s[name][kept]).any()]
    by_gap = sorted(told, key=lambda name: -abs(_mean(view.own_s[name][kept] - view.median_s[name][kept])))
    panels = [_phase(shown.palette, view, name, kept) for name in [*by_gap[:PHASES], "communication"]]
    figure = beside(panels, f"rank {view.rank}", "median", shown.palette)
    median = " and of the median rank (dotted)" if view.cohort.size > 1 else ""
    words = f"The last {int(kept.sum())} steps of rank {view.rank} (line){median}."
    charts.draw(figure, "rank-phases", shown.link, zoom=charts.clock, caption=words)


def _phase(palette: Palette, view: RankView, name: str, kept: Any) -> Panel:
    words = "waiting for others" if name == "communication" else name
    colour = PHASE_COLOURS.get(name, palette.faint)
    own, median = view.own_s[name][kept] * np.float32(1e3), view.median_s[name][kept] * np.float32(1e3)
    return Panel(words, "ms", colour, view.at_s[kept], own, median)


def _gauges(
    shown: Shown,
    gauges: Gauges | None,
    wanted: tuple[tuple[str, str, str, float], ...],
    words: tuple[str, str, str],
    colour: str,
    collected: bool,
) -> None:
    """A machine beside its peers; nothing that is not measured. ``collected``: its node has a collector."""
    name, title, peers = words
    st.html(f'<div class="pl"><h2>{title}, compared with its peers</h2></div>')
    kept = in_stretch(gauges.at_s, shown.link.stretch(newest(gauges.at_s))) if gauges else np.zeros(0, bool)
    if gauges is None or not kept.any():
        st.html(f'<div class="pl"><p class="muted">{_unwatched(name, gauges, collected)}</p></div>')
        return
    panels = [
        Panel(
            label,
            unit,
            colour,
            gauges.at_s[kept],
            gauges.own[metric][kept] * factor,
            gauges.median[metric][kept] * factor if gauges.peers else None,
        )
        for metric, label, unit, factor in wanted
        if np.isfinite(gauges.own[metric][kept]).any()
    ]
    dotted = (
        f"Dotted: the median of {gauges.peers} peers' {peers}."
        if gauges.peers
        else f"No peers' {peers} to compare with."
    )
    caption = f"Line: its own, every ten seconds. {dotted}"
    charts.draw(
        beside(panels, "own", f"median of {gauges.peers} {peers}", shown.palette),
        f"rank-{name}",
        shown.link,
        zoom=charts.clock,
        caption=caption + _throttling(gauges, kept),
    )


def _unwatched(name: str, gauges: Gauges | None, collected: bool) -> str:
    """Why there is no line: not in this time, no such device where a collector runs, or no collector."""
    if gauges is not None:
        return "Not measured in the chosen time."
    if collected and name == "gpu":
        return "Its collector found no GPU on this node."
    return f"No data. Run <code>{safe(COLLECT[0])}</code> on the node."


def _throttling(gauges: Gauges, kept: Any) -> str:
    reasons: Callable[[Any], Any] = np.nan_to_num
    masks = reasons(gauges.own.get("throttle_reasons", np.zeros(kept.size))[kept]).astype(np.int64)
    slowed = masks[(masks & SLOWING) != 0]
    return f" Throttled in {slowed.size} of {masks.size} samples: {in_words(int(slowed[-1]))}." if slowed.size else ""
