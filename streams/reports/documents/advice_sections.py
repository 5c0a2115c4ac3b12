"""Suggestions and whether they helped, and forecasts against what came, in words.

Rule of this file: pure words.
"""

from collections.abc import Sequence

from paceline.events import OPEN_SUGGESTIONS, SEVERITY_ORDER, Suggestion
from paceline.events.suggestions import Effect
from paceline.series_words import series_words

from ..report import ForecastScore
from ..suggestions import gain_in_words
from .document import Block, Heading, Notice, Paragraph, Table, without_empty
from .quantities import UNKNOWN, amount, count, share

MOST_OPEN, MOST_ROWS = 12, 60
#: Why a suggestion came into a state, where nobody has given a reason.
_WHY = {"withdrawn": "what it rested on is over, or a stronger one replaced it"}
_BYTES = ((1e12, "TB"), (1e9, "GB"), (1e6, "MB"), (1e3, "kB"))


def suggestion_sections(suggestions: Sequence[Suggestion]) -> list[Block]:
    """What to do about it, and what came of it."""
    if not suggestions:
        return []
    lasting = sorted((one for one in suggestions if one.state in OPEN_SUGGESTIONS), key=_order)
    blocks: list[Block] = [Heading("Suggestions")] if lasting else []
    for one in lasting[:MOST_OPEN]:
        gain = gain_in_words(one.gain)
        text = f"{one.reason} Expected: {gain}." + (f" Risk: {one.risk}." if one.risk else "")
        title = one.title if one.state == "new" else f"{one.title} ({one.state.replace('_', ' ')})"
        blocks.append(Notice(title, text, "caution", tuple(one.apply), tuple(one.steps)))
    if len(lasting) > MOST_OPEN:
        blocks.append(
            Paragraph(f"{len(lasting) - MOST_OPEN} more are open: paceline suggestions lists them.", quiet=True)
        )
    measured = [one for one in suggestions if one.effect is not None or one.state not in OPEN_SUGGESTIONS]
    if measured:
        head = ("suggestion", "state", "measured", "before", "after", "change", "why")
        rows = tuple(map(_row, measured[:MOST_ROWS]))
        blocks += [
            Heading("What became of suggestions", 3 if lasting else 2),
            without_empty(Table(head, rows, right=(3, 4, 5))),
        ]
    return blocks


def _order(one: Suggestion) -> tuple[int, float, str]:
    rank = SEVERITY_ORDER.get(one.severity, 3)
    return rank, -(one.gain.gpu_hours_per_day or 0.0), one.id


def _row(one: Suggestion) -> tuple[str, ...]:
    effect = one.effect
    numbers = ("", "", "", "") if effect is None else _effect(effect)
    return (one.title, one.state.replace("_", " "), *numbers, one.because or _WHY.get(one.state, ""))


def _effect(effect: Effect) -> tuple[str, str, str, str]:
    change = f"{effect.after / effect.before * 100 - 100:+.1f} %" if effect.before else UNKNOWN
    name = effect.name.replace("_", " ")
    return name, amount(effect.before, effect.unit), amount(effect.after, effect.unit), change


def forecast_sections(scores: Sequence[ForecastScore]) -> list[Block]:
    """How far off forecasts were, once what they predicted had come."""
    if not scores:
        return []
    order = sorted(scores, key=lambda one: (-one.values, one.series))
    rows = tuple(
        (
            series_words(one.series),
            count(one.forecasts),
            count(one.values),
            _error(one.error, one.unit),
            _error(one.naive_error, one.unit),
            share(one.covered_ratio),
        )
        for one in order[:MOST_ROWS]
    )
    head = ("series", "forecasts", "values compared", "mean error", "naive forecast's", "inside the 80 % interval")
    return [
        Heading("Forecasts and what was measured"),
        Table(head, rows, right=(1, 2, 3, 4, 5)),
        Paragraph("A good interval of 80 % holds 80 of 100 values.", quiet=True),
        *(
            [Paragraph(f"{len(order) - MOST_ROWS} more series are not listed.", quiet=True)]
            if len(order) > MOST_ROWS
            else []
        ),
    ]


def _error(value: float | None, unit: str) -> str:
    """An error in its unit.

    >>> _error(0.0587, "ratio, 0 to 1"), _error(0.241, "1/s"), _error(3.0, "celsius")
    ('5.9 %', '0.241 per s', '3 °C')
    >>> _error(225_000.0, "bytes/s"), _error(1.6e9, "bytes"), _error(16.0, "bytes/s")
    ('225 kB/s', '1.6 GB', '16 B/s')
    """
    if value is not None and unit.partition("/")[0] == "bytes":
        scale, name = next((one for one in _BYTES if value >= one[0]), (1.0, "B"))
        return amount(value / scale, unit.replace("bytes", name))
    if unit.startswith("ratio"):
        return share(value, 1)
    return amount(value, {"celsius": "°C", "w": "W", "1/s": "per s"}.get(unit, unit))
