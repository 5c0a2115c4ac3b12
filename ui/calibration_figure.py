"""The picture of how published forecasts did: for each level, the share of the values that came at or below it.

Rule of this file: pure.
"""

import plotly.graph_objects as go

from .figure_frame import framed
from .forecast_book import SeriesForecast
from .forecast_view import ahead, scored
from .theme import Palette

#: A tick at each level that is usual.
TICKS = [0, 10, 25, 50, 75, 90, 100]


def calibration_chart(one: SeriesForecast, palette: Palette) -> go.Figure | None:
    """A line for each distance ahead, beside the one of true forecasts; None before enough values came."""
    scores = [score for score in scored(one) if score.levels]
    if not scores:
        return None
    colours = (palette.accent, palette.good, palette.caution, palette.ink)
    figure = go.Figure()
    figure.add_scatter(x=[0, 100], y=[0, 100], name="true", mode="lines", hoverinfo="skip")
    figure.data[-1].update(line={"color": palette.faint, "width": 1.4, "dash": "dash"})
    for number, score in enumerate(scores):
        figure.add_scatter(
            x=[0.0, *(100.0 * level for level in score.levels), 100.0],
            y=[0.0, *(100.0 * share for share in score.below_ratios), 100.0],
            name=f"{ahead(one, score)} ({score.values:,} values)",
            mode="lines+markers",
            line={"color": colours[number % len(colours)], "width": 1.8},
            marker={"size": 5},
            hovertemplate="%{y:.0f} % of values at or below the %{x:.4~g} % level",
        )
    framed(figure, 320, palette)
    figure.update_layout(showlegend=True, legend={"orientation": "h", "y": 1.06, "yanchor": "bottom", "x": 0})
    figure.update_xaxes(title={"text": "level of the forecast, %"}, range=[0, 100], tickvals=TICKS)
    figure.update_yaxes(title={"text": "values at or below it, %"}, range=[0, 100], tickvals=TICKS)
    return figure
