"""The pictures of a report in characters, for terminals and Markdown.

Rule of this file: pure.
"""

from collections.abc import Sequence
from itertools import pairwise

import numpy as np

from paceline.visible import visible

from ..report import Course
from ..time_grid import Matrix
from .pictures import FULL_RATIO, Lane, ratios, spanned, top_of
from .quantities import seconds, share

COLUMNS = 72
MOST_ROWS = 16
_SHADES = "·░▒▓█"
_BARS = "▁▂▃▄▅▆▇█"
_NAME = 24


def episode_lines(course: Course, lanes: Sequence[Lane]) -> tuple[str, ...]:
    """A line an episode, from the start of the job to its end."""
    length_s = course.column_s * max(len(course.step_s), 1)
    drawn = []
    for lane in lanes:
        first = min(int(max(lane.from_s - course.start_s, 0.0) / length_s * COLUMNS), COLUMNS - 1)
        last = min(max(int(np.ceil((lane.to_s - course.start_s) / length_s * COLUMNS)), first + 1), COLUMNS)
        name = visible(lane.name)[:_NAME]
        drawn.append(f"{name:>{_NAME}} {'·' * first}{'█' * (last - first)}{'·' * (COLUMNS - last)}")
    return tuple(drawn)


def step_lines(course: Course) -> tuple[str, ...]:
    """The median step over time, a bar a column, from nothing to the longest of them; none where nothing was told."""
    steps_s = np.asarray(course.step_s, dtype=np.float64)
    known = steps_s[np.isfinite(steps_s) & (steps_s > 0)]
    begun = [at if first is None else first for at, first in enumerate(spanned(course))]
    told = np.nan_to_num(steps_s[begun], posinf=0.0)
    if not known.size:
        return ()
    width = min(len(told), COLUMNS)
    edges = np.arange(width + 1) * len(told) // width
    highest = [told[first:end].max() for first, end in pairwise(edges)]
    top = min(top_of(known.tolist()), float(known.max()))
    drawn = "".join(_BARS[round(min(one / top, 1.0) * (len(_BARS) - 1))] if one > 0 else " " for one in highest)
    more = " and more" if top < known.max() else ""
    most, least = seconds(float(known.max())), seconds(float(known.min()))
    return (
        f"{'median step':>{_NAME}} {drawn}",
        f"{'':>{_NAME}} {_BARS[-1]} {seconds(top)}{more}; longest column {most}, shortest {least}",
    )


def rank_lines(course: Course) -> tuple[str, ...]:
    """Ranks x time: the darker, the slower against the median rank; of neighbours the slowest."""
    ratio = ratios(course)
    if not ratio.size:
        return ()
    together = -(-len(ratio) // MOST_ROWS)
    drawn = []
    for first in range(0, len(ratio), together):
        rows = ratio[first : first + together]
        last = course.ranks[min(first + together, len(ratio)) - 1]
        name = f"rank {course.ranks[first]}" + (f"-{last}" if last != course.ranks[first] else "")
        drawn.append(f"{name:>{_NAME}} {_shades(rows)}")
    return (
        *drawn,
        f"{'':>{_NAME}} work time relative to the median rank: · normal, {_SHADES[-1]} {share(FULL_RATIO)} slower",
    )


def _shades(rows: Matrix) -> str:
    columns = rows.shape[1]
    width = min(columns, COLUMNS)
    shown = []
    for at in range(width):
        part = rows[:, at * columns // width : max((at + 1) * columns // width, at * columns // width + 1)]
        if np.isnan(part).all():
            shown.append(" ")
            continue
        level = np.clip(np.nanmax(part) / FULL_RATIO, 0.0, 1.0) * (len(_SHADES) - 1)
        shown.append(_SHADES[round(float(level))])
    return "".join(shown)
