"""A document as one HTML file: no script, nothing loaded from anywhere, light and dark, made to be printed too.

Rule of this file: pure. Every word is made visible and escaped here; the only markup taken as it is is a picture's SVG.
The policy in the head lets a browser load nothing, whatever a name might smuggle in.
"""

from collections.abc import Sequence
from html import escape

from paceline.visible import visible

from .document import Block, Bullets, Document, Heading, Notice, Paragraph, Picture, Table, Tile, Tiles
from .quantities import UNKNOWN
from .style import STYLE

#: A cell of so many letters stays on one line.
_WHOLE = 14
_POLICY = "default-src 'none'; style-src 'unsafe-inline'; img-src data:"


def as_html(document: Document) -> str:
    """The whole file."""
    body = "\n".join(map(_block, document.blocks))
    return f"""<!DOCTYPE html>
<html lang="en">
<head>
<meta charset="utf-8">
<meta http-equiv="Content-Security-Policy" content="{_POLICY}">
<meta name="viewport" content="width=device-width, initial-scale=1">
<title>{_text(document.title)}</title>
<style>{STYLE}</style>
</head>
<body><main>
<h1>{_text(document.title)}</h1>
<p class="subtitle">{_text(document.subtitle)}</p>
{body}
<footer>Made by Paceline from what was measured; times are UTC. “{UNKNOWN}” is not measured.</footer>
</main></body>
</html>
"""


def _block(block: Block) -> str:
    match block:
        case Heading():
            return f"<h{block.level}>{_text(block.text)}</h{block.level}>"
        case Paragraph():
            return f"<p{_class('quiet', block.quiet)}>{_text(block.text)}</p>"
        case Notice():
            return _notice(block)
        case Tiles():
            return f'<div class="tiles">{"".join(map(_tile, block.tiles))}</div>'
        case Table():
            return _table(block)
        case Picture():
            return f"<figure>{block.svg}<figcaption>{_text(block.caption)}</figcaption></figure>"
        case Bullets():
            return _list(block.items)


def _notice(notice: Notice) -> str:
    text = f"<p>{_text(notice.text)}</p>" if notice.text else ""
    commands = "\n".join(map(_text, notice.commands))
    shown = f"<pre>{commands}</pre>" if commands else ""
    steps = _list(notice.steps) if notice.steps else ""
    return f'<div class="notice {notice.tone}"><strong>{_text(notice.title)}</strong>{text}{steps}{shown}</div>'


def _list(items: Sequence[str]) -> str:
    return f"<ul>{''.join(f'<li>{_text(item)}</li>' for item in items)}</ul>"


def _tile(tile: Tile) -> str:
    label, value, note, tone = tile
    return (
        f'<div class="tile {tone}"><div class="label">{_text(label)}</div>'
        f'<div class="value">{_text(value)}</div><div class="note">{_text(note)}</div></div>'
    )


def _table(table: Table) -> str:
    head = "".join(f"<th{_class('n', at in table.right)}>{_text(cell)}</th>" for at, cell in enumerate(table.head))
    rows = "".join(
        f"<tr{_class('out', number in table.slow)}>"
        + "".join(f"<td{_kind(cell, right=at in table.right)}>{_text(cell)}</td>" for at, cell in enumerate(row))
        + "</tr>"
        for number, row in enumerate(table.rows)
    )
    return f'<div class="scroll"><table><thead><tr>{head}</tr></thead><tbody>{rows}</tbody></table></div>'


def _kind(cell: str, *, right: bool) -> str:
    """Numbers stand right; neither they nor a few letters are broken into two lines."""
    return _class("n", holds=True) if right else _class("w", 0 < len(cell) <= _WHOLE)


def _class(name: str, holds: bool) -> str:
    return f' class="{name}"' if holds else ""


def _text(text: str) -> str:
    return escape(visible(text))
