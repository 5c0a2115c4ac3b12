"""Tokens as weights: nobody waits for a count, and gradients end with the scale of the true total."""

import importlib
import math
from typing import Any

import pytest

from paceline.balance.errors import BalanceError

pytestmark = [pytest.mark.e2e, pytest.mark.xdist_group("pytorch")]


@pytest.fixture(scope="module")
def torch() -> Any:
    return importlib.import_module("torch")


@pytest.fixture
def tokens() -> Any:
    """Of a world of one, where a sum is what was told."""
    exchange = importlib.import_module("paceline.balance.exchange").Exchange(1)
    return importlib.import_module("paceline.balance.token_round").TokenRound(exchange, 1)


def gradient(torch: Any, tokens: Any, counts: list[int]) -> float:
    """What a weight gets whose loss is its own value, whatever the tokens."""
    weight = torch.nn.Parameter(torch.ones(1, dtype=torch.float64))
    for count in counts:
        (weight.sum() * tokens.weight(count)).backward()
    tokens.exchange()
    tokens.scale([weight])
    tokens.step()
    return float(weight.grad)


def test_a_mean_over_tokens_is_one_whatever_their_number(torch: Any, tokens: Any) -> None:
    for counts in ([5], [700], [3, 0, 9, 1], [0, 1], [10**9, 1]):
        assert gradient(torch, tokens, counts) == pytest.approx(1.0, rel=1e-12)


def test_a_round_without_a_token_has_no_gradient(torch: Any, tokens: Any) -> None:
    """First, or between others."""
    assert gradient(torch, tokens, [0, 0]) == 0.0
    assert gradient(torch, tokens, [4]) == pytest.approx(1.0)
    assert gradient(torch, tokens, [0]) == 0.0
    assert gradient(torch, tokens, [7]) == pytest.approx(1.0)


@pytest.mark.parametrize("count", [-1, math.nan, math.inf])
def test_what_is_no_number_of_tokens_is_refused(tokens: Any, count: float) -> None:
    with pytest.raises(BalanceError, match="how many tokens this loss is the mean of"):
        tokens.weight(count)


def test_a_tensor_is_a_number(torch: Any, tokens: Any) -> None:
    assert tokens.weight(torch.tensor(8)) == 1.0


def test_weights_without_a_gradient_are_passed_over(torch: Any, tokens: Any) -> None:
    tokens.weight(3)
    tokens.exchange()
    tokens.scale([torch.nn.Parameter(torch.ones(2))])
