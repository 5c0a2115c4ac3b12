"""The picture as plain text, for ``--once``: no control codes, one table after the other.

Rule of this file: pure.
"""

from .picture import Picture
from .tables import GAP, Table, cut, fit, nothing, tables, wide

#: Rows of each table that are printed.
MOST_ROWS = 40


def text(picture: Picture, width: int | None, address: str, only: str | None = None) -> str:
    """What is wrong, and all tables, within ``width`` columns; None: nothing is cut. Where there is nothing to show,
    why: nothing at ``address``, or nothing of ``only`` that job; the command in it stays whole."""
    trouble = picture.trouble
    above = [] if trouble is None else [trouble if width is None else cut(trouble, width)]
    empty = nothing(picture, address, only)
    shown = [_section(table, width) for table in tables(picture)] if empty is None else [empty]
    return "\n\n".join([*above, *shown]) + "\n"


def _section(table: Table, width: int | None) -> str:
    title = table.name if width is None else cut(table.name, width)
    if not table.rows:
        return f"{title}\n  {table.empty if width is None else cut(table.empty, max(0, width - 2))}"
    widths = fit(table, width)
    shown = [tuple(column.title for column in table.columns), *table.rows[:MOST_ROWS]]
    lines = [line(table, cells, widths) for cells in shown]
    left = len(table.rows) - MOST_ROWS
    if width is not None:
        lines = [cut(one, width) for one in lines]
    return "\n".join([title, *lines, *([f"  and {left} more"] if left > 0 else [])])


def line(table: Table, cells: tuple[str, ...], widths: list[int]) -> str:
    """One row of ``table``, in columns of ``widths``."""
    parts = []
    for column, cell, width in zip(table.columns, cells, widths, strict=True):
        shown = cut(cell, width)
        blank = " " * (width - wide(shown))
        parts.append(blank + shown if column.right else shown + blank)
    return (" " * GAP).join(parts).rstrip()
