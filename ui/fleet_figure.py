"""The picture of the fleet: tiles coloured by a metric, with marks for what is stale and what throttles.

Rule of this file: pure. Browsers pick points alone, so an invisible one with its words lies on each tile.
"""

import numpy as np
import plotly.graph_objects as go

from paceline import words
from paceline.gpu.throttle import in_words

from .figure_frame import framed
from .fleet_tiles import Metric, Tiles
from .machines import FleetView
from .step_ring import Ints, Rows
from .theme import AMOUNT_SCALE, Palette
from .wording import safe

#: Nodes beside each other, cells that a node's name takes, and tiles in a row where a node has but one.
ABREAST, NAME_CELLS, ACROSS = 2, 4, 64
#: Letters of a name that fit.
LETTERS = 13


def fleet_figure(fleet: FleetView, tiles: Tiles, metric: Metric, now_s: float, palette: Palette) -> go.Figure:
    """``tiles`` in rows, the worst at the top left."""
    columns, rows = _places(tiles)
    grid = np.full((int(rows.max()) + 1, int(columns.max()) + 1), np.nan, np.float32)
    there = tiles.gpu >= 0
    grid[rows[there], columns[there]] = tiles.values[there]
    high = metric.high if metric.high is not None else float(np.nanmax(grid, initial=1.0))
    figure = go.Figure(
        go.Heatmap(
            z=grid,
            x=np.arange(grid.shape[1]),
            y=np.arange(grid.shape[0]),
            zmin=metric.low,
            zmax=high,
            colorscale=AMOUNT_SCALE,
            xgap=2,
            ygap=3 if tiles.per == "gpu" else 2,
            hoverinfo="skip",
            name=metric.words,
            colorbar={
                "title": {"text": f"{metric.words}<br>{metric.unit}", "font": {"size": 11, "color": palette.muted}},
                "tickfont": {"size": 11, "color": palette.muted},
                "thickness": 10,
                "outlinewidth": 0,
            },
        )
    )
    tall = 26 if tiles.per == "gpu" else 20
    framed(figure, int(np.clip(96 + tall * grid.shape[0], 150, 960)), palette)
    figure.update_layout(margin={"l": 8, "r": 8, "t": 34, "b": 8}, plot_bgcolor=palette.ground)
    figure.update_layout(legend={"orientation": "h", "y": 1.0, "yanchor": "bottom", "x": 0})
    figure.update_xaxes(visible=False, range=[-NAME_CELLS if tiles.per == "gpu" else -0.5, grid.shape[1] - 0.5])
    figure.update_yaxes(visible=False, autorange="reversed")
    if tiles.per == "gpu":
        _name(figure, tiles, columns, rows, palette)
    unmeasured = there & ~np.isfinite(tiles.values)
    _mark(figure, "not measured", unmeasured, columns, rows, "square-open", palette.faint, palette.ground)
    _mark(figure, "throttled", tiles.throttled, columns, rows, "triangle-down", palette.slow, palette.ground)
    _mark(figure, "stale", tiles.stale, columns, rows, "x-thin-open", palette.ink, palette.ground)
    return _words(figure, fleet, tiles, metric, now_s, columns[there], rows[there])


def _places(tiles: Tiles) -> tuple[Ints, Ints]:
    """The column and row of each tile."""
    blocks, width = tiles.values.shape
    block, tile = np.arange(blocks)[:, None], np.arange(width)[None, :]
    if tiles.per != "gpu":
        return block % ACROSS + 0 * tile, block // ACROSS + 0 * tile
    abreast = ABREAST if blocks > 3 else 1
    down = -(-blocks // abreast)
    return (block // down) * (width + NAME_CELLS) + tile, block % down + 0 * tile


def _name(figure: go.Figure, tiles: Tiles, columns: Ints, rows: Ints, palette: Palette) -> None:
    for block, name in enumerate(tiles.names):
        figure.add_annotation(
            x=columns[block, 0] - 0.6,
            y=rows[block, 0],
            text=safe(name if len(name) <= LETTERS else f"…{name[1 - LETTERS :]}"),
            showarrow=False,
            xanchor="right",
            font={"size": 11, "color": palette.muted},
        )


def _mark(
    figure: go.Figure, name: str, where: Rows, columns: Ints, rows: Ints, symbol: str, colour: str, ground: str
) -> None:
    if where.any():
        line = {"width": 2, "color": colour} if symbol.endswith("open") else {"width": 1, "color": "#ffffff"}
        marker = {"symbol": symbol, "size": 9, "color": colour, "line": line}
        at = {"x": columns[where], "y": rows[where], "mode": "markers", "hoverinfo": "skip"}
        if symbol.endswith("open"):  # A rim, for tiles are as dark or as bright as the mark.
            rim = {**marker, "size": 11, "color": ground, "line": {"width": 5, "color": ground}}
            figure.add_scatter(**at, marker=rim, name=f"rim of {name}", showlegend=False)
        figure.add_scatter(**at, marker=marker, name=name, showlegend=True)


def _words(
    figure: go.Figure,
    fleet: FleetView,
    tiles: Tiles,
    metric: Metric,
    now_s: float,
    columns: Ints,
    rows: Ints,
) -> go.Figure:
    """An invisible point on each tile, which can be clicked and says what it is."""
    there = tiles.gpu >= 0
    blocks = np.nonzero(there)[0]
    figure.add_scatter(
        x=columns,
        y=rows,
        mode="markers",
        marker={"size": 16, "opacity": 0, "color": "#888888"},
        customdata=[tiles.names[block] for block in blocks],
        hovertext=_hover(fleet, tiles, metric, now_s),
        hovertemplate="%{hovertext}<extra></extra>",
        showlegend=False,
        name="",
    )
    return figure


def _hover(fleet: FleetView, tiles: Tiles, metric: Metric, now_s: float) -> list[str]:
    texts = []
    there = tiles.gpu >= 0
    for block, gpu, value, slowed in zip(
        np.nonzero(there)[0], tiles.gpu[there], tiles.values[there], tiles.throttled[there], strict=True
    ):
        node = int(fleet.gpu_node[gpu])
        whose = "" if tiles.per == "gpu" else f"worst of {safe(tiles.names[block])}:<br>"
        text = (
            f"{whose}<b>{safe(fleet.nodes[node])}</b> GPU {fleet.gpu_index[gpu]}: <b>{told(float(value), metric)}</b>"
        )
        text += f"<br>as of {words.age(now_s, float(fleet.node_s[node]))}"
        reasons = fleet.gpu["throttle_reasons"][gpu]
        text += f"<br>{in_words(int(reasons))}" if slowed and np.isfinite(reasons) else ""
        texts.append(text)
    return texts


def told(value: float, metric: Metric) -> str:
    """A value in the metric's unit."""
    return words.NONE if value != value else f"{value:,.0f} {metric.unit}"
