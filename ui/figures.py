"""The pictures: plotly figures from arrays.

Rule of this file: pure. Every axis has its unit; no picture holds more rows or columns than a browser draws with ease.
"""

from collections.abc import Sequence

import numpy as np
import plotly.graph_objects as go

from paceline.events import OPEN_FINDINGS, Finding
from paceline.words import LONGEST_NAME, label, state_words

from .figure_frame import LEGEND_ABOVE, framed, pickable
from .ratios import reach_of, slowest_first, thin
from .step_ring import Floats, Ints
from .theme import PHASE_COLOURS, Palette, phase_colours
from .wording import TIMES, safe

#: Rows a heatmap shows, and bars; of more ranks the slowest.
ROWS, BARS = 192, 20
#: A picture of no more ranks than this has high rows.
HIGH_ROWS = 6
#: Words for what runs on top of the phases.
_OVERLAID = {
    "gc": "garbage collection",
    "cpu_wait": "waiting for a processor",
    "host_bound": "device waiting for its host",
}


def heatmap(
    steps: Ints, ratio: Floats, episodes: Sequence[tuple[Finding, ...]], palette: Palette, *, slow_first: bool
) -> go.Figure:
    """Own time of each rank over the median rank's, step by step: ``ratio`` is ranks x steps."""
    order = slowest_first(ratio)
    shown = order[:ROWS] if slow_first else np.sort(order[:ROWS])
    firsts, values, width = thin(steps, ratio[shown])
    names, reach = [str(rank) for rank in shown], reach_of(values)
    span = "step %{x:.0f}" if width == 1 else f"{width} steps around %{{x:.0f}}"
    figure = go.Figure(
        go.Heatmap(
            x=firsts + (width - 1) / 2,
            y=names,
            z=values.astype(np.float32),
            colorscale=palette.ratio_scale,
            zmin=1.0 - reach,
            zmid=1.0,
            zmax=1.0 + reach,
            ygap=1 if len(names) <= 64 else 0,
            hovertemplate="rank %{y}, "
            + span
            + f"<br><b>%{{z:.2f}}{TIMES}</b> the median rank's own time<extra></extra>",
            colorbar=_colourbar(palette, reach),
        )
    )
    framed(figure, int(np.clip(100 + (44 if len(names) <= HIGH_ROWS else 23) * len(names), 200, 560)), palette)
    figure.update_xaxes(title={"text": "training step"}, range=_range(firsts, width))
    ticks = names if len(names) <= 32 else names[:: -(-len(names) // 24)]
    figure.update_yaxes(title={"text": "rank"}, type="category", autorange="reversed", tickvals=ticks, showgrid=False)
    if steps.size:
        _mark(
            figure,
            episodes,
            {int(rank): row for row, rank in enumerate(shown)},
            (int(steps[0]), int(steps[-1])),
            palette,
        )
    return pickable(figure, (firsts + (width - 1) / 2).tolist(), names)


def phases(phase_s: dict[str, Floats], palette: Palette) -> go.Figure:
    """Where each rank's step went: stacked seconds a step, waiting last."""
    own_s = sum(np.nan_to_num(phase_s[name]) for name in PHASE_COLOURS)
    order = np.argsort(-np.asarray(own_s), kind="stable")
    heard = [int(rank) for rank in order if np.isfinite(phase_s["step"][rank])][:BARS]
    shown = sorted(heard)
    largest = max((float(phase_s["step"][rank]) for rank in shown), default=0.0)
    scale, unit = (1.0, "s") if largest >= 2 else (1e3, "ms")
    overlays = _overlays(phase_s, shown, scale, unit)
    bars = [
        go.Bar(
            y=[str(rank) for rank in shown],
            x=phase_s[name][shown] * scale,
            name="waiting for others" if name == "communication" else name,
            orientation="h",
            marker={"color": colour, "line": {"width": 0}},
            customdata=overlays,
            hovertemplate="rank %{y}: <b>%{x:.2f}"
            + f" {unit}"
            + "</b> a step in %{fullData.name}%{customdata}<extra></extra>",
        )
        for name, colour in phase_colours(palette).items()
        if np.nan_to_num(phase_s[name][shown]).any()
    ]
    figure = go.Figure(bars)
    framed(figure, int(np.clip(110 + 25 * len(shown), 220, 620)), palette)
    figure.update_layout(barmode="stack", bargap=0.32, showlegend=True, legend=LEGEND_ABOVE)
    figure.update_xaxes(title={"text": f"{unit} a step, mean of each rank's last steps"}, rangemode="tozero")
    figure.update_yaxes(title={"text": "rank"}, type="category", autorange="reversed")
    return figure


def _overlays(phase_s: dict[str, Floats], shown: list[int], scale: float, unit: str) -> list[str]:
    """What ran on top of the phases, for the hover."""
    lines = []
    for rank in shown:
        parts = [
            f"{label} {phase_s[name][rank] * scale:.2f} {unit}"
            for name, label in _OVERLAID.items()
            if np.nan_to_num(phase_s[name][rank]) > 0
        ]
        lines.append("<br>in the whole step: " + ", ".join(parts) if parts else "")
    return lines


def _mark(
    figure: go.Figure,
    episodes: Sequence[tuple[Finding, ...]],
    rows: dict[int, int],
    steps: tuple[int, int],
    palette: Palette,
) -> None:
    """A box around the accused ranks' steps, with the finding's state and cause, or its kind and line, beside it."""
    middle = sum(figure.layout.xaxis.range) / 2
    for episode in episodes:
        finding = episode[-1]
        # What goes on is reported when it has doubled: to the last report it would seem over for half of its time.
        until = steps[1] if finding.state in OPEN_FINDINGS else finding.last_step
        first, last = max(finding.first_step, steps[0]), min(until, steps[1])
        if first > last:
            continue
        state = state_words(finding.kind, finding.state)
        colour = palette.state(state)
        for top, bottom in _stretches(sorted(rows[rank] for rank in finding.ranks if rank in rows)):
            figure.add_shape(
                type="rect",
                x0=first - 0.5,
                x1=last + 0.5,
                y0=top - 0.5,
                y1=bottom + 0.5,
                line={"color": palette.ink, "width": 1.5, "dash": "solid" if state == "confirmed" else "dot"},
            )
            figure.add_annotation(
                x=first,
                y=top - 0.5,
                text=safe(f"{state[:LONGEST_NAME]}: {label(finding)}"),
                showarrow=False,
                # Towards the wider half: on a phone a label is half as long as the picture.
                xanchor="left" if first < middle else "right",
                # High rows have room for it; of low ones it hides the end of the row above, and no accused one.
                yanchor="top" if len(rows) <= HIGH_ROWS else "bottom",
                font={"size": 11, "color": palette.ground},
                bgcolor=colour,
                borderpad=2,
            )


def _stretches(rows: Sequence[int]) -> list[tuple[int, int]]:
    """The first and last of each run of ascending ``rows``: the ranks of a node stand in one box."""
    first = [row for row in rows if row - 1 not in rows]
    last = [row for row in rows if row + 1 not in rows]
    return list(zip(first, last, strict=True))


def _range(firsts: Ints, width: int) -> list[float] | None:
    """The steps there are, and not less than 20: a job's first steps are no wall of colour."""
    if firsts.size == 0:
        return None
    return [float(firsts[0]) - 0.5, max(float(firsts[-1]) + width - 0.5, float(firsts[0]) + 19.5)]


def _colourbar(palette: Palette, reach: float) -> dict[str, object]:
    at = [1.0 + part * reach for part in (-1.0, -0.5, 0.0, 0.5, 1.0)]
    words = [f"{value:.2f}".rstrip("0").rstrip(".") for value in at]
    return {
        "title": {"text": "work time ÷<br>median rank's", "font": {"size": 11, "color": palette.muted}},
        "tickvals": at,
        "ticktext": [f"{one}{TIMES}" for one in (f"≤ {words[0]}", *words[1:4], f"≥ {words[4]}")],
        "tickfont": {"size": 11, "color": palette.muted},
        "thickness": 10,
        "outlinewidth": 0,
    }
