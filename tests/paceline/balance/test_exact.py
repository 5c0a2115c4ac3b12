"""Exact gradients: with a split that changes every 5 steps, weights are those of whole batches on one process.

The difference is told relative to the weights' norm. Two ranks and three, for an average over three is no exact number.
"""

from collections.abc import Callable
from typing import Any

import pytest

pytestmark = [pytest.mark.e2e, pytest.mark.xdist_group("pytorch")]

#: Relative difference that may be left: what rounding brings in 200 steps.
DOUBLE, SINGLE = 1e-12, 1e-6
#: A matrix product in bfloat16 has 8 bits; weights moved by what that leaves of a gradient.
HALF = 2e-2

#: One of each kind, for ring 1.
IN_SHORT = ("sgd", "adamw", "accumulated", "pieces", "tokens")
IN_DOUBLE = (
    "view",
    "static_graph",
    "unused",
    "accumulated_view",
    "tokens_accumulated",
    "tokens_pieces",
    "tokens_always_synced",
    "always_synced",
    "short",
    "scaled",
    "workers",
)
SHARDED = ("fsdp2", "fsdp2_accumulated", "fsdp2_tokens", "fsdp1", "fsdp1_accumulated")
IN_SINGLE = ("sgd_32", "adamw_32", "accumulated_32", "fsdp2_32")


@pytest.fixture(scope="module")
def short(ranks: Callable[..., Any]) -> Any:
    return ranks("exact.py", 3, *IN_SHORT)


@pytest.fixture(scope="module")
def three(ranks: Callable[..., Any]) -> Any:
    return ranks("exact.py", 3, *IN_DOUBLE)


@pytest.fixture(scope="module")
def two(ranks: Callable[..., Any]) -> Any:
    return ranks("exact.py", 2, *SHARDED, *IN_SINGLE, "amp")


@pytest.mark.landing
@pytest.mark.parametrize("case", IN_SHORT)
def test_each_kind_wrapped_by_ddp(short: Any, case: str) -> None:
    assert max(short.found[case]) <= DOUBLE


@pytest.mark.parametrize("case", IN_DOUBLE)
def test_wrapped_by_ddp(three: Any, case: str) -> None:
    """By every kind of optimizer, clipping, accumulation and counting."""
    assert max(three.found[case]) <= DOUBLE


@pytest.mark.parametrize("case", SHARDED)
def test_sharded(two: Any, case: str) -> None:
    assert max(two.found[case]) <= DOUBLE


@pytest.mark.parametrize("case", IN_SINGLE)
def test_in_single_precision(two: Any, case: str) -> None:
    assert max(two.found[case]) <= SINGLE


def test_in_bfloat16_to_its_own_precision(two: Any) -> None:
    assert max(two.found["amp"]) <= HALF
