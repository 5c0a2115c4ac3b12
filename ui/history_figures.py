"""Pictures of what is kept: a month of lost hours, a tile a day, and a job's episodes over time.

Rule of this file: pure. Days and times are of UTC. Names come from other people's jobs and pass ``safe``.
"""

import datetime
from collections.abc import Mapping, Sequence
from typing import NamedTuple

import numpy as np
import plotly.graph_objects as go

from paceline.words import digits, seconds

from .figure_frame import framed
from .history_link import next_month
from .line_figures import dates
from .theme import Palette, Scale
from .wording import safe

WEEKDAYS = ("Mon", "Tue", "Wed", "Thu", "Fri", "Sat", "Sun")
#: Of the time shown, how wide an episode is at least; letters of its name that fit.
_NARROWEST, _LETTERS = 0.006, 44


class Day(NamedTuple):
    """What was lost on a day, and by how many episodes."""

    gpu_hours: float
    lost_s: float
    findings: int


class Episode(NamedTuple):
    """A finding's life: told from ``first_s`` to ``last_s``, how it stands, and what it cost."""

    words: str
    state: str
    first_s: float
    last_s: float
    cost: str


def calendar(
    first: datetime.date,
    lost: Mapping[datetime.date, Day],
    kept: frozenset[str],
    chosen: datetime.date | None,
    palette: Palette,
) -> go.Figure:
    """The month that begins on ``first``: a tile a day, coloured by lost device-hours, or empty if not ``kept``."""
    days = [first + datetime.timedelta(days=at) for at in range((next_month(first) - first).days)]
    known = {day: lost.get(day, Day(0.0, 0.0, 0)) for day in days if day in lost or day.isoformat() in kept}
    weeks = (first.weekday() + len(days) - 1) // 7 + 1
    grid = np.full((weeks, 7), np.nan)
    places = {day: divmod(first.weekday() + day.day - 1, 7) for day in days}
    for day, one in known.items():
        grid[places[day]] = one.gpu_hours
    figure = go.Figure(
        go.Heatmap(
            z=grid,
            x=list(WEEKDAYS),
            y=list(range(weeks)),
            zmin=0.0,
            zmax=max(float(np.nanmax(grid, initial=0.0)), 1e-9),
            colorscale=_losses(palette),
            xgap=3,
            ygap=3,
            hoverinfo="skip",
            name="lost device-hours",
            text=_tile_texts(days, places, known, weeks),
            texttemplate="%{text}",
            showscale=False,
        )
    )
    framed(figure, 96 + 46 * weeks, palette)
    figure.update_layout(margin={"l": 6, "r": 6, "t": 54, "b": 6}, plot_bgcolor=palette.ground)
    figure.update_xaxes(side="top", type="category", showgrid=False, range=[-0.5, 6.5], ticks="")
    figure.update_yaxes(visible=False, autorange="reversed")
    for day in days:
        row, column = places[day]
        if day not in known:  # A heatmap writes nothing where it has no value.
            figure.add_annotation(
                x=column, y=row, text=str(day.day), showarrow=False, font={"size": 12, "color": palette.faint}
            )
    if chosen in places:
        row, column = places[chosen]
        box = {"x0": column - 0.49, "x1": column + 0.49, "y0": row - 0.48, "y1": row + 0.48}
        figure.add_shape(type="rect", line={"color": palette.slow, "width": 3}, **box)
    return _clickable(figure, days, places, known)


def _losses(palette: Palette) -> Scale:
    """From nothing lost, which recedes into the panel, to the most: the slow half of the scale of ratios."""
    return tuple((2 * place - 1, colour) for place, colour in palette.ratio_scale if place >= 0.5)


def _tile_texts(
    days: Sequence[datetime.date],
    places: Mapping[datetime.date, tuple[int, int]],
    known: Mapping[datetime.date, Day],
    weeks: int,
) -> list[list[str]]:
    texts = [[""] * 7 for _ in range(weeks)]
    for day in days:
        row, column = places[day]
        held = known.get(day)
        if held is not None:
            texts[row][column] = f"{day.day}" + (f"<br><b>{digits(held.gpu_hours)}</b>" if held.findings else "")
    return texts


def _clickable(
    figure: go.Figure,
    days: Sequence[datetime.date],
    places: Mapping[datetime.date, tuple[int, int]],
    known: Mapping[datetime.date, Day],
) -> go.Figure:
    """An invisible point on each day, which can be clicked and says what it is."""
    figure.add_scatter(
        x=[WEEKDAYS[places[day][1]] for day in days],
        y=[places[day][0] for day in days],
        mode="markers",
        marker={"size": 34, "opacity": 0, "symbol": "square", "color": "#888888"},
        customdata=[day.isoformat() for day in days],
        hovertext=[_day_words(day, known.get(day)) for day in days],
        hovertemplate="%{hovertext}<extra></extra>",
        showlegend=False,
        name="",
    )
    return figure


def _day_words(day: datetime.date, held: Day | None) -> str:
    date = f"{day:%a} {day.day} {day:%b %Y}"
    if held is None:
        return f"{date}<br>nothing is kept of this day"
    if not held.findings:
        return f"{date}<br>no finding"
    episodes = f"{held.findings:,} finding{'s' if held.findings != 1 else ''}"
    return f"{date}<br><b>{digits(held.gpu_hours)} device-hours</b> lost, {seconds(held.lost_s)}<br>{episodes}"


def timeline(episodes: Sequence[Episode], stretch: tuple[float, float], palette: Palette) -> go.Figure:
    """A bar an episode from when it was first told to when it was last, in the time ``stretch``."""
    narrowest_s = _NARROWEST * (stretch[1] - stretch[0])
    figure = go.Figure()
    for state in dict.fromkeys(one.state for one in episodes):
        rows = [at for at, one in enumerate(episodes) if one.state == state]
        held = [episodes[at] for at in rows]
        figure.add_bar(
            orientation="h",
            y=rows,
            base=dates(np.array([one.first_s for one in held])),
            x=[1e3 * max(narrowest_s, one.last_s - one.first_s) for one in held],
            marker={"color": palette.state(state)},
            name=safe(state),
            hovertext=[f"<b>{safe(one.words)}</b><br>{safe(one.state)}, lost {safe(one.cost)}" for one in held],
            hovertemplate="%{hovertext}<br>from %{base|%d %b %H:%M}<extra></extra>",
            showlegend=True,
        )
    framed(figure, int(np.clip(104 + 24 * len(episodes), 170, 900)), palette)
    named = [_short(one.words) for one in episodes]
    figure.update_layout(barmode="overlay", bargap=0.35, legend={"orientation": "h", "y": 1.02, "yanchor": "bottom"})
    figure.update_xaxes(type="date", range=dates(np.array(stretch)), title={"text": "time, UTC"})
    figure.update_yaxes(autorange="reversed", tickvals=list(range(len(named))), ticktext=named, showgrid=False)
    return figure


def _short(words: str) -> str:
    return safe(words if len(words) <= _LETTERS else f"{words[: _LETTERS - 1]}…")
