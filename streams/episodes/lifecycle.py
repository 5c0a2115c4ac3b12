"""The life of an episode: one table.

Rule of this file: the table is the truth; nothing else compares states. ``None`` is "no episode".
"""

from typing import Literal

from paceline.events import FindingState

State = FindingState
Signal = Literal["late", "persistent", "calm"]

#: (state, signal) -> next state. A pair that is not here changes nothing.
TRANSITIONS: dict[tuple[State | None, Signal], State] = {
    (None, "late"): "suspected",
    (None, "persistent"): "confirmed",
    ("suspected", "persistent"): "confirmed",
    ("suspected", "calm"): "recovered",
    ("confirmed", "calm"): "recovered",
}
#: States in which an episode is over.
FINAL = frozenset({"recovered"})


def follow(state: State | None, signal: Signal) -> State | None:
    """The state after ``signal``."""
    return TRANSITIONS.get((state, signal), state)
