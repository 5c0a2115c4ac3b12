"""What all pictures have in common: the frame around them, the overlay that makes them pickable, and their numbers.

Rule of this file: pure.
"""

import csv
import io
from collections.abc import Iterable, Iterator, Sequence
from typing import Any

import numpy as np
import plotly.graph_objects as go
import plotly.io

from .theme import Palette

# Plotly's own look, which ``framed`` says otherwise, is 7 KB in every picture that is sent, and copied to make each.
plotly.io.templates.default = "none"
#: A legend in one line above a picture, in the order of what is drawn.
LEGEND_ABOVE = {"orientation": "h", "y": 1.02, "yanchor": "bottom", "x": 0, "traceorder": "normal"}
#: Points of the overlay: a box as high as the picture meets one of a row. Each is a node in the browser's document.
_ACROSS = 120
#: Of an axis of whole numbers, the share that is left free at both ends; up to so many each one has a tick.
MARGIN, EACH = 0.04, 12


def framed(figure: go.Figure, height: int, palette: Palette) -> go.Figure:
    """``figure`` with the page's colours and margins, ``height`` pixels high.

    The layout is assigned as a whole: plotly's ``update_*`` take ten times as long, and every page that is open draws
    its pictures every two seconds.
    """
    axis = {
        "ticks": "outside",
        "ticklen": 4,
        "tickcolor": palette.ground,
        "gridcolor": palette.line,
        "zeroline": False,
        "tickfont": {"color": palette.muted},
        "title": {"font": {"color": palette.muted, "size": 12}, "standoff": 15},
        "automargin": True,
    }
    held = figure.layout.to_plotly_json()
    axes = {"xaxis", "yaxis", *(name for name in held if name.startswith(("xaxis", "yaxis")))}
    figure.layout = {
        **held,
        "height": height,
        "margin": {"l": 52, "r": 8, "t": 26, "b": 46},
        "paper_bgcolor": palette.ground,
        "plot_bgcolor": palette.panel,
        "font": {"family": "Source Sans, Source Sans Pro, sans-serif", "color": palette.ink, "size": 12},
        "hoverlabel": {"bgcolor": palette.ground, "bordercolor": palette.faint, "font": {"color": palette.ink}},
        "uirevision": "kept",
        "dragmode": False,
        "modebar": {"bgcolor": "rgba(0,0,0,0)", "color": palette.faint, "activecolor": palette.ink},
        **{name: {**axis, **held.get(name, {})} for name in sorted(axes)},
    }
    return figure


def counted(figure: go.Figure, most: float) -> go.Figure:
    """``figure`` with an axis of whole numbers from 0 to ``most``, a little beyond both: what is 0 is a line to see."""
    most = max(1.0, most)
    figure.update_yaxes(range=[-MARGIN * most, (1.0 + MARGIN) * most])
    if most <= EACH:
        figure.update_yaxes(tick0=0, dtick=1)
    return figure


def pickable(figure: go.Figure, x: Sequence[Any], y: Sequence[Any]) -> go.Figure:
    """``figure`` in which a box can be drawn: plotly selects points alone, so invisible ones lie on ``x`` and ``y``."""
    if len(x) and len(y):
        across = [x[at] for at in np.unique(np.linspace(0, len(x) - 1, _ACROSS).astype(int))]
        figure.add_scatter(
            x=across,
            y=[y[len(y) // 2]] * len(across),
            mode="markers",
            marker={"opacity": 0, "size": 3},
            hoverinfo="skip",
            showlegend=False,
            name="",
        )
        figure.update_layout(dragmode="select", selectdirection="h")
    return figure


def as_csv(figure: go.Figure) -> bytes:
    """The numbers of ``figure``: a line a point with series, x, y and, of a heatmap, z; the axes' titles on top.

    Text that a spreadsheet would take for a formula is quoted with an apostrophe: names come from other people's jobs.
    """
    out = io.StringIO()
    writer = csv.writer(out, lineterminator="\n")
    titles = [axis.title.text or name for name, axis in (("x", figure.layout.xaxis), ("y", figure.layout.yaxis))]
    value = next((trace.colorbar.title.text for trace in figure.data if trace.type == "heatmap"), None)
    writer.writerow(["series", *map(_plain, titles), *([_plain(value or "z")] if value is not None else [])])
    for trace in figure.data:
        if trace.type == "heatmap":
            writer.writerows(_cells(trace))
        elif trace.name:
            writer.writerows([_plain(trace.name), _plain(x), _plain(y)] for x, y in zip(trace.x, trace.y, strict=True))
    return out.getvalue().encode()


def written(head: Sequence[str], rows: Iterable[Sequence[Any]]) -> bytes:
    """A table as CSV, its text as harmless as ``as_csv`` makes it."""
    out = io.StringIO()
    writer = csv.writer(out, lineterminator="\n")
    writer.writerow([_plain(word) for word in head])
    writer.writerows([_plain(value) for value in row] for row in rows)
    return out.getvalue().encode()


def _cells(trace: go.Heatmap) -> Iterator[list[Any]]:
    values = np.asarray(trace.z, np.float64)
    for row, name in enumerate(trace.y):
        for column, at in enumerate(trace.x):
            if values[row, column] == values[row, column]:
                yield [_plain(trace.name or ""), _plain(at), _plain(name), f"{values[row, column]:.6g}"]


def _plain(value: Any) -> Any:
    if isinstance(value, str):
        text = value.replace("<br>", " ")
        return f"'{text}" if text[:1] in ("=", "+", "-", "@", "\t", "\r") and not _number(text) else text
    return value.item() if isinstance(value, np.generic) else value


def _number(text: str) -> bool:
    try:
        float(text)
    except ValueError:
        return False
    return True
