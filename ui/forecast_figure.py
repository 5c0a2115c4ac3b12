"""The picture of a forecast: history, median, intervals, the naive baseline, and the probability to be busy.

Rule of this file: pure. It depends on the forecast alone, not on the moment: between two forecasts it stays as it is,
and so does the reader's zoom.
"""

from datetime import tzinfo

import numpy as np
import plotly.graph_objects as go

from paceline.series_words import field_words

from .figure_frame import counted, framed
from .forecast_book import Array, SeriesForecast
from .forecast_view import scale_of
from .moments import drawn_in, local
from .theme import Palette
from .wording import safe

#: The intervals drawn, widest first: their share, and how strong their colour is.
BANDS = ((0.95, 0.13), (0.8, 0.2), (0.5, 0.32))
#: A bound further off than this many times what is drawn would flatten the picture.
NEAR = 1.6
#: What is counted has an axis of whole numbers, up to the maximum where that is so low or nothing else is drawn;
#: whatever else is as good as nothing has one up to one of its unit.
COUNTED, ALL, NOTHING = "GPUs", 16.0, 1e-6


def fan_chart(one: SeriesForecast, zone: tzinfo, palette: Palette) -> go.Figure:
    """A forecast with what came before it; times as on a clock in ``zone``."""
    zone, (scale, unit) = _drawn_in(one, zone), scale_of(one)
    past, times = one.past / scale, _moments(one.past_times_s, zone)
    joined = bool(past.size) and bool(np.isfinite(past[-1]))
    ahead = _moments(np.concatenate([[one.event.time_s], one.times_s]) if joined else one.times_s, zone)

    def from_now(values: Array) -> Array:
        scaled = values / scale
        return np.concatenate([past[-1:], scaled]) if joined else scaled

    figure = go.Figure()
    for share, strength in bands(one):
        if (edges := _interval(one, share)) is not None:
            drawn = (from_now(edges[0]), from_now(edges[1]))
            _band(figure, ahead, drawn, share, _tint(palette, strength), unit)
    if past.size:
        figure.add_scatter(x=times, y=past, name="measured", mode="lines", line={"color": palette.muted, "width": 1.6})
        figure.data[-1].update(hovertemplate=f"%{{y:.4~g}} {safe(unit)}")
    if one.naive.size:
        figure.add_scatter(x=ahead, y=from_now(one.naive), name="naive", mode="lines")
        figure.data[-1].update(
            line={"color": palette.caution, "width": 1.4, "dash": "dot"}, hovertemplate=f"%{{y:.4~g}} {safe(unit)}"
        )
    median = one.level(0.5)
    if median is not None:
        figure.add_scatter(
            x=ahead, y=from_now(median), name="median", mode="lines", line={"color": palette.accent, "width": 2.2}
        )
        figure.data[-1].update(hovertemplate=f"%{{y:.4~g}} {safe(unit)}")
    framed(figure, 400, palette)
    _explain(figure, one, zone, palette)
    return figure


def busy_chart(one: SeriesForecast, zone: tzinfo, palette: Palette) -> go.Figure:
    """Of a series that often rests on its minimum: the probability of each step to be above it."""
    figure = go.Figure(
        go.Bar(
            x=_moments(one.times_s, _drawn_in(one, zone)),
            y=100.0 * one.busy,
            name="probability",
            marker={"color": palette.accent, "line": {"width": 0}},
            hovertemplate="%{y:.0f} %<extra></extra>",
        )
    )
    framed(figure, 150, palette)
    figure.update_layout(bargap=0.15, showlegend=False)
    figure.update_yaxes(title={"text": "%"}, range=[0, 100])
    return figure


def bands(one: SeriesForecast) -> list[tuple[float, float]]:
    """The intervals that the forecast's levels make up; where none of ours is there, its widest."""
    there = [(share, strength) for share, strength in BANDS if _interval(one, share) is not None]
    widest = 1.0 - 2.0 * float(min(one.levels[0], 1.0 - one.levels[-1]))
    return there or [(widest, BANDS[1][1])]


def _interval(one: SeriesForecast, share: float) -> tuple[Array, Array] | None:
    low, high = one.level((1.0 - share) / 2), one.level((1.0 + share) / 2)
    return None if low is None or high is None else (low, high)


def _band(
    figure: go.Figure, at: list[object], edges: tuple[Array, Array], share: float, colour: str, unit: str
) -> None:
    """An interval: its lower edge is a line of its own, which the numbers that are exported have, too."""
    name = f"{share:.0%}".replace("%", " %")
    figure.add_scatter(x=at, y=edges[0], name=f"{name}, low", mode="lines", hoverinfo="skip", showlegend=False)
    figure.data[-1].update(line={"width": 0})
    figure.add_scatter(x=at, y=edges[1], name=name, mode="lines", fill="tonexty", fillcolor=colour)
    figure.data[-1].update(
        line={"width": 0}, customdata=edges[0], hovertemplate=f"%{{customdata:.4~g}} to %{{y:.4~g}} {safe(unit)}"
    )


def _tint(palette: Palette, strength: float) -> str:
    red, green, blue = (int(palette.accent[place : place + 2], 16) for place in (1, 3, 5))
    return f"rgba({red},{green},{blue},{strength})"


def _explain(figure: go.Figure, one: SeriesForecast, zone: tzinfo, palette: Palette) -> None:
    """Axes, legend, where the forecast begins, and the bound that no value passes."""
    scale, unit = scale_of(one)
    now = local(one.event.time_s, zone)
    figure.add_vline(x=now, line={"color": palette.faint, "width": 1})
    figure.add_annotation(x=now, y=1, yref="paper", text="forecast", showarrow=False, xanchor="left", yanchor="bottom")
    figure.data[-1].update(zorder=2)
    drawn = max(float(np.nanmax(one.fan)), float(np.nanmax(one.past)) if np.isfinite(one.past).any() else -np.inf)
    most = one.event.maximum
    whole = unit == COUNTED and most is not None and drawn <= most and (drawn < 1.0 or most <= ALL)
    shown = most if most is not None and most > 0 and (whole or 0 < drawn <= most <= NEAR * drawn) else None
    if shown is not None:
        figure.add_hline(y=shown / scale, line={"color": palette.faint, "width": 1, "dash": "dash"})
        text = "100 %" if unit == "%" else "its maximum"
        figure.add_annotation(
            x=0, xref="paper", y=shown / scale, text=text, showarrow=False, xanchor="left", yanchor="bottom"
        )
    figure.update_annotations(font={"size": 11, "color": palette.muted})
    figure.update_layout(hovermode="x unified", showlegend=True)
    figure.update_layout(legend={"orientation": "h", "y": 1.06, "yanchor": "bottom", "x": 0, "traceorder": "reversed"})
    name = field_words(one.field)[:40]
    figure.update_yaxes(title={"text": safe(name if not unit or name.endswith(unit) else f"{name}, {unit}")})
    figure.update_xaxes(title={"text": safe(f"time, {zone}")}, nticks=8)
    least = min(float(np.nanmin(one.fan)), float(np.nanmin(one.past)) if np.isfinite(one.past).any() else np.inf)
    if unit == COUNTED and least >= 0.0 and (whole or least < 0.5 * drawn or drawn < 1.0):
        counted(figure, max([drawn, shown or 0.0, *one.naive]))
    elif least >= 0.0 and drawn / scale < NOTHING:
        figure.update_yaxes(range=[0.0, 1.0])
    elif 0.0 <= float(np.nanmin(one.fan)) < 0.5 * drawn:
        figure.update_yaxes(rangemode="tozero")


def _drawn_in(one: SeriesForecast, zone: tzinfo) -> tzinfo:
    """One clock for all that is drawn of it."""
    times_s = np.concatenate([one.past_times_s, one.times_s])
    return drawn_in(zone, float(times_s[0]), float(times_s[-1]))


def _moments(times_s: Array, zone: tzinfo) -> list[object]:
    return [local(float(at), zone) for at in times_s]
