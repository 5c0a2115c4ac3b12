"""The pages and their order: the one list that a new page is added to."""

from collections.abc import Callable
from functools import partial
from typing import NamedTuple

import streamlit as st
from streamlit.navigation.page import StreamlitPage

from ..control_door import ControlDoor
from ..history_door import HistoryDoor
from ..token_gate import TokenGate
from . import collectives, fleet, forecast, history, job, links, pipeline, rank, sessions, suggestions
from .frame import Source


class Entry(NamedTuple):
    """A page: its name in the menu, its path in the address, and what draws it."""

    title: str
    path: str
    show: Callable[[Source], None]


PAGES = (
    Entry("Fleet", "fleet", fleet.show),
    Entry("Job", "job", job.show),
    Entry("Rank", "rank", rank.show),
    Entry("Collectives", "collectives", collectives.show),
    Entry("Forecast", "forecast", forecast.show),
    Entry("Pipeline health", "health", pipeline.show),
)
#: The page that an address without a path leads to.
FIRST = "job"


def run(
    source: Source,
    door: ControlDoor | None = None,
    gate: TokenGate | None = None,
    archive: HistoryDoor | None = None,
) -> None:
    """Draw the page that the address names; ``door`` leads to control, for whom ``gate`` lets in."""
    advice = Entry("Suggestions", "suggestions", partial(suggestions.show, door=door, gate=gate))
    recorded = Entry("Sessions", "sessions", partial(sessions.show, door=door, gate=gate))
    kept = Entry("History", "history", partial(history.show, door=archive))
    entries = [*PAGES[:-1], advice, kept, recorded, PAGES[-1]]
    pages = {
        entry.path: st.Page(partial(entry.show, source), title=entry.title, url_path=entry.path) for entry in entries
    }
    # Streamlit knows its first page by the empty path alone, and every page shall have its name in the address.
    home = st.Page(partial(_go_on, pages[FIRST]), title="Paceline", default=True, visibility="hidden")
    chosen = st.navigation([home, *pages.values()], position="top")
    links.keep()
    chosen.run()


def _go_on(page: StreamlitPage) -> None:
    st.switch_page(page, query_params=st.query_params.to_dict())
