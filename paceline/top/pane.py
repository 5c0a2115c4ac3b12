"""One table of the terminal, which keeps its place.

Rule of this file: text goes to the terminal as text, never as markup. A cell that has not changed is not drawn again,
for each costs a tenth of a millisecond and more.
"""

from typing import ClassVar

from rich.text import Text
from textual.binding import Binding, BindingType
from textual.coordinate import Coordinate
from textual.widgets import DataTable

from .tables import GAP, Column, Table, cut, fit

#: Rows that a pane holds; those below are found by the filter.
MOST_ROWS = 100
COLOURS = {
    "slow": "bold red",
    "failed": "bold red",
    "confirmed": "bold red",
    "silent": "yellow",
    "suspected": "yellow",
    "new": "yellow",
    "running": "green",
    "verified": "green",
}


class Pane(DataTable[Text]):
    """One table; the cursor stays on its row while rows come, go and change places."""

    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("j,down", "cursor_down", "Down", key_display="j/↓"),
        Binding("k,up", "cursor_up", "Up", key_display="k/↑"),
        Binding("g", "scroll_top", "First", show=False),
        Binding("G", "scroll_bottom", "Last", show=False),
        Binding("enter", "select_cursor", "More"),
        Binding("tab", "app.focus_next", "Next pane", key_display="tab"),
    ]

    def __init__(self, name: str) -> None:
        super().__init__(id=name, cursor_type="row", cell_padding=0)
        self.keys: list[str] = []
        self._rows: list[tuple[str, ...]] = []
        self._widths: list[int] = []

    def draw(self, table: Table, width: int) -> None:
        """Show the first rows of ``table`` in ``width`` columns."""
        rows, keys = table.rows[:MOST_ROWS], table.keys[:MOST_ROWS]
        widths = fit(Table(table.name, table.columns, rows, keys, table.empty), width)
        if (keys, widths) == (self.keys, self._widths):
            self._draw_changes(table.columns, rows)
        else:
            self._draw_anew(table.columns, rows, keys, widths)
        self._rows = rows

    def _draw_changes(self, columns: tuple[Column, ...], rows: list[tuple[str, ...]]) -> None:
        for at, (before, now) in enumerate(zip(self._rows, rows, strict=True)):
            for place, (old, new) in enumerate(zip(before, now, strict=True)):
                if old != new:
                    self.update_cell_at(Coordinate(at, place), self._cell(columns, place, new))

    def _draw_anew(
        self, columns: tuple[Column, ...], rows: list[tuple[str, ...]], keys: list[str], widths: list[int]
    ) -> None:
        chosen = self.keys[self.cursor_row] if self.cursor_row < len(self.keys) else None
        place = keys.index(chosen) if chosen in keys else min(self.cursor_row, len(keys) - 1)
        self._widths, self.keys = widths, keys
        self.clear(columns=True)
        for number, column in enumerate(columns):
            gap = GAP if number else 0
            self.add_column(self._cell(columns, number, column.title), width=widths[number] + gap)
        for row in rows:
            self.add_row(*(self._cell(columns, number, cell) for number, cell in enumerate(row)))
        if place >= 0:
            self.move_cursor(row=place, animate=False)

    def _cell(self, columns: tuple[Column, ...], place: int, cell: str) -> Text:
        """A cell behind the gap to the one before it."""
        shown = (" " * GAP if place else "") + cut(cell, self._widths[place])
        style = COLOURS.get(cell.split(" ")[0], "") if not place else ""
        return Text(shown, style=style, justify="right" if columns[place].right else "left")
