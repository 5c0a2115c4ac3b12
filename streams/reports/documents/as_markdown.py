"""A document as Markdown.

Rule of this file: pure. Names come from outside: what Markdown or HTML would read as markup is escaped, everywhere but
in commands, which stand in code blocks whose fence is longer than any run of backquotes in them.
"""

import re
from collections.abc import Iterator

from paceline.visible import visible

from .document import Block, Bullets, Document, Heading, Notice, Paragraph, Picture, Table, Tiles

_MARKUP = re.compile(r"([\\`*_{}\[\]<>|#~$!&]|^[-+](?=\s)|^\d+(?=[.)]\s)|://|www\.)")


def as_markdown(document: Document) -> str:
    """The whole document."""
    lines = [f"# {_escaped(document.title)}", "", _escaped(document.subtitle)]
    for block in document.blocks:
        lines += ["", *_block(block)]
    return "\n".join(lines) + "\n"


def _block(block: Block) -> Iterator[str]:
    match block:
        case Heading():
            yield f"{'#' * block.level} {_escaped(block.text)}"
        case Paragraph():
            yield f"*{_escaped(block.text)}*" if block.quiet else _escaped(block.text)
        case Notice():
            yield from _notice(block)
        case Tiles():
            yield from _table(Table(("", "", ""), tuple((t.label, t.value, t.note) for t in block.tiles), (1,)))
        case Table():
            yield from _table(block)
        case Picture():
            if block.text:
                yield from _code(block.text)
        case Bullets():
            yield from (f"- {_escaped(item)}" for item in block.items)


def _notice(notice: Notice) -> Iterator[str]:
    yield f"> **{_escaped(notice.title)}**" + (f": {_escaped(notice.text)}" if notice.text else "")
    if notice.steps:
        yield ""
        yield from (f"- {_escaped(step)}" for step in notice.steps)
    if notice.commands:
        yield ""
        yield from _code(notice.commands)


def _code(lines: tuple[str, ...]) -> Iterator[str]:
    shown = [visible(line) for line in lines]
    fence = "`" * max(3, *(len(run) + 1 for line in shown for run in re.findall("`+", line)), 3)
    yield fence
    yield from shown
    yield fence


def _table(table: Table) -> Iterator[str]:
    yield "| " + " | ".join(_escaped(cell) for cell in table.head) + " |"
    yield "|" + "|".join(" ---: " if at in table.right else " --- " for at in range(len(table.head))) + "|"
    for row in table.rows:
        yield "| " + " | ".join(_escaped(cell) for cell in row) + " |"


def _escaped(text: str) -> str:
    """Harmless in Markdown, also where it links addresses by itself.

    >>> _escaped("<b> a_b | [x](http://y)")
    '\\\\<b\\\\> a\\\\_b \\\\| \\\\[x\\\\](http:\\\\//y)'
    """
    return _MARKUP.sub(_mask, visible(text))


def _mask(found: re.Match[str]) -> str:
    text = found.group()
    if text == "://":
        return ":\\//"
    return "www\\." if text == "www." else text + "\\" if text.isdigit() else "\\" + text
