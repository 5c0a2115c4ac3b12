"""Pictures of every page as docs/page.md shows them: dark, light, and as wide as a phone.

Rule of this file: what is drawn is not judged here; somebody looks at it.
"""

import io
from pathlib import Path
from typing import NamedTuple

from PIL import Image

from ..processes import ROOT
from .visitor import Visitor

FOLDER = ROOT / "docs" / "images" / "page"
#: What is there once a page has been drawn: its first picture, or of pages without any a card or a table.
PICTURE, OTHER = ".js-plotly-plot .main-svg", ".pl-table, [class*=st-key-suggestion-], [class*=st-key-session-]"
WITHOUT_PICTURES = ("suggestions", "sessions", "health")
#: After the first drawing: pictures get their size, and the next refresh has come.
SETTLE_MS = 5_000


class Look(NamedTuple):
    """How a page is looked at."""

    width: int
    height: int
    dark: bool


LOOKS = {"dark": Look(1440, 1200, True), "light": Look(1440, 1200, False), "phone": Look(390, 1200, False)}


def take(visitor: Visitor, name: str, path: str, section: str = "") -> None:
    """All looks of one page into ``FOLDER``, from the heading ``section`` on where one is named."""
    FOLDER.mkdir(parents=True, exist_ok=True)
    for word, look in LOOKS.items():
        tab = visitor.tab(path, width=look.width, height=look.height, dark=look.dark)
        tab.locator(OTHER if name in WITHOUT_PICTURES else PICTURE).filter(visible=True).first.wait_for()
        if section:
            heading = tab.locator("h2").get_by_text(section, exact=True)
            # Below the bar that stays at the top.
            heading.evaluate("heading => { heading.style.scrollMarginTop = '80px'; heading.scrollIntoView(); }")
        tab.wait_for_timeout(SETTLE_MS)
        _save(tab.screenshot(), FOLDER / f"{name}-{word}.webp")
        tab.close()


def _save(png: bytes, path: Path) -> None:
    """As WebP, a fifth of the size."""
    Image.open(io.BytesIO(png)).convert("RGB").save(path, quality=88, method=6)
