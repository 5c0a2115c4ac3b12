"""The life of a suggestion: one table.

Rule of this file: the table is the truth; nothing else compares states to find the next one. ``None`` is a suggestion
that is not told: something stronger speaks for the same, or enough was told lately.
"""

from typing import Literal

from paceline.events import CLOSED_SUGGESTIONS, SuggestionState

State = SuggestionState
Signal = Literal["tell", "accept", "dismiss", "seen", "helped", "not_helped", "late", "gone"]

#: (state, signal) -> next state. A pair that is not here changes nothing. ``seen``: the data show that it was done.
TRANSITIONS: dict[tuple[State | None, Signal], State] = {
    (None, "tell"): "new",
    ("new", "accept"): "accepted",
    ("new", "dismiss"): "dismissed",
    ("new", "gone"): "withdrawn",
    ("new", "seen"): "applied",
    ("new", "late"): "expired",
    ("accepted", "dismiss"): "dismissed",
    ("accepted", "seen"): "applied",
    ("accepted", "late"): "expired",
    ("applied", "helped"): "verified",
    ("applied", "not_helped"): "did_not_help",
    ("applied", "late"): "expired",
}
#: States in which a suggestion is over.
FINAL = frozenset(CLOSED_SUGGESTIONS)


def follow(state: State | None, signal: Signal) -> State | None:
    """The state after ``signal``.

    >>> follow("new", "accept"), follow("verified", "dismiss")
    ('accepted', 'verified')
    """
    return TRANSITIONS.get((state, signal), state)
