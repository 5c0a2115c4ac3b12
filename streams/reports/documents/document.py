"""A document: what is reported, before it is text, Markdown or HTML.

Rule of this file: shapes alone. Text is as it was told: every writer makes it harmless in its own way. A picture's SVG
is the only markup, made by ``pictures`` from numbers and escaped names.
"""

from typing import Literal, NamedTuple

Tone = Literal["", "slow", "caution", "good"]


class Heading(NamedTuple):
    """The title of a section, or of a part of one (level 3)."""

    text: str
    level: int = 2


class Paragraph(NamedTuple):
    """Some sentences; ``quiet`` ones explain."""

    text: str
    quiet: bool = False


class Notice(NamedTuple):
    """What a reader must see first, and what to do about it."""

    title: str
    text: str
    tone: Tone = ""
    commands: tuple[str, ...] = ()
    steps: tuple[str, ...] = ()


class Tile(NamedTuple):
    """One number with its name."""

    label: str
    value: str
    note: str = ""
    tone: Tone = ""


class Tiles(NamedTuple):
    """The numbers that sum it up."""

    tiles: tuple[Tile, ...]


class Table(NamedTuple):
    """Rows of cells; columns named in ``right`` are numbers. ``slow`` rows stand out."""

    head: tuple[str, ...]
    rows: tuple[tuple[str, ...], ...]
    right: tuple[int, ...] = ()
    slow: tuple[int, ...] = ()


def without_empty(table: Table) -> Table:
    """The table without columns that no row has anything in.

    >>> without_empty(Table(("a", "b", "c"), (("1", "", "3"),), right=(2,))).right
    (1,)
    """
    kept = [at for at in range(len(table.head)) if any(row[at] for row in table.rows)]
    return Table(
        tuple(table.head[at] for at in kept),
        tuple(tuple(row[at] for at in kept) for row in table.rows),
        tuple(place for place, at in enumerate(kept) if at in table.right),
        table.slow,
    )


class Picture(NamedTuple):
    """An SVG, what it shows in words, and the same as lines of characters, where that is worth having."""

    svg: str
    caption: str
    text: tuple[str, ...] = ()


class Bullets(NamedTuple):
    """A list."""

    items: tuple[str, ...]


Block = Heading | Paragraph | Notice | Tiles | Table | Picture | Bullets


class Document(NamedTuple):
    """A title, a line below it, and what follows."""

    title: str
    subtitle: str
    blocks: tuple[Block, ...]
