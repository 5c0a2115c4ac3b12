"""Pictures of one thing beside its peers over time, and of amounts by name.

Rule of this file: pure. Every axis has its unit; times are UTC.
"""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt
import plotly.graph_objects as go
from plotly.subplots import make_subplots

from .figure_frame import framed, pickable
from .theme import Palette

#: Points of a line that a browser is sent.
POINTS = 600


@dataclass(frozen=True)
class Panel:
    """One quantity at ``at_s`` (Unix seconds): its own values and the peers' median, None without any, in ``unit``."""

    title: str
    unit: str
    colour: str
    at_s: npt.NDArray[np.float64]
    own: npt.NDArray[np.floating]
    median: npt.NDArray[np.floating] | None


def beside(panels: Sequence[Panel], own: str, peers: str, palette: Palette) -> go.Figure:
    """A panel below the other, each with its own values as a line and the peers' as a dotted one."""
    figure = make_subplots(rows=max(1, len(panels)), shared_xaxes=True, vertical_spacing=0.05)
    for row, panel in enumerate(panels, 1):
        some = np.unique(np.linspace(0, max(0, panel.at_s.size - 1), min(POINTS, panel.at_s.size)).astype(int))
        at = dates(panel.at_s[some])
        style = [
            (own, panel.own, {"color": panel.colour, "width": 2}),
            (peers, panel.median, {"color": palette.muted, "width": 1.5, "dash": "dot"}),
        ]
        for name, values, line in style:
            if values is None:
                continue
            figure.add_scatter(
                x=at,
                y=np.asarray(values[some], np.float32),
                name=f"{panel.title}, {name}",
                line=line,
                mode="lines",
                hovertemplate=f"%{{x|%H:%M:%S}}: <b>%{{y:,.4~g}} {panel.unit}</b><extra>%{{fullData.name}}</extra>",
                showlegend=False,
                row=row,
                col=1,
            )
    framed(figure, 62 + 118 * max(1, len(panels)), palette)
    for row, panel in enumerate(panels, 1):
        title = f"{panel.title}<br>{panel.unit}"
        figure.update_yaxes(title={"text": title, "font": {"size": 11, "color": palette.muted}}, row=row, col=1)
        figure.update_yaxes(rangemode="tozero", nticks=4, row=row, col=1)
    figure.update_xaxes(title={"text": "time, UTC"}, row=max(1, len(panels)), col=1)
    figure.update_layout(margin={"l": 84}, hovermode="x")
    if panels and panels[0].at_s.size:
        middle = [float(value) for value in panels[-1].own[np.isfinite(panels[-1].own)][:1]]
        pickable(figure, dates(panels[-1].at_s), middle)
        figure.data[-1].update(xaxis=figure.data[-2].xaxis, yaxis=figure.data[-2].yaxis)
    return figure


def bars(
    names: Sequence[str],
    values: npt.NDArray[np.floating],
    accused: Sequence[bool],
    titles: tuple[str, str],
    palette: Palette,
) -> go.Figure:
    """A bar a name; ``titles`` are what a name is, and what a value with its unit; the accused stand out."""
    colours = [palette.slow if one else palette.accent for one in accused]
    words = f"{titles[0]} %{{y}}: <b>%{{x:,.3~g}}</b> {titles[1]}<extra></extra>"
    figure = go.Figure(
        go.Bar(x=values, y=list(names), orientation="h", marker={"color": colours}, name=titles[1], hovertemplate=words)
    )
    framed(figure, int(np.clip(96 + 22 * len(names), 180, 620)), palette)
    figure.update_xaxes(title={"text": titles[1]}, rangemode="tozero")
    figure.update_yaxes(title={"text": titles[0]}, type="category", autorange="reversed")
    return figure


def dates(at_s: npt.NDArray[np.float64]) -> list[str]:
    """Unix seconds as plotly reads dates."""
    return [str(at) for at in np.asarray(np.nan_to_num(at_s) * 1e3, "int64").astype("datetime64[ms]")]
