"""A picture on a page: drawn, exported as PNG by the browser and as CSV by the server, zoomed by drawing a box.

Rule of this file: a zoom is a stretch of time in the address, so it outlives refreshes, reloads and other pages.
"""

from collections.abc import Callable, Sequence
from functools import partial
from typing import Any

import plotly.graph_objects as go
import streamlit as st

from ..figure_frame import as_csv
from ..link import Link, moment
from . import links

#: Where a box was drawn -> Unix seconds, as a picture's x axis is.
Moment = Callable[[Any], float | None]


def draw(
    figure: go.Figure,
    name: str,
    link: Link,
    *,
    zoom: Moment | None = None,
    pick: Callable[[Any], None] | None = None,
    caption: str = "",
    numbers: Callable[[], bytes] | None = None,
) -> None:
    """Draw ``figure``; a box drawn in it is the time that all pages show, where ``zoom`` says what its x axis is.

    ``pick`` is told of a point that is clicked; ``numbers`` makes the CSV where the axes are no quantities.
    """
    config = {
        "displaylogo": False,
        "displayModeBar": True,
        "modeBarButtons": [["toImage"]],
        "scrollZoom": False,
        "toImageButtonOptions": {"filename": f"paceline-{name}", "format": "png", "scale": 2},
    }
    # What was selected goes with the key: another stretch or node is a picture of its own.
    key = f"{name}-{link.from_s}-{link.to_s}-{link.node}"
    if zoom:
        zoomed = partial(_zoomed, key, zoom)
        st.plotly_chart(figure, theme=None, key=key, config=config, on_select=zoomed, selection_mode="box")
    elif pick:
        picked = partial(_picked, key, pick)
        st.plotly_chart(figure, theme=None, key=key, config=config, on_select=picked, selection_mode="points")
    else:
        st.plotly_chart(figure, theme=None, key=key, config=config)
    words, button = st.columns([6, 1], vertical_alignment="top")
    words.caption(caption)
    with button:
        csv_button(numbers or partial(as_csv, figure), name)


def csv_button(made: Callable[[], bytes], name: str) -> None:
    """A download of what ``made`` gives when it is asked for."""
    st.download_button(
        "CSV", made, f"paceline-{name}.csv", "text/csv", key=f"csv-{name}", on_click="ignore", type="tertiary"
    )


def clock(x: Any) -> float | None:
    """Unix seconds of a place on an axis of dates, which are in UTC."""
    return moment(str(x)[:23])


def _zoomed(key: str, zoom: Moment) -> None:
    boxes: Sequence[Any] = st.session_state[key].selection.box
    if boxes:
        ends = [zoom(x) for x in sorted(boxes[-1]["x"])]
        if ends[0] is not None and ends[1] is not None and ends[0] < ends[1]:
            links.change(from_s=round(ends[0], 3), to_s=round(ends[1], 3))


def _picked(key: str, pick: Callable[[Any], None]) -> None:
    points: Sequence[Any] = st.session_state[key].selection.points
    if points:
        pick(points[0])
