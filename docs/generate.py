"""Write the generated pages of docs/: `make docs`."""

from pathlib import Path

from collectors.column_sources import SOURCES
from paceline.schema import documents
from streams.advice import page as suggestions
from streams.nodes.rules_page import page

HERE = Path(__file__).parent
PAGES = documents() | {"gpu-rules.md": page(SOURCES), "suggestions.md": suggestions.page()}

if __name__ == "__main__":
    for name, text in PAGES.items():
        path = HERE / name
        path.parent.mkdir(exist_ok=True)
        path.write_text(text, encoding="utf-8")
