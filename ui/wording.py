"""Numbers and names in words, and words made safe for HTML.

Rule of this file: pure. Names come from other people's jobs: whatever goes into HTML passes ``safe``.
"""

import html
from collections.abc import Iterable
from typing import NamedTuple

from paceline.settings import aimed_at
from paceline.words import NONE

#: The sign of multiplication.
TIMES = "\u00d7"


class Anchor(NamedTuple):
    """A text that leads to another page, and a note below it."""

    text: str
    href: str
    note: str = ""


#: What stands in a table's cell, and its class.
Cell = tuple[object, str]


def cell(content: object) -> str:
    """The content of a table's cell for HTML: a text, or a text with a link."""
    if isinstance(content, Anchor):
        note = f'<div class="muted">{safe(content.note)}</div>' if content.note else ""
        return f'<a href="{safe(content.href)}" target="_self">{safe(content.text)}</a>{note}'
    return safe(content)


def safe(text: object) -> str:
    """``text`` for HTML."""
    return html.escape(str(text))


def command(text: str, brokers: str) -> str:
    """The command ``text`` for HTML, as one types it for ``brokers``."""
    return f"<code>{safe(aimed_at(text, brokers))}</code>"


def ratio(value: float | None) -> str:
    """A share in percent."""
    return NONE if value is None or value != value else f"{value * 100:.0f} %"


def apart(own: float, peers: float | None) -> bool:
    """Whether a number differs enough from the peers' to be worth a colour: by more than a tenth."""
    return peers is not None and abs(own - peers) > 0.1 * max(abs(own), abs(peers))


def table(head: Iterable[tuple[str, str]], rows: Iterable[Iterable[tuple[object, str]]]) -> str:
    """An HTML table of (text, class) cells; every text is made safe."""
    top = "".join(f'<th class="{kind}">{safe(text)}</th>' for text, kind in head)
    body = "".join(
        "<tr>" + "".join(f'<td class="{kind}">{cell(text)}</td>' for text, kind in row) + "</tr>" for row in rows
    )
    return f'<div class="pl pl-table"><table><thead><tr>{top}</tr></thead><tbody>{body}</tbody></table></div>'
