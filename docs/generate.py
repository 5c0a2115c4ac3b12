"""Write the generated pages of docs/: `make docs`."""

from pathlib import Path

from paceline.schema import documents

HERE = Path(__file__).parent

for name, text in documents().items():
    path = HERE / name
    path.parent.mkdir(exist_ok=True)
    path.write_text(text, encoding="utf-8")
