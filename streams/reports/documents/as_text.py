"""A document as text for a terminal.

Rule of this file: pure. Every word passes ``visible``: names come from outside.
"""

import textwrap
from collections.abc import Iterable, Iterator

from paceline.visible import visible

from .document import Block, Bullets, Document, Heading, Notice, Paragraph, Picture, Table, Tiles

_WIDTH = 110
#: A cell beyond this is cut in a terminal; Markdown and HTML have it whole.
_WIDEST = 44
#: A last column of sentences has so much at least, whatever stands before it.
_LEAST = 40


def as_text(document: Document) -> str:
    """The whole document, without a trailing newline."""
    title = visible(document.title)
    lines = [title, "=" * len(title), *_wrapped(document.subtitle)]
    for block in document.blocks:
        if shown := list(_block(block)):
            lines += ["", *shown]
    return "\n".join(lines)


def _block(block: Block) -> Iterator[str]:
    match block:
        case Heading():
            yield visible(block.text)
            yield ("-" if block.level < 3 else "·") * len(visible(block.text))
        case Paragraph():
            yield from _wrapped(block.text)
        case Notice():
            yield from _wrapped(f"{block.title}: {block.text}" if block.text else block.title)
            yield from _listed(block.steps)
            yield from (f"  $ {visible(command)}" for command in block.commands)
        case Tiles():
            wide = max((len(tile.label) for tile in block.tiles), default=0)
            for tile in block.tiles:
                note = f"  ({visible(tile.note)})" if tile.note else ""
                yield f"  {visible(tile.label):<{wide}}  {visible(tile.value)}{note}"
        case Table():
            yield from _table(block)
        case Picture():
            yield from (block.text if block.text else ())
        case Bullets():
            yield from _listed(block.items)


def _listed(items: Iterable[str]) -> Iterator[str]:
    for item in items:
        yield from textwrap.wrap(visible(item), _WIDTH, initial_indent="- ", subsequent_indent="  ")


def _wrapped(text: str) -> list[str]:
    return textwrap.wrap(visible(text), _WIDTH)


def _table(table: Table) -> Iterator[str]:
    """Columns as wide as they have to be; the last one, where it holds sentences, is wrapped in what is left."""
    rows = [tuple(map(visible, row)) for row in (table.head, *table.rows)]
    widths = [max(min(len(row[at]), _WIDEST) for row in rows) for at in range(len(table.head))]
    before = sum(widths[:-1]) + 2 * len(widths)
    widths[-1] = max(min(max(len(row[-1]) for row in rows), _WIDTH - before), len(rows[0][-1]), min(widths[-1], _LEAST))
    widths[-1] = max(widths[-1], 1)
    for number, row in enumerate(rows):
        *cells, last = row
        shown = [_cell(table, at, cell, widths[at]) for at, cell in enumerate(cells)]
        wrapped = textwrap.wrap(last, widths[-1]) or [""]
        wrapped[0] = _cell(table, len(cells), wrapped[0], widths[-1])
        yield ("  " + "  ".join([*shown, wrapped[0]])).rstrip()
        yield from (" " * before + more for more in wrapped[1:])
        if number == 0:
            yield "  " + "  ".join("-" * width for width in widths)


def _cell(table: Table, at: int, text: str, width: int) -> str:
    cut = text if len(text) <= width else text[: width - 1] + "…"
    return cut.rjust(width) if at in table.right else cut.ljust(width)
