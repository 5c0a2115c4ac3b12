"""The suggestions page: what to do, ranked by what it brings, and the way to accept or dismiss it.

Rule of this file: it composes; a card draws itself. What a card's state becomes is not for the page to say.
"""

from functools import partial

import streamlit as st

from paceline.events.silence import WINDOWS_SILENT_S
from paceline.words import age

from ..control_door import ControlDoor
from ..notices import DOCTOR, STREAMS, Notice
from ..snapshot import Snapshot
from ..suggestion_book import STATES
from ..suggestion_words import SHOWN, counted, ranked, state_words
from ..token_gate import TokenGate
from ..wording import safe
from . import frame, suggestion_card, summary, token_form
from .frame import Shown, Source

#: Cards drawn; the rest is counted.
CARDS = 12


def show(source: Source, door: ControlDoor | None = None, gate: TokenGate | None = None) -> None:
    """Draw the whole page; whom ``gate`` lets in accepts and dismisses through ``door``."""
    frame.show(source, partial(_draw, door=door, gate=gate), "Suggestions", ranged=False)


def _draw(shown: Shown, door: ControlDoor | None, gate: TokenGate | None) -> None:
    snapshot = shown.snapshot
    issuer = token_form.draw(gate, "accept or dismiss")
    if not snapshot.suggestions:
        summary.draw_notice(nothing(snapshot), shown.brokers)
        return
    newest_s = max(one.updated_s for one in snapshot.suggestions)
    words = f"{counted(snapshot.suggestions)} · newest {age(snapshot.now_s, newest_s)}"
    st.html(f'<div class="pl"><p class="muted">{safe(words)}</p></div>')
    states = st.pills(
        "States",
        STATES,
        selection_mode="multi",
        default=SHOWN,
        format_func=state_words,
        key="suggestion_states",
        label_visibility="collapsed",
    )
    wanted = st.query_params.get("suggestion")
    found = ranked(snapshot.suggestions, states)
    linked = [one for one in snapshot.suggestions if one.id == wanted]
    cards = [*linked, *(one for one in found if one.id != wanted)]
    if wanted and not linked:
        text = "It does not exist here, or ended long ago. To list all suggestions, run `paceline suggestions`."
        summary.draw_notice(
            Notice("wait", f"No suggestion {wanted[:64]} is known", text.replace("`", "")), shown.brokers
        )
    if not cards:
        st.caption(f"None of {len(snapshot.suggestions):,} has one of these states.")
    for number, one in enumerate(cards[:CARDS]):
        suggestion_card.draw(one, shown, door, issuer, opened=number == 0)
    if len(cards) > CARDS:
        st.caption(f"and {len(cards) - CARDS:,} more with less gain: choose states above")


def nothing(snapshot: Snapshot) -> Notice:
    """Why there is no suggestion: all is well, or nobody looks."""
    if snapshot.connection.state != "connected":
        text = "Suggestions appear here once the broker answers."
        return Notice("wait", "No suggestions yet", text, (DOCTOR,))
    last_s = next((line.last_s for line in snapshot.topics if line.topic == "window"), None)
    if last_s is None or snapshot.now_s - last_s > WINDOWS_SILENT_S:
        heard = "No window was received" if last_s is None else f"The last window is from {age(snapshot.now_s, last_s)}"
        text = f"{heard}, so there are no suggestions. Start one:"
        return Notice("wait", "No stream worker is running", text, (STREAMS, DOCTOR))
    jobs = sum(1 for line in snapshot.jobs if line.ended_s is None)
    gpus = len(snapshot.fleet.uuids)
    looked = f"{jobs:,} job{'s' if jobs != 1 else ''} and {gpus:,} GPU{'s' if gpus != 1 else ''} checked"
    text = "A suggestion appears here once there is enough evidence for it."
    return Notice("good", f"Nothing to suggest: {looked}", text)
