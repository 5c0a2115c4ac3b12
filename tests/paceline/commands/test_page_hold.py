"""The demo's page outlives its run where a person is there, and never holds up a script."""

from typing import Any

import pytest

from paceline.commands import page_hold

PERSON: dict[str, Any] = {"page": True, "timed": False, "terminal": True, "environ": {}}


def test_it_stays_where_a_person_is_at_the_terminal() -> None:
    """Who came to look at the page has time to: until Ctrl-C."""
    assert page_hold.stays(**PERSON)
    assert page_hold.stays(**PERSON | {"environ": {"CI": "false"}})


@pytest.mark.parametrize(
    "change",
    [{"page": False}, {"timed": True}, {"terminal": False}, {"environ": {"CI": "1"}}, {"environ": {"CI": "true"}}],
    ids=["--headless", "--seconds", "piped", "CI", "CI, in words"],
)
def test_a_script_is_never_held_up(change: dict[str, Any]) -> None:
    """It ends with its training run, as before."""
    assert not page_hold.stays(**PERSON | change)
