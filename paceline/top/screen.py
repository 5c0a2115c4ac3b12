"""The terminal: four panes, one of them large, and keys that are shown.

Rule of this file: with ``pane`` the only one that imports Textual. What is shown comes as a picture from ``source``;
text goes to the terminal as text, never as markup.
"""

from collections.abc import Callable
from typing import ClassVar, Protocol

from rich.text import Text
from textual import on
from textual.app import App, ComposeResult
from textual.binding import Binding, BindingType
from textual.containers import VerticalScroll
from textual.screen import ModalScreen
from textual.widgets import DataTable, Footer, Input, Static

from paceline.this_node import this_node
from paceline.visible import visible
from paceline.words import age

from .pane import MOST_ROWS, Pane
from .picture import Picture
from .reader import Connection
from .tables import cut, finding_lines, nothing, suggestion_lines, tables

#: Between two pictures.
REFRESH_S = 1.0
PANES = ("jobs", "ranks", "findings", "suggestions")


class Source(Protocol):
    """Where pictures come from."""

    address: str

    @property
    def connection(self) -> Connection:
        """How reading goes."""

    def picture(self, chosen: tuple[str, str] | None, only: str | None) -> Picture:
        """What is known now."""


class More(ModalScreen[None]):
    """A finding or a suggestion in full."""

    BINDINGS: ClassVar[list[BindingType]] = [Binding("escape,enter,q", "app.pop_screen", "Back", key_display="esc")]

    def __init__(self, lines: list[str]) -> None:
        super().__init__()
        self._lines = lines

    def compose(self) -> ComposeResult:
        """The lines, and the keys."""
        with VerticalScroll():
            yield Static(Text("\n".join(self._lines)), id="more")
        yield Footer(show_command_palette=False)


class Top(App[None]):
    """The four panes over ``source``; ``only`` shows one job alone."""

    ENABLE_COMMAND_PALETTE = False
    TITLE = "paceline top"
    CSS = """
    Screen { layout: vertical; }
    #status, #banner, .title { height: 1; width: 100%; }
    #status { background: $primary-darken-2; color: $text; }
    #banner { background: $error; color: $text; }
    .title { color: $text-muted; text-style: bold; }
    #jobs-title { height: auto; max-height: 3; }
    Pane { height: 1fr; min-height: 2; width: 100%; scrollbar-size-horizontal: 0; overflow-x: hidden; }
    Pane:focus { height: 3fr; }
    #filter { height: 1; border: none; padding: 0; }
    More { align: center middle; }
    More VerticalScroll { width: 100%; height: 100%; padding: 0 1; }
    """
    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("p", "pause", "Pause"),
        Binding("slash", "filter", "Filter", key_display="/"),
        Binding("q,ctrl+c", "quit", "Quit", key_display="q"),
    ]

    def __init__(self, source: Source, only: str | None = None) -> None:
        super().__init__()
        self._source, self._only = source, only
        self._chosen: tuple[str, str] | None = None
        self._picture: Picture | None = None
        self._words, self._paused = "", False

    def compose(self) -> ComposeResult:
        """A line of state, a banner where something is wrong, the panes, the filter and the keys."""
        yield Static(id="status")
        yield Static(id="banner")
        for name in PANES:
            yield Static(classes="title", id=f"{name}-title")
            yield Pane(name)
        yield Input(id="filter", placeholder="words to search for; Enter applies them, Esc clears them")
        yield Footer(show_command_palette=False)

    def on_mount(self) -> None:
        """Show what is known, from now on once a second."""
        self.query_one("#filter").display = False
        self.query_one("#jobs").focus()
        self.refresh_picture()
        self.set_interval(REFRESH_S, self.refresh_picture)

    def on_resize(self) -> None:
        """Fit the new size."""
        self.call_after_refresh(self.draw)

    def refresh_picture(self) -> None:
        """Take a new picture, unless paused."""
        if not self._paused or self._picture is None:
            self._picture = self._source.picture(self._chosen, self._only)
        self.draw()

    def draw(self) -> None:
        """Show the picture, where there are panes: not before they are made, after they are gone, or behind another."""
        if self._picture is None or len(self.screen_stack) != 1 or not self.query("#status"):
            return
        self._draw_state(self._picture)
        empty = nothing(self._picture, self._source.address, self._only)
        for name, table in zip(PANES, tables(self._picture, self._words), strict=True):
            held, most = len(table.rows), MOST_ROWS
            count = f" ({held})" if held <= most else f" ({most} of {held}; / finds others)"
            title = cut(table.name + (count if held else f": {table.empty}"), self.size.width)
            if empty and name == "jobs" and self._source.connection.state == "connected":
                title = f"{table.name}: {empty}"  # Wrapped, not cut: a command is typed whole.
            self.query_one(f"#{name}-title", Static).update(Text(title))
            # The last column is left free for the scroll bar.
            self.query_one(f"#{name}", Pane).draw(table, self.size.width - 2)

    def _draw_state(self, picture: Picture) -> None:
        connection, number = self._source.connection, len(picture.jobs)
        jobs = "1 job" if number == 1 else f"{number} jobs"
        parts = ["paceline top", visible(self._source.address), connection.state, jobs]
        parts += [f"{picture.unusable} unreadable"] if picture.unusable else []
        parts += [f"filter: {visible(self._words)}"] if self._words else []
        self.query_one("#status", Static).update(Text(cut(" · ".join(parts), self.size.width)))
        said = ""
        if connection.state in ("lost", "refused", "failed"):
            cause = visible(connection.cause)
            kept = "; earlier data is shown below" if picture.jobs or picture.findings or picture.suggestions else ""
            said = f"{connection.state} {age(picture.as_of_s, connection.since_s)}{kept}: {cause}"
        elif picture.trouble is not None:
            said = picture.trouble
        elif self._paused:
            said = "paused; press p to continue"
        elif connection.state == "connecting":
            said = "connecting"
        banner = self.query_one("#banner", Static)
        banner.update(Text(cut(said, self.size.width)))
        banner.display = bool(said)

    def action_pause(self) -> None:
        """Hold the picture, or go on."""
        self._paused = not self._paused
        self.refresh_picture()

    def action_filter(self) -> None:
        """Ask for the words to look for."""
        field = self.query_one("#filter", Input)
        field.display = True
        field.focus()

    @on(Input.Changed)
    def look_for(self, event: Input.Changed) -> None:
        """Show the rows that hold what has been typed so far."""
        self._words = event.value.strip()
        self.draw()

    @on(Input.Submitted)
    def keep_words(self) -> None:
        """Go back to the panes."""
        self.query_one("#filter").display = False
        self.query_one("#jobs").focus()

    def key_escape(self) -> None:
        """Look for nothing any more."""
        self.query_one("#filter", Input).value = ""
        self.keep_words()

    @on(DataTable.RowHighlighted, "#jobs")
    def choose(self, event: DataTable.RowHighlighted) -> None:
        """The job under the cursor is the one whose ranks are shown."""
        pane = event.data_table
        if not isinstance(pane, Pane):
            return
        keys = {repr(row.key): row.key for row in self._picture.jobs} if self._picture else {}
        chosen = keys.get(pane.keys[event.cursor_row]) if event.cursor_row < len(pane.keys) else None
        if chosen is not None and pane.has_focus and chosen != self._chosen:
            self._chosen = chosen
            if self._paused:
                return
            self.refresh_picture()

    @on(DataTable.RowSelected)
    def show_more(self, event: DataTable.RowSelected) -> None:
        """A finding or a suggestion in full; of a job its ranks."""
        pane = event.data_table
        if self._picture is None or not isinstance(pane, Pane) or event.cursor_row >= len(pane.keys):
            return
        if pane.id == "jobs":
            self.query_one("#ranks").focus()
            return
        lines = _lines(self._picture).get((pane.id or "", pane.keys[event.cursor_row]))
        if lines is not None:
            self.push_screen(More(lines()))


def _lines(picture: Picture) -> dict[tuple[str, str], Callable[[], list[str]]]:
    """What can be shown in full, by pane and key."""
    found = {("findings", row.finding.id): (lambda row=row: finding_lines(row.finding)) for row in picture.findings}
    held = {
        ("suggestions", row.suggestion.id): (lambda row=row: suggestion_lines(row.suggestion, this_node()))
        for row in picture.suggestions
    }
    return {**found, **held}
