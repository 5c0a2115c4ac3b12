"""The picture of free GPUs hour by hour: the median with its 80 % interval, and the hours that are free enough.

Rule of this file: pure.
"""

from collections.abc import Sequence
from datetime import tzinfo

import plotly.graph_objects as go

from .figure_frame import counted, framed
from .free_hours import SURE, FreeHour, middle_s, whole_gpus
from .moments import drawn_in, local
from .theme import Palette
from .wording import safe

#: Of an hour, the width of its bar, in the milliseconds of the axis.
BAR_MS = 0.8 * 3_600_000.0


def free_chart(hours: Sequence[FreeHour], wanted: int, zone: tzinfo, palette: Palette) -> go.Figure:
    """A bar an hour; times as on a clock in ``zone``."""
    zone = drawn_in(zone, middle_s(hours[0]), middle_s(hours[-1])) if hours else zone
    figure = go.Figure()
    kinds = ((True, f"{wanted:,} or more with {SURE} % probability", palette.good), (False, "fewer", palette.faint))
    for enough, name, colour in kinds:
        kept = [hour for hour in hours if (hour.sure >= wanted) == enough]
        if not kept:
            continue
        figure.add_bar(
            x=[local(middle_s(hour), zone) for hour in kept],
            y=[hour.median for hour in kept],
            width=BAR_MS,
            name=name,
            marker={"color": colour, "line": {"width": 0}},
            error_y={
                "type": "data",
                "symmetric": False,
                "array": [hour.high - hour.median for hour in kept],
                "arrayminus": [hour.median - hour.low for hour in kept],
                "color": palette.muted,
                "thickness": 1.2,
                "width": 3,
            },
            customdata=[[hour.low, hour.high, whole_gpus(hour.sure)] for hour in kept],
            hovertemplate=f"%{{y:.0f}} free, 80 %: %{{customdata[0]:.0f}} to %{{customdata[1]:.0f}}; "
            f"with {SURE} % probability %{{customdata[2]:.0f}} or more",
        )
    framed(figure, 240, palette)
    figure.add_hline(y=wanted, line={"color": palette.ink, "width": 1.2, "dash": "dash"})
    figure.update_layout(hovermode="x unified", showlegend=True, barmode="overlay")
    figure.update_layout(legend={"orientation": "h", "y": 1.06, "yanchor": "bottom", "x": 0})
    figure.update_xaxes(title={"text": safe(f"time, {zone}")}, nticks=12)
    figure.update_yaxes(title={"text": "free GPUs"})
    return counted(figure, max([float(wanted), *(hour.high for hour in hours)]))
