"""Writes the dashboards: ``python -m deploy.grafana.boards``."""

from . import BOARDS, FOLDER, text

for name, board in BOARDS.items():
    (FOLDER / f"{name}.json").write_text(text(board), encoding="utf-8")
