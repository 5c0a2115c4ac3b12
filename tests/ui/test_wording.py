import pytest

from ui import wording


def test_names_are_made_safe_in_tables():
    """A job named like a script stays text."""
    assert "<script>" not in wording.table([("a", "")], [[("<script>alert(1)</script>", "")]])


@pytest.mark.long
@pytest.mark.parametrize(("peers", "told"), [(None, False), (1.0, False), (1.05, False), (2.0, True), (0.5, True)])
def test_only_a_difference_is_worth_a_colour(peers, told):
    """Numbers within a tenth are alike."""
    assert wording.apart(1.0, peers) is told
