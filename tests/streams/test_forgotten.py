"""How often jobs were forgotten: counted by key, bounded, stored and read back."""

import pytest

from streams import forgotten
from streams.forgotten import Forgotten


def test_each_key_is_counted_by_itself_also_after_it_was_stored():
    made = Forgotten()
    for key in ("nightly", "other", "nightly"):
        made.note(key)
    again = Forgotten.restore(made.snapshot())
    for one in (made, again):
        assert [one.times(key) for key in ("nightly", "other", "never")] == [2, 1, 0]
    again.note("nightly")
    assert (again.times("nightly"), made.times("nightly")) == (3, 2)


def test_those_forgotten_longest_ago_make_room(monkeypatch):
    """A name that is unique is noted once and never again; one that comes back stays."""
    monkeypatch.setattr(forgotten, "MOST_KEYS", 3)
    made = Forgotten()
    for number in range(10):
        made.note(f"unique {number}")
        made.note("nightly")
    assert len(made.counts) == 3
    assert (made.times("nightly"), made.times("unique 9"), made.times("unique 0")) == (10, 1, 0)


def test_ten_thousand_keys_are_one_message():
    """It is stored whole each time that a job is forgotten."""
    made = Forgotten()
    for number in range(forgotten.MOST_KEYS + 5):
        made.note(f"job-{number}")
    assert len(made.counts) == forgotten.MOST_KEYS
    assert len(made.snapshot()) < 200_000


@pytest.mark.parametrize("data", [b"", b"nonsense"])
def test_what_is_no_state_is_refused(data):
    with pytest.raises(ValueError, match="not a snapshot"):
        Forgotten.restore(data)
