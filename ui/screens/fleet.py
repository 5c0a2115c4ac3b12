"""The fleet's page: every GPU by any metric, worst first; the jobs, and what each has lost; a node in full.

Rule of this file: it composes; what is shown, gathered and in which order is decided in ``fleet_tiles``.
"""

from collections.abc import Sequence
from functools import partial
from typing import Any

import numpy as np
import streamlit as st

from paceline import words
from paceline.gpu.throttle import in_words

from .. import wording
from ..figure_frame import written
from ..fleet_figure import fleet_figure, told
from ..fleet_tiles import (
    AHEAD_S,
    BY_NAME,
    METRICS,
    Metric,
    Tiles,
    running_on,
    searched,
    shown,
    stale,
    throttled,
    tiles,
    worst_gpus,
)
from ..history_link import address
from ..link import Link
from ..machines import FleetView
from ..notices import COLLECT, Notice, standing
from ..snapshot import JobLine, Snapshot, running_first
from ..step_ring import Ints
from ..wording import Anchor, Cell, safe
from . import charts, findings, frame, links, summary
from .frame import Shown, Source

WORST, JOBS_SHOWN = 10, 40
_NO_GPU = "No node has a GPU."


def show(source: Source) -> None:
    """Draw the page from ``source``."""
    frame.show(source, _draw, "Fleet", ranged=False)


def _draw(shown_now: Shown) -> None:
    snapshot, link = shown_now.snapshot, shown_now.link
    metric = BY_NAME.get(link.metric or "", METRICS[0])
    _controls(metric, link)
    if link.node is not None:
        _node(snapshot, link)
    nodes = searched(snapshot.fleet, snapshot.jobs, link.find)
    left, right = st.columns([1.65, 1], gap="medium")
    with left:
        _tiles(shown_now, nodes, metric)
    with right:
        _jobs(snapshot, link)
        with st.container(border=True, key="worst"):
            _worst(snapshot, nodes, metric, link)


def _controls(metric: Metric, link: Link) -> None:
    chosen, find = st.columns([1, 1.6], vertical_alignment="bottom")
    st.session_state["metric"], st.session_state["find"] = metric.name, link.find
    names = list(BY_NAME)
    chosen.selectbox("Metric", names, key="metric", format_func=_metric_words, on_change=_choose)
    find.text_input(
        "Search", key="find", placeholder="node, GPU, job, or gpu-0100..gpu-0199", max_chars=200, on_change=_search
    )


def _metric_words(name: str) -> str:
    metric = BY_NAME[name]
    return f"{metric.words} ({metric.unit}), {metric.worse}est first"


def _choose() -> None:
    links.change(metric=st.session_state["metric"])


def _search() -> None:
    links.change(find=st.session_state["find"].strip(), node=None)


def _tiles(shown_now: Shown, nodes: Ints, metric: Metric) -> None:
    snapshot, link = shown_now.snapshot, shown_now.link
    fleet = snapshot.fleet
    st.html('<div class="pl"><h2>GPUs, worst first</h2></div>')
    if not fleet.nodes:
        if snapshot.connection.state == "connecting":
            return  # The frame says so.
        text = "Sample the GPUs and hosts of a node:"
        summary.draw_notice(Notice("wait", "No machine has reported yet", text, (COLLECT,)), shown_now.brokers)
        return
    made = tiles(fleet, nodes, metric, snapshot.now_s)
    if made.gpu.size == 0:
        text = f"No GPU matches {link.find!r}: search for another name." if link.find else _NO_GPU
        st.html(f'<div class="pl"><p class="muted">{safe(text)}</p></div>')
        return
    figure = fleet_figure(fleet, made, metric, snapshot.now_s, shown_now.palette)
    name = "-".join(("fleet", metric.name, str(len(made.names))))
    charts.draw(
        figure,
        name,
        link,
        pick=_pick,
        caption=_caption(snapshot, nodes, made),
        numbers=partial(_csv, fleet, nodes, metric),
    )


def _csv(fleet: FleetView, nodes: Ints, metric: Metric) -> bytes:
    """Every GPU of ``nodes``, gathered or not, with its value."""
    rows, values = np.flatnonzero(np.isin(fleet.gpu_node, nodes)), shown(fleet, metric)
    named = [(fleet.nodes[fleet.gpu_node[row]], int(fleet.gpu_index[row]), fleet.uuids[row]) for row in rows]
    table = ([*one, f"{values[row]:.6g}"] for one, row in zip(named, rows, strict=True))
    return written(["node", "GPU", "UUID", f"{metric.words}, {metric.unit}"], table)


def _pick(point: dict[str, Any]) -> None:
    """A click on a tile: its node, or the nodes that it stands for."""
    meant = str(point["customdata"][0] if isinstance(point["customdata"], list) else point["customdata"])
    links.change(**({"find": meant, "node": None} if ".." in meant else {"node": meant}))


def _caption(snapshot: Snapshot, nodes: Ints, made: Tiles) -> str:
    fleet = snapshot.fleet
    rows = np.isin(fleet.gpu_node, nodes)
    late = stale(fleet, snapshot.now_s)[nodes]
    per = {"gpu": "a tile a GPU", "node": "a tile a node, its worst GPU"}
    state = [
        f"{int(rows.sum()):,} GPUs on {_having(fleet.gpu_node[rows], nodes)}",
        per.get(made.per, f"a tile for {made.gathered} nodes, their worst GPU"),
        f"{int(throttled(fleet)[rows].sum()):,} throttled",
        f"{int(late.sum()):,} nodes silent for 30 s",
        f"updated {words.age(snapshot.now_s, float(fleet.node_s[nodes].max()))}",
    ]
    ahead = int((fleet.node_s[nodes] > snapshot.now_s + AHEAD_S).sum())
    state += [f"{ahead:,} nodes' clocks are ahead of this page's"] if ahead else []
    return " · ".join(state) + ". Click a tile for its node."


def _having(of_gpus: Ints, nodes: Ints) -> str:
    """How many of ``nodes`` have a GPU, where not all do.

    >>> _having(np.array([0, 0, 1]), np.array([0, 1])), _having(np.array([0, 0]), np.array([0, 1]))
    ('2 nodes', '1 of 2 nodes')
    """
    having = np.unique(of_gpus).size
    return words.many(nodes.size, "node") if having in (0, nodes.size) else f"{having:,} of {nodes.size:,} nodes"


def _worst(snapshot: Snapshot, nodes: Ints, metric: Metric, link: Link) -> None:
    st.html(
        f'<div class="pl"><h2 style="margin-top:0">{metric.worse.capitalize()}est {metric.words.lower()}</h2></div>'
    )
    rows = worst_gpus(snapshot.fleet, nodes, metric, WORST)
    if rows.size == 0:
        source = _source(snapshot, metric)
        st.html(f'<div class="pl"><p class="muted">{source}</p></div>')
        return
    jobs = running_on(snapshot.jobs, snapshot.now_s)
    head = [("node", ""), ("GPU", "n"), (metric.words, "n"), ("", ""), ("job", ""), ("updated", "n")]
    st.html(wording.table(head, [_worst_row(snapshot, int(row), metric, jobs, link) for row in rows]))


def _source(snapshot: Snapshot, metric: Metric) -> str:
    """What to do for numbers to be there; of nodes that report and have no GPU, that."""
    if snapshot.fleet.nodes and not snapshot.fleet.uuids:
        return _NO_GPU
    mend = f"No data. Run {wording.command('paceline collect', snapshot.connection.brokers)} on the node"
    return f"{mend}, with a dcgm-exporter." if "active" in metric.name else f"{mend}."


def _worst_row(snapshot: Snapshot, row: int, metric: Metric, jobs: dict[str, JobLine], link: Link) -> list[Cell]:
    fleet = snapshot.fleet
    at = int(fleet.gpu_node[row])
    node, line = fleet.nodes[at], jobs.get(fleet.nodes[at])
    return [
        (Anchor(node, link.to("fleet", node=node)), "w"),
        (int(fleet.gpu_index[row]), "n"),
        (told(float(shown(fleet, metric)[row]), metric), "n"),
        (_marks(snapshot, row), ""),
        (Anchor(line.name, link.to("job", job=line.name)) if line else "-", ""),
        (words.age(snapshot.now_s, float(fleet.node_s[at])), "n"),
    ]


def _marks(snapshot: Snapshot, row: int) -> str:
    fleet = snapshot.fleet
    marks = [in_words(int(fleet.gpu["throttle_reasons"][row]))] if throttled(fleet)[row] else []
    marks += ["stale"] if stale(fleet, snapshot.now_s)[fleet.gpu_node[row]] else []
    return ", ".join(marks)


def _jobs(snapshot: Snapshot, link: Link) -> None:
    with st.container(border=True, key="jobs"):
        st.html('<div class="pl"><h2 style="margin-top:0">Jobs: running first, then by time lost</h2></div>')
        wanted, now_s = link.find.strip().lower(), snapshot.now_s
        found = [one for one in snapshot.jobs if not wanted or wanted in one.name.lower() or _on(one, link.find)]
        if not found:
            typed = wording.command("paceline run -- python train.py", snapshot.connection.brokers)
            st.html(f'<div class="pl"><p class="muted">No job: {typed}</p></div>')
            return
        found.sort(key=lambda one: (*running_first(one, now_s), -one.lost_gpu_hours, -one.lost_s, one.name))
        head = [("job, state", ""), ("ranks", "n"), ("findings", "n"), ("lost", "n"), ("updated", "n")]
        st.html(wording.table(head, [_job(one, now_s, link) for one in found[:JOBS_SHOWN]]))
        if len(found) > JOBS_SHOWN:
            st.caption(f"and {len(found) - JOBS_SHOWN} more: search for a name")


def _on(line: JobLine, find: str) -> bool:
    return any(find.strip().lower() in node.lower() for node in line.nodes)


def _job(line: JobLine, now_s: float, link: Link) -> list[Cell]:
    lost = "nothing" if line.lost_s == 0 else words.seconds(line.lost_s)
    if line.lost_gpu_hours:  # One of the two: the table stands beside a picture. The job's page has both.
        lost = f"{words.digits(line.lost_gpu_hours)} device-hours"
    suspected = line.open - line.confirmed
    found = [f"{line.confirmed} confirmed"] if line.confirmed else []
    found += [f"{suspected} suspected"] if suspected else []
    if line.ended_s is not None and line.findings > line.open:
        found.append(f"{line.findings - line.open} at its end")
    return [
        (Anchor(line.name, link.to("job", job=line.name), standing(line, now_s)[0]), ""),
        (f"{line.ranks:,}", "n"),
        (", ".join(found) or "none", "r own" if line.confirmed else "r"),
        (lost, "n"),
        (words.age(now_s, line.last_s), "n"),
    ]


def _node(snapshot: Snapshot, link: Link) -> None:
    """One node in full, with the way back."""
    fleet, name = snapshot.fleet, link.node or ""
    with st.container(border=True, key="node"):
        if name not in fleet.nodes:
            mend = f"has reported: run {wording.command('paceline collect', snapshot.connection.brokers)} there"
            st.html(f'<div class="pl"><b>No node {safe(repr(name))} {mend}.</b></div>')
        else:
            _known_node(snapshot, fleet.nodes.index(name), link)
        st.button("Close", key="close-node", on_click=lambda: links.change(node=None))


def _known_node(snapshot: Snapshot, at: int, link: Link) -> None:
    fleet = snapshot.fleet
    name, rows = fleet.nodes[at], np.flatnonzero(fleet.gpu_node == at)
    jobs = [line for line in snapshot.jobs if name in line.nodes]
    state = [
        f"CPU {wording.ratio(float(fleet.host['cpu_ratio'][at]))}",
        f"memory {wording.ratio(float(fleet.host['memory_ratio'][at]))}",
        f"waiting for CPU {wording.ratio(float(fleet.host['pressure_cpu_ratio'][at]))}, "
        f"for memory {wording.ratio(float(fleet.host['pressure_memory_ratio'][at]))}, "
        f"for disk {wording.ratio(float(fleet.host['pressure_io_ratio'][at]))}",
        f"updated {words.age(snapshot.now_s, float(fleet.node_s[at]))}",
    ]
    of_jobs = ", ".join(wording.cell(Anchor(line.name, link.to("job", job=line.name))) for line in jobs[:8])
    kept = wording.cell(Anchor("its history", address(node=name)))
    st.html(
        f'<div class="pl"><h2 style="margin-top:0">{safe(name)}</h2><p class="muted">{safe(" · ".join(state))}</p>'
        f"<p>{f'Jobs: {of_jobs}' if of_jobs else 'No job runs here.'}</p>"
        f'<p class="muted">Earlier findings: {kept}</p></div>'
    )
    head = [("GPU", "n"), *((metric.words, "n") for metric in METRICS), ("", ""), ("UUID", "")]
    st.html(wording.table(head, [_gpu(snapshot, int(row)) for row in rows]))
    findings.draw_others(_of_node(snapshot, name), None)


def _gpu(snapshot: Snapshot, row: int) -> Sequence[Cell]:
    fleet = snapshot.fleet
    values = [(told(float(shown(fleet, metric)[row]), metric), "n") for metric in METRICS]
    return [(int(fleet.gpu_index[row]), "n"), *values, (_marks(snapshot, row), ""), (fleet.uuids[row], "")]


def _of_node(snapshot: Snapshot, name: str) -> list[Any]:
    return [episode for episode in snapshot.node_findings if name in episode[-1].nodes]
