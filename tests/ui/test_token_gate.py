import pytest

from ui.token_gate import TokenGate


@pytest.mark.parametrize("token", ["", "secret"])
@pytest.mark.parametrize("given", ["", "guess", "secre", "secret ", "ge\udce9heim", "x" * 10_000])
def test_only_the_token_opens_the_gate(token, given):
    """And without a token nothing does, an empty one neither."""
    assert TokenGate(token).judge(given, 0.0) == "wrong"


def test_a_clock_that_goes_back_gives_no_attempts():
    """Nor does the first look at it."""
    gate = TokenGate("secret")
    assert [gate.judge("x", 1000.0 - n) for n in range(6)] == ["wrong"] * 5 + ["too often"]
    assert gate.judge("secret", 1006.0) == "right"
