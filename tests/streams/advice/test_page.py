"""docs/suggestions.md: made from the tables, and complete."""

from pathlib import Path
from typing import get_args

from paceline.events.suggestions import Action
from streams.advice.config import CHANGEABLE, AdviceConfig
from streams.advice.page import page

DOCS = Path(__file__).parents[3] / "docs"


def test_the_page_is_up_to_date():
    """A changed rule changes its page in the same commit: run `make docs`."""
    assert (DOCS / "suggestions.md").read_text(encoding="utf-8") == page(), "run `make docs`"


def test_every_action_and_threshold_is_on_the_page():
    text = page()
    assert [action for action in get_args(Action) if f"`{action}`" not in text] == []
    assert [name for name in CHANGEABLE if f"| `{name}` |" not in text] == []


def test_every_threshold_that_may_be_set_is_one():
    config = AdviceConfig()
    for name, (low, high, _) in CHANGEABLE.items():
        assert low <= getattr(config, name) <= high
