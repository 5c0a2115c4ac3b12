"""A session as a picture: a file for paper by Matplotlib, a page to look into by Plotly.

Rule of this file: drawing alone. What stands where is said by ``panels``; texts of others are shown as text.
"""

from collections.abc import Iterable
from datetime import UTC, datetime
from html import escape
from typing import Any, BinaryIO

from paceline.recording import Line
from paceline.visible import visible

from .panels import Panel, Span, findings, panels, silences
from .stat import Statistics
from .told import Told

COLOURS = ("#2563eb", "#d97706", "#059669", "#7c3aed", "#dc2626", "#0891b2", "#65a30d", "#db2777")
FINDING, SILENCE = "#dc2626", "#94a3b8"
_INCH_WIDE, _INCH_HIGH = 10.0, 1.9


def write_png(lines: Iterable[Line], told: Told, out: BinaryIO) -> None:
    """A picture of 1500 pixels width."""
    _paper(lines, told, out, "png")


def write_pdf(lines: Iterable[Line], told: Told, out: BinaryIO) -> None:
    """A page whose lines stay sharp."""
    _paper(lines, told, out, "pdf")


def _paper(lines: Iterable[Line], told: Told, out: BinaryIO, kind: str) -> None:
    from matplotlib.backends.backend_agg import FigureCanvasAgg
    from matplotlib.figure import Figure

    statistics = Statistics(told).read(lines)
    drawn = panels(statistics)
    figure = Figure(figsize=(_INCH_WIDE, _INCH_HIGH * max(1, len(drawn)) + 1.2), dpi=150, layout="constrained")
    FigureCanvasAgg(figure)
    figure.suptitle(_plain(_title(told)), x=0.01, ha="left", fontsize=12, fontweight="bold")
    axes = figure.subplots(max(1, len(drawn)), 1, sharex=True, squeeze=False)[:, 0]
    for axis, panel in zip(axes, drawn, strict=False):
        _panel(axis, panel)
        for silence in silences(statistics):
            axis.axvspan(silence.from_s, silence.to_s, color=SILENCE, alpha=0.25, linewidth=0)
        for finding in findings(statistics):
            axis.axvline(finding.from_s, color=FINDING, linewidth=1.0, linestyle="--")
    if drawn:
        _labels(axes[0], findings(statistics))
    else:
        axes[0].text(0.5, 0.5, "no sample of a GPU and no step of a job", ha="center", transform=axes[0].transAxes)
    axes[-1].set_xlabel(f"seconds since {_moment(told.started_s)}")
    figure.savefig(out, format=kind)


def _panel(axis: Any, panel: Panel) -> None:
    for curve, colour in zip(panel.curves, COLOURS, strict=False):
        axis.plot(curve.time_s, curve.mean, color=colour, linewidth=1.4, label=_plain(curve.label))
        axis.fill_between(curve.time_s, curve.least, curve.most, color=colour, alpha=0.15, linewidth=0)
    axis.set_title(f"{panel.title} ({panel.unit})", loc="left", fontsize=9)
    axis.set_ylim(bottom=0.0, top=1.05 if panel.ratio else None)
    axis.grid(alpha=0.25, linewidth=0.6)
    axis.spines[["top", "right"]].set_visible(False)
    axis.tick_params(labelsize=8)
    if len(panel.curves) > 1 or not panel.ratio:
        axis.legend(loc="center left", bbox_to_anchor=(1.0, 0.5), fontsize=8, frameon=False)


def _labels(axis: Any, spans: list[Span]) -> None:
    for number, span in enumerate(spans):
        axis.annotate(
            _plain(span.label),
            (span.from_s, 1.0 - 0.16 * (number % 5)),
            xycoords=("data", "axes fraction"),
            xytext=(3, -2),
            textcoords="offset points",
            fontsize=7,
            color=FINDING,
            va="top",
        )


def write_html(lines: Iterable[Line], told: Told, out: BinaryIO) -> None:
    """A page that needs no network: to zoom and to read values from."""
    from plotly.subplots import make_subplots

    statistics = Statistics(told).read(lines)
    drawn = panels(statistics)
    titles = [f"{panel.title} ({panel.unit})" for panel in drawn]
    figure = make_subplots(max(1, len(drawn)), 1, shared_xaxes=True, subplot_titles=titles, vertical_spacing=0.04)
    for row, panel in enumerate(drawn, 1):
        for curve, colour in zip(panel.curves, COLOURS, strict=False):
            line = {"color": colour, "width": 1.6}
            figure.add_scatter(
                x=curve.time_s, y=curve.mean, name=escape(visible(curve.label)), line=line, row=row, col=1
            )
        if panel.ratio:
            figure.update_yaxes(range=[0, 1.05], row=row, col=1)
    for silence in silences(statistics):
        figure.add_vrect(x0=silence.from_s, x1=silence.to_s, fillcolor=SILENCE, opacity=0.25, line_width=0)
    for finding in findings(statistics):
        figure.add_vline(x=finding.from_s, line={"color": FINDING, "dash": "dash", "width": 1})
        figure.add_annotation(
            x=finding.from_s, y=1.0, yref="paper", text=escape(visible(finding.label)), showarrow=False, textangle=-90
        )
    figure.update_xaxes(title_text=f"seconds since {_moment(told.started_s)}", row=max(1, len(drawn)), col=1)
    height = 220 * max(1, len(drawn)) + 120
    figure.update_layout(
        title=escape(visible(_title(told))), height=height, template="plotly_white", hovermode="x unified"
    )
    out.write(figure.to_html(include_plotlyjs=True, full_html=True).encode())


def _title(told: Told) -> str:
    proof = "nothing is missing" if told.complete else f"{told.missing_count} messages missing, {len(told.gaps)} gaps"
    return f"Session {told.name}: {proof}" if told.stopped_s else f"Session {told.name}, not ended"


def _moment(time_s: float) -> str:
    return datetime.fromtimestamp(time_s, UTC).strftime("%Y-%m-%d %H:%M:%S UTC")


def _plain(text: str) -> str:
    """Text in which Matplotlib sees no formula."""
    return visible(text).replace("$", r"\$")[:120]
