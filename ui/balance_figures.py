"""Pictures of a balancer: who takes how many samples, and how long ranks computed, batch by batch.

Rule of this file: pure. Of many ranks the shares that differ most are shown, and times as the slowest, the fastest and
what lies between.
"""

from collections.abc import Sequence

import numpy as np
import numpy.typing as npt
import plotly.graph_objects as go

from .balance_book import FollowedPlan
from .figure_frame import LEGEND_ABOVE, framed, pickable
from .line_figures import POINTS
from .step_ring import Floats, Ints
from .theme import Palette

#: Ranks whose shares are drawn, and ranks that have a line of their own.
BARS, LINES = 24, 8
#: Plans that are marked in the picture of times: the newest.
MARKS = 40
#: Colours of ranks beside each other, from Okabe and Ito's palette as phases are.
_COLOURS = ("#e69f00", "#56b4e9", "#009e73", "#cc79a7", "#d55e00", "#f0e442", "#2a7fc4", "#b9a9d9")
#: What stands for many ranks: a name and its place from the fastest to the slowest.
_PLACES = (("slowest rank", 1.0), ("90 % of ranks within", 0.9), ("median rank", 0.5), ("fastest rank", 0.0))


def split(shares: Ints, proposed: Ints | None, palette: Palette) -> go.Figure:
    """Samples a rank: those it takes now and, where there are such, those that are proposed."""
    shown = chosen(shares, proposed)
    names = [str(rank) for rank in shown]
    figure = go.Figure()
    series = [("now", shares, palette.accent)] + ([] if proposed is None else [("proposed", proposed, palette.caution)])
    for name, values, colour in series:
        figure.add_bar(
            y=names,
            x=values[shown],
            name=name,
            orientation="h",
            marker={"color": colour},
            hovertemplate="rank %{y}, %{fullData.name}: <b>%{x:,}</b> samples<extra></extra>",
        )
    framed(figure, int(np.clip(110 + 22 * len(names) * len(series), 200, 620)), palette)
    figure.update_layout(barmode="group", bargap=0.3, showlegend=len(series) > 1, legend=LEGEND_ABOVE)
    figure.add_vline(x=float(shares.mean()), line={"color": palette.muted, "width": 1, "dash": "dot"})
    figure.update_xaxes(title={"text": "samples of a batch, dotted: equal shares"}, rangemode="tozero")
    figure.update_yaxes(title={"text": "rank"}, type="category", autorange="reversed")
    return figure


def chosen(shares: Ints, proposed: Ints | None) -> npt.NDArray[np.intp]:
    """The ranks whose shares are shown, in their order: those furthest from an equal share, now or as proposed."""
    apart = np.abs(shares - shares.mean())
    if proposed is not None:
        apart = np.maximum(apart, np.abs(proposed - proposed.mean()))
    return np.sort(np.argsort(-apart, kind="stable")[:BARS])


def times(batch: Ints, ready_s: Floats, plans: Sequence[FollowedPlan], palette: Palette) -> go.Figure:
    """Seconds that ranks computed, over batches, with a mark where a plan begins."""
    some = np.unique(np.linspace(0, max(0, batch.size - 1), min(POINTS, batch.size)).astype(int))
    at, lines = batch[some], _lines(ready_s[:, some], palette)
    largest = max((float(np.nanmax(values)) for _, values, _ in lines if np.isfinite(values).any()), default=0.0)
    scale, unit = (1.0, "s") if largest >= 2 else (1e3, "ms")
    figure = go.Figure()
    for name, values, colour in lines:
        figure.add_scatter(
            x=at,
            y=values * np.float32(scale),
            name=name,
            mode="lines",
            line={"color": colour, "width": 1.8},
            hovertemplate=f"batch %{{x:,}}, %{{fullData.name}}: <b>%{{y:,.4~g}} {unit}</b><extra></extra>",
        )
    framed(figure, 330, palette)
    figure.update_layout(showlegend=True, legend=LEGEND_ABOVE)
    figure.update_xaxes(title={"text": "training batch"})
    figure.update_yaxes(title={"text": f"compute-ready time, {unit}"}, rangemode="tozero")
    within = (int(at[0]), int(at[-1])) if at.size else (0, -1)
    for plan in [one for one in plans if within[0] <= (one.event.first_batch or 0) <= within[1]][-MARKS:]:
        figure.add_vline(x=plan.event.first_batch, line={"color": palette.muted, "width": 1, "dash": "dash"})
    return pickable(figure, at.tolist(), (lines[0][1] * np.float32(scale)).tolist() if lines else [])


def _lines(ready_s: Floats, palette: Palette) -> list[tuple[str, Floats, str]]:
    """A line a rank, or of many ranks one a place in their order; what was not measured in a batch is left out."""
    if not ready_s.size:
        return []
    if ready_s.shape[0] <= LINES:
        return [(f"rank {rank}", values, _COLOURS[rank]) for rank, values in enumerate(ready_s)]
    ordered, count = np.sort(ready_s, axis=0), np.isfinite(ready_s).sum(axis=0)  # Sorting puts NaN last.
    colours = [palette.slow, palette.caution, palette.ink, palette.accent]
    found = []
    for (name, place), colour in zip(_PLACES, colours, strict=True):
        at = np.maximum(np.ceil(place * count).astype(int) - 1, 0)
        values = np.take_along_axis(ordered, at[None], axis=0)[0]
        found.append((name, values, colour))
    return found
