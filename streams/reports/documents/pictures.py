"""Pictures of a report: the step over time, ranks x time, episodes, bars.

Rule of this file: pure; numbers to SVG. Pictures over time have one axis, so that they can be read one below the other.
"""

from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np

from ...robust import nanmedian
from ..report import Course
from ..time_grid import Matrix
from . import svg
from .png import data_uri
from .quantities import clock, seconds, share
from .style import FASTER, SLOWER
from .svg import INSIDE, LEFT

#: Rows of pixels; more ranks share a row, which shows the slowest of them.
MOST_ROWS = 256
#: Own time this far from the median rank's has the full colour.
FULL_RATIO = 0.5
_LEGEND = 14


class Bar(NamedTuple):
    """A row of a picture of bars: parts from left to right, each a value, a colour and what it is."""

    name: str
    parts: tuple[tuple[float, str, str], ...]
    note: str = ""


class Lane(NamedTuple):
    """A row of a picture of episodes: from when to when, its colour, and what it is."""

    name: str
    from_s: float
    to_s: float
    colour: str
    title: str


def _axis(course: Course, y: float) -> list[str]:
    """Moments below a picture."""
    length_s = course.column_s * max(len(course.step_s), 1)
    strokes = [svg.line(LEFT, y, LEFT + INSIDE, y)]
    for part in range(5):
        words = clock(course.start_s + length_s * part / 4, length_s)
        strokes.append(svg.below(LEFT + INSIDE * part / 4, y + 15, words, before=(0.0, 0.5, 0.5, 0.5, 1.0)[part]))
    return strokes


def step_times(course: Course) -> str:
    """The median step of the job over time, and what 95 of 100 steps stay below."""
    height, top = 150.0, 8.0
    known = [one for one in (*course.step_s, *course.p95_s) if not np.isnan(one)]
    most, held = top_of(known), spanned(course)
    strokes = []
    heights = [(top + height - tick / most * height, tick) for tick in svg.ticks(most)]
    strokes += [svg.line(LEFT, y, LEFT + INSIDE, y) for y, _ in heights]
    strokes += svg.beside((y + 4, seconds(tick)) for y, tick in heights)

    def points(values: list[float]) -> list[tuple[float, float] | None]:
        each = INSIDE / len(values)
        return [
            None if np.isnan(value) else (LEFT + (at + 0.5) * each, top + height - min(value / most, 1.02) * height)
            for at, value in enumerate(values)
            if held[at] in (at, None)
        ]

    strokes += [
        svg.curve(points(course.p95_s), "var(--caution)", 1.0),
        svg.curve(points(course.step_s), "var(--accent)"),
    ]
    return svg.picture(top + height + 22, [*strokes, *_axis(course, top + height)], "step time over time")


def spanned(course: Course) -> list[int | None]:
    """For each column the one in which its steps began: itself, or one before whose steps last so long; else None."""
    held: list[int | None] = []
    last = None
    for at, value in enumerate(course.step_s):
        if not np.isnan(value):
            last = at if np.isfinite(value) else None
            held.append(at)
            continue
        if last is not None and (at - last) * course.column_s > course.step_s[last]:
            last = None
        held.append(last)
    return held


def drawn_own(course: Course) -> Matrix:
    """Each rank's own time by column; in columns that longer steps span, that of the column in which these began."""
    held = spanned(course)
    if course.own.shape[1] != len(held):
        return course.own
    return np.asarray(course.own[:, [at if begun is None else begun for at, begun in enumerate(held)]])


def top_of(known: list[float]) -> float:
    """What the axis reaches to: a first step of many times the usual one leaves the picture."""
    if not known:
        return 1.0
    return min(max(known), 2.0 * float(np.quantile(known, 0.95))) * 1.1 or 1.0


def ranks_by_time(course: Course) -> str:
    """Each rank's own time against the median rank's: red is slower, blue faster, nothing is nothing told."""
    rows = _rows(ratios(course))
    each = max(min(22.0, 300.0 / max(len(rows), 1)), 1.0)
    height = each * len(rows)
    top = 6.0
    picture = svg.image(LEFT, top, INSIDE, height, data_uri(_pixels(rows)))
    frame = f'<rect x="{LEFT}" y="{top:g}" width="{INSIDE}" height="{svg.short(height)}" fill="var(--panel)"/>'
    strokes = [frame, picture, *_rank_names(course.ranks, height, top), *_axis(course, top + height)]
    return svg.picture(top + height + 26 + _LEGEND * 2, [*strokes, *_scale(top + height + 26)], "ranks by time")


def ratios(course: Course) -> Matrix:
    """Own time by the median of the ranks of the same pipeline stage, column by column, less 1.

    A rank that is alone in its stage is compared with its own median: another stage has other work.
    """
    own = drawn_own(course)
    stages = np.array(course.stages or [-1] * len(own))
    middle = np.full(own.shape, np.nan)
    for stage in np.unique(stages):
        mine = stages == stage
        alone = mine.sum() == 1 and len(own) > 1
        middle[mine] = nanmedian(own[mine].ravel()) if alone else nanmedian(own[mine].T, axis=1)
    with np.errstate(invalid="ignore", divide="ignore"):
        ratio = np.where(middle > 0, own / middle, np.nan) - 1.0
    return np.asarray(ratio)


def _rows(ratio: Matrix) -> Matrix:
    """Neighbours share a row where there are too many: the one furthest above normal stands for them."""
    together = -(-len(ratio) // MOST_ROWS)
    if together <= 1:
        return ratio
    padded = np.pad(ratio, ((0, -len(ratio) % together), (0, 0)), constant_values=np.nan)
    shared = padded.reshape(-1, together, ratio.shape[1])
    return np.asarray(np.fmax.reduce(shared, axis=1))


def _pixels(ratio: Matrix) -> np.ndarray[Any, np.dtype[np.uint8]]:
    part = np.clip(np.nan_to_num(ratio) / FULL_RATIO, -1.0, 1.0)
    pixels = np.zeros((*ratio.shape, 4), dtype=np.uint8)
    pixels[..., :3] = np.where(part[..., None] > 0, SLOWER, FASTER)
    # Noise of some percent recedes into the ground.
    pixels[..., 3] = 255 * np.clip((np.abs(part) - 0.06) / 0.94, 0.0, 1.0) ** 0.8
    pixels[..., 3] = np.where(np.isnan(ratio), 0, np.maximum(pixels[..., 3], 10))
    pixels[..., :3][np.isnan(ratio)] = 0
    return pixels


def _rank_names(ranks: Sequence[int], height: float, top: float) -> list[str]:
    shown = range(len(ranks)) if len(ranks) <= 24 else range(0, len(ranks), -(-len(ranks) // 8))
    each = height / max(len(ranks), 1)
    return svg.beside(((top + (at + 0.5) * each + 4, f"rank {ranks[at]}") for at in shown), size=11)


def _scale(y: float) -> list[str]:
    """The legend of the colours."""
    steps = np.linspace(-1, 1, 61)[None, :] * FULL_RATIO
    words = "work time relative to the median rank:"
    faster, slower = (f"{share(FULL_RATIO)} {word}" for word in ("faster", "slower"))
    x = LEFT + len(words) * 11 * svg.LETTER
    image_x = x + len(faster) * 11 * svg.LETTER
    return [
        svg.text(LEFT, y + 10, words, size=11),
        svg.text(x, y + 10, faster, size=11),
        svg.image(image_x, y, 150, 10, data_uri(_pixels(steps))),
        svg.text(image_x + 158, y + 10, slower, size=11),
    ]


def timeline(course: Course, lanes: Sequence[Lane]) -> str:
    """A lane an episode, on the axis of the pictures above."""
    length_s = course.column_s * max(len(course.step_s), 1)
    each, top = 22.0, 4.0
    names = [(top + number * each + 14, svg.clipped(lane.name)) for number, lane in enumerate(lanes)]
    strokes = svg.beside(names, size=min(11.0, _size_of(names)))
    for number, lane in enumerate(lanes):
        y = top + number * each
        first = min(max((lane.from_s - course.start_s) / length_s, 0.0), 1.0)
        last = min(max((lane.to_s - course.start_s) / length_s, first), 1.0)
        strokes += [
            svg.line(LEFT, y + each, LEFT + INSIDE, y + each),
            svg.rect(
                LEFT + first * INSIDE, y + 5, max((last - first) * INSIDE, 3.0), 12, lane.colour, title=lane.title
            ),
        ]
    height = top + each * len(lanes)
    return svg.picture(height + 22, [*strokes, *_axis(course, height)], "findings over time")


def bars(rows: Sequence[Bar], legend: Sequence[tuple[str, str]] = ()) -> str:
    """Bars on one scale, with a legend of (name, colour)."""
    most = max((sum(part[0] for part in row.parts) for row in rows), default=0.0) or 1.0
    wide, each = INSIDE - 130, 30.0
    # Names of causes are whole: where one is longer, all are smaller.
    names = [(20 + number * each, svg.clipped(row.name, 36)) for number, row in enumerate(rows)]
    strokes = svg.beside(names, size=min(11.0, _size_of(names)), colour="var(--ink)")
    for number, row in enumerate(rows):
        x, y = float(LEFT), 4 + number * each
        for value, colour, title in row.parts:
            width = max(value, 0.0) / most * wide
            if width >= 0.3:
                strokes.append(svg.rect(x, y + 2, width, 20, colour, title=title))
            x += width
        strokes.append(svg.text(x + 8, y + 16, row.note, colour="var(--ink)"))
    below = 4 + each * len(rows)
    return svg.picture(below + (24 if legend else 4), [*strokes, *_legend(legend, below + 4)], "bars")


def _size_of(names: Sequence[tuple[float, str]]) -> float:
    """The size at which the longest name fits beside a picture."""
    return (LEFT - 12) / svg.LETTER / max([len(name) for _, name in names] + [1])


def _legend(legend: Sequence[tuple[str, str]], y: float) -> list[str]:
    strokes, x = [], float(LEFT)
    for name, colour in legend:
        strokes += [svg.rect(x, y, 11, 11, colour), svg.text(x + 16, y + 10, name, size=11)]
        x += 30 + 6.3 * len(name)
    return strokes


def lines(rows: Sequence[tuple[str, str, Sequence[float | None]]], labels: Sequence[str], unit: str) -> str:
    """Curves of (name, colour, a value a label) over equal steps, as days are."""
    known = [value for _, _, values in rows for value in values if value is not None]
    most = max(known, default=0.0) * 1.1 or 1.0
    height, top = 150.0, 8.0
    strokes = []
    heights = [(top + height - tick / most * height, tick) for tick in svg.ticks(most)]
    strokes += [svg.line(LEFT, y, LEFT + INSIDE, y) for y, _ in heights]
    strokes += svg.beside((y + 4, f"{tick:,g} {unit}") for y, tick in heights)
    each = INSIDE / max(len(labels), 1)
    for _, colour, values in rows:
        points = [
            None if value is None else (LEFT + (at + 0.5) * each, top + height - value / most * height)
            for at, value in enumerate(values)
        ]
        strokes.append(svg.curve(points, colour, 2.0))
    apart = -(-len(labels) // 10)
    for at in range(0, len(labels), max(apart, 1)):
        strokes.append(svg.below(LEFT + (at + 0.5) * each, top + height + 16, labels[at], before=0.5))
    legend = _legend([(name, colour) for name, colour, _ in rows], top + height + 26)
    return svg.picture(top + height + 42, [*strokes, *legend], "trend")
