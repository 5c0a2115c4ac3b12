"""The strokes that pictures are drawn with: one coordinate system, names escaped, numbers short.

Rule of this file: pure. Colours are CSS variables or fixed; what is written is made visible and escaped here.
"""

import math
from collections.abc import Iterable, Sequence
from html import escape

from paceline.visible import visible

#: Every picture is this wide, and starts what it shows at ``LEFT``: so pictures over time stand below each other.
WIDTH, LEFT, RIGHT = 1000, 212, 16
INSIDE = WIDTH - LEFT - RIGHT
#: A letter's mean width by its size, in the widest of the fonts (DejaVu Sans).
LETTER = 0.6


def picture(height: float, strokes: Iterable[str], label: str) -> str:
    """A whole picture."""
    return (
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {WIDTH} {short(height)}" role="img" '
        f'aria-label="{_text(label)}">{"".join(strokes)}</svg>'
    )


def short(value: float) -> str:
    """A coordinate to a tenth.

    >>> short(3.0), short(3.14159)
    ('3', '3.1')
    """
    return f"{value:.1f}".rstrip("0").rstrip(".")


def rect(x: float, y: float, width: float, height: float, fill: str, *, title: str = "", opacity: float = 1.0) -> str:
    """A filled rectangle; ``title`` is told where the pointer rests."""
    shade = f' fill-opacity="{opacity:g}"' if opacity < 1 else ""
    start = f'<rect x="{short(x)}" y="{short(y)}" width="{short(width)}" height="{short(height)}" fill="{fill}"{shade}'
    return f"{start}><title>{_text(title)}</title></rect>" if title else f"{start}/>"


def line(x1: float, y1: float, x2: float, y2: float, colour: str = "var(--line)") -> str:
    """A thin line."""
    return f'<path d="M{short(x1)} {short(y1)}L{short(x2)} {short(y2)}" stroke="{colour}" fill="none"/>'


def curve(points: Sequence[tuple[float, float] | None], colour: str, width: float = 1.6) -> str:
    """A line through ``points``, broken where one is None; a lone point is a dot."""
    path, pen_up, lone = [], True, []
    for number, point in enumerate(points):
        if point is None:
            pen_up = True
            continue
        alone = pen_up and (number + 1 == len(points) or points[number + 1] is None)
        if alone:
            lone.append(f'<circle cx="{short(point[0])}" cy="{short(point[1])}" r="2" fill="{colour}"/>')
        path.append(f"{'M' if pen_up else 'L'}{short(point[0])} {short(point[1])}")
        pen_up = False
    drawn = "".join(path)
    return f'<path d="{drawn}" stroke="{colour}" stroke-width="{width:g}" fill="none"/>' + "".join(lone)


def text(x: float, y: float, words: str, *, colour: str = "var(--muted)", size: float = 12) -> str:
    """Words that begin at a point.

    None end there, or have their middle there: Chrome's PDF viewer cuts the first letter of such.
    """
    place = f'x="{short(x)}" y="{short(y)}"'
    return f'<text {place} font-size="{short(size)}" fill="{colour}">{_text(words)}</text>'


def beside(rows: Iterable[tuple[float, str]], size: float = 12, colour: str = "var(--muted)") -> list[str]:
    """Names left of a picture, by y, that all begin at one x."""
    named = list(rows)
    wide = max((len(words) for _, words in named), default=0) * size * LETTER
    x = max(LEFT - 8 - wide, 2.0)
    return [text(x, y, words, colour=colour, size=size) for y, words in named]


def below(x: float, y: float, words: str, before: float) -> str:
    """Small words below ``x``, so much of them ``before`` it: 0.5 is around it."""
    size = 11.0
    return text(x - before * len(words) * size * LETTER, y, words, size=size)


def image(x: float, y: float, width: float, height: float, address: str) -> str:
    """Pixels, each drawn as it is."""
    return (
        f'<image x="{short(x)}" y="{short(y)}" width="{short(width)}" height="{short(height)}" '
        f'preserveAspectRatio="none" style="image-rendering:pixelated" href="{address}"/>'
    )


def clipped(words: str, most: int = 28) -> str:
    """``words`` that fit beside a picture."""
    shown = visible(words)
    return shown if len(shown) <= most else shown[: most - 1] + "…"


def ticks(top: float, wanted: int = 4) -> list[float]:
    """Round numbers from 0 to ``top``.

    >>> ticks(0.93), ticks(7.0)
    ([0.0, 0.5], [0.0, 2.0, 4.0, 6.0])
    """
    if not (top > 0 and math.isfinite(top)):
        return [0.0]
    rough = top / wanted
    power = 10.0 ** math.floor(math.log10(rough))
    step = next(one * power for one in (1, 2, 5, 10) if one * power >= rough * 0.999)
    return [number * step for number in range(int(top / step * 1.0001) + 1)]


def _text(words: str) -> str:
    return escape(visible(words))
