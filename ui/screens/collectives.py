"""The page of a job's collectives: how much of what, how fast, beside what is rated, and who comes last."""

from collections.abc import Sequence
from datetime import UTC, datetime

import numpy as np
import streamlit as st

from paceline import words
from paceline.events import JobWindow
from paceline.words import NONE

from .. import wording
from ..bus_table import BusLine, bus_lines, chosen_windows, lateness
from ..line_figures import bars
from ..machines import FleetView
from ..notices import STREAMS
from ..snapshot import JobView, Snapshot
from ..stretches import in_stretch, newest
from ..wording import safe
from . import charts, frame
from .frame import Shown, Source

LINES, BARS = 40, 24


def show(source: Source) -> None:
    """Draw the page from ``source``."""
    frame.show(source, _draw)


def _draw(shown: Shown) -> None:
    job = shown.snapshot.job
    if job is None:
        return
    left, right = st.columns([1.65, 1], gap="medium")
    with left:
        _table(shown, job)
    with right:
        _lateness(shown, job)


def _table(shown: Shown, job: JobView) -> None:
    st.html('<div class="pl"><h2>Collectives by operation and size</h2></div>')
    ends = [window.start_s + length_s for length_s, held in job.traffic.items() for window in held[-1:]]
    windows = chosen_windows(job.traffic, shown.link.stretch(max(ends, default=None)))
    lines = bus_lines(windows, job.world_size)
    if not lines:
        st.html(
            '<div class="pl"><p class="muted">No collectives in this time. They are reported in windows: run '
            f"{wording.command(STREAMS[0], shown.brokers)}; it needs jobs that time their collectives "
            "(paceline run).</p></div>"
        )
        return
    rated = _rated(shown.snapshot, job)
    fast = [line.bus_bytes_per_s / 1e9 if line.bus_bytes_per_s else np.nan for line in lines[:BARS]]
    names = [f"{safe(line.operation)}, {_size(line.least_bytes)}" for line in lines[:BARS]]
    titles = ("operation and size", "bus bandwidth, GB/s")
    figure = bars(
        names, np.array(fast, np.float32), [_below(line, rated) for line in lines[:BARS]], titles, shown.palette
    )
    figure.update_yaxes(title=None, automargin=True)  # As wide as the names, which a phone has little room for.
    figure.update_layout(margin={"l": 0})
    if rated is not None:
        figure.add_vline(x=rated / 1e9, line={"color": shown.palette.ink, "width": 1.5, "dash": "dot"})
    charts.draw(figure, "collectives", shown.link, caption=_caption(shown.snapshot.fleet, job, rated))
    head = [
        ("operation", ""),
        *((words, "n") for words in ("size", "calls", "bytes", "a call", "bandwidth", "bus bandwidth")),
    ]
    head += [("of rated", "n"), ("exposed", "n")]
    st.html(wording.table(head, [_row(line, rated) for line in lines[:LINES]]))
    first, last = (datetime.fromtimestamp(at, UTC).strftime("%H:%M:%S") for at in _span(windows))
    more = f" and {len(lines) - LINES} more" if len(lines) > LINES else ""
    st.caption(
        f"{len(windows)} windows of {windows[0].length_s:g} s, {first} to {last} UTC{more}. Times are those of the "
        "rank that comes last: the transfer alone. Exposed: what of it did not run beside computing."
    )


def _span(windows: Sequence[JobWindow]) -> tuple[float, float]:
    return windows[0].start_s, windows[-1].start_s + windows[-1].length_s


def _below(line: BusLine, rated: float | None) -> bool:
    return rated is not None and line.bus_bytes_per_s is not None and line.bus_bytes_per_s < 0.5 * rated


def _caption(fleet: FleetView, job: JobView, rated: float | None) -> str:
    counted = (
        f"Bus bandwidth as nccl-tests count it, were all {job.world_size} ranks in each; it differs in smaller groups. "
    )
    if rated is not None:
        speed = f"{rated / 1e9:,.0f} GB/s"
        return f"{counted}Dotted: the {speed} that its GPUs' links are rated at, one way; below half of it in red."
    nodes = _nodes(job)
    if len(nodes) > 1:
        return counted + "The rated speed is not known: the job spans nodes."
    if nodes <= set(fleet.nodes) and not (fleet.gpu_node == fleet.nodes.index(next(iter(nodes)))).any():
        return counted + "There is no rated speed: its node has no GPU."
    return counted + "The rated speed is not known: its GPUs do not report that of their links."


def _nodes(job: JobView) -> set[str]:
    return {place.split(" ")[0] for place in job.places.values()}


def _rated(snapshot: Snapshot, job: JobView) -> float | None:
    """What the links between the job's GPUs carry one way, bytes a second: known where it lives on one node."""
    nodes = _nodes(job)
    fleet: FleetView = snapshot.fleet
    if len(nodes) != 1 or not nodes <= set(fleet.nodes):
        return None
    told = fleet.gpu["nvlink_rated_bytes_per_s"][fleet.gpu_node == fleet.nodes.index(next(iter(nodes)))]
    told = told[np.isfinite(told) & (told > 0)]
    return float(told.min()) if told.size else None


def _row(line: BusLine, rated: float | None) -> list[wording.Cell]:
    bus = line.bus_bytes_per_s
    return [
        (line.operation, ""),
        (_size(line.least_bytes), "n"),
        (f"{line.calls:,}", "n"),
        (words.quantity(line.bytes, "bytes"), "n"),
        (words.seconds(line.duration_s / line.calls if line.calls else None), "n"),
        (words.quantity(line.bytes_per_s, "bytes/s") if line.bytes_per_s else NONE, "n"),
        (words.quantity(bus, "bytes/s") if bus else NONE, "n"),
        (wording.ratio(bus / rated) if bus and rated else "-", "n own" if _below(line, rated) else "n"),
        (words.seconds(line.wait_s), "n"),
    ]


def _size(least_bytes: int) -> str:
    """A power of two of bytes, and up to twice that."""
    if least_bytes == 0:
        return "none"
    divisor, unit = words.scale(least_bytes, "bytes")
    return f"{least_bytes / divisor:g} to {2 * least_bytes / divisor:g} {unit}"


def _lateness(shown: Shown, job: JobView) -> None:
    st.html('<div class="pl"><h2>Latest ranks</h2></div>')
    kept = in_stretch(job.at_s, shown.link.stretch(newest(job.at_s)))
    late_s = lateness(job.waiting_s[:, kept])
    order = [
        int(rank) for rank in np.argsort(-np.nan_to_num(late_s, nan=-1.0), kind="stable") if np.isfinite(late_s[rank])
    ]
    if not order:
        st.html('<div class="pl"><p class="muted">Waiting time was not measured in this time.</p></div>')
        return
    accused = {rank for episode in job.episodes if episode[-1].state != "recovered" for rank in episode[-1].ranks}
    named = order[:BARS]
    figure = bars(
        [str(rank) for rank in named],
        late_s[named] * np.float32(1e3),
        [rank in accused for rank in named],
        ("rank", "late by, ms a step, median"),
        shown.palette,
    )
    words = "How much less a rank waits per step than the one that waits longest. The last to arrive does not wait. "
    words += f"The {len(named)} latest of {len(order)} ranks. Red: named in a finding."
    charts.draw(figure, "lateness", shown.link, caption=words)
