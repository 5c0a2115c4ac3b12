"""A finding that says there is too little data is no confirmed verdict, wherever the page shows it."""

import pytest

from tests.derived_events import finding
from ui.history_words import episode, finding_cells
from ui.screens.findings import _head, _history

SHORT = {"kind": "insufficient_data", "ranks": [], "cause": "unknown"}
ROW = {"time_s": 1.8e9, "job": "train", "kind": "insufficient_data", "cause": "unknown", "ranks": [], "nodes": []}


@pytest.mark.parametrize(
    ("changes", "expected"), [(SHORT, "no verdict"), ({}, "confirmed"), (SHORT | {"state": "recovered"}, "recovered")]
)
def test_a_card_and_its_revisions_say_the_state(changes, expected):
    """The card's badge and each row of its revisions."""
    shown = finding(**changes)
    assert f">{expected}</span>" in _head(shown)
    assert f">{expected}<" in _history((shown,))
    assert ("confirmed" in _head(shown) + _history((shown,))) == (expected == "confirmed")


@pytest.mark.parametrize(("kind", "expected"), [("insufficient_data", "no verdict"), ("straggler", "confirmed")])
def test_history_says_the_same(kind, expected):
    """In its table, in colour only what is confirmed, and in its picture."""
    row = {**ROW, "kind": kind, "state": "confirmed", "first_s": 0.0, "last_s": 1.0}
    assert (expected, "w own" if expected == "confirmed" else "w") in finding_cells(row)
    assert episode(row).state == expected
