"""In band: ranks notice who is slow and who has no memory, and change to another plan at the same batch."""

from collections.abc import Callable
from typing import Any

import pytest

pytestmark = [pytest.mark.e2e, pytest.mark.xdist_group("pytorch")]
BATCH = 64
SLOW = ("slow", "slow_workers", "slow_sharded")
AT_ONCE = (
    "forward",
    "backward",
    "early",
    "backward_view",
    "backward_kept",
    "forward_unused",
    "backward_unused",
    "forward_static",
    "backward_static",
    "backward_view_accumulated_last",
)
SELDOM = ("forward_seldom", "backward_seldom", "early_seldom")
ACCUMULATED = [
    f"{how}_accumulated_{at}" for how in ("forward", "backward", "early") for at in ("first", "middle", "last")
]


@pytest.fixture(scope="module")
def trained(ranks: Callable[..., Any]) -> Any:
    """All on three ranks, rank 1 the one with trouble."""
    return ranks("inband.py", 3, *SLOW, *AT_ONCE, *ACCUMULATED, *SELDOM)


@pytest.mark.parametrize("case", SLOW)
def test_the_slow_rank_gets_less(trained: Any, case: str) -> None:
    """Less than half of an even share, under DDP, with loaders that fetch ahead, and sharded."""
    sizes = [each["sizes"] for each in trained.found[case]]
    assert all(sum(step) == BATCH for step in zip(*sizes, strict=True))
    assert sizes[1][0] in (21, 22)
    assert sizes[1][-1] < BATCH / 3 / 2


@pytest.mark.parametrize("case", SLOW)
def test_weights_are_those_of_whole_batches(trained: Any, case: str) -> None:
    assert all(each["far"] <= 1e-12 for each in trained.found[case])


@pytest.mark.parametrize("case", [*AT_ONCE, *ACCUMULATED])
def test_a_step_without_memory_is_skipped_by_all(trained: Any, case: str) -> None:
    """Nobody hangs, and weights are as if steps 3 and 4 had not been there."""
    found = trained.found[case]
    assert all(each["far"] <= 1e-12 for each in found)
    sizes = [each["sizes"] for each in found]
    assert all(sum(step) == BATCH for step in zip(*sizes, strict=True))


@pytest.mark.parametrize("case", [*AT_ONCE, *ACCUMULATED])
def test_who_had_no_memory_gets_less_once(trained: Any, case: str) -> None:
    """The second failure is of a batch that was handed out before, with the same share: the cap stays."""
    found = trained.found[case]
    assert [each["shares"] for each in found] == [found[0]["shares"]] * 3
    assert [shares[1] for shares in found[0]["shares"]] == [21] * 3 + [19] * 27
    told = "rank 1 ran out of memory with 21 samples: all ranks skipped that step, and it takes 19 at most from now on"
    assert [each["told"] for each in found] == [[], [told, told], []]


@pytest.mark.parametrize("case", SELDOM)
def test_between_exchanges_the_failed_batch_counts_as_zeros(trained: Any, case: str) -> None:
    """Nobody hangs, all ranks' weights are equal to the last bit, and the share is lowered a step later."""
    found = trained.found[case]
    assert found[0]["ends"] == found[1]["ends"] == found[2]["ends"]
    assert [shares[1] for shares in found[0]["shares"]] == [21] * 4 + [19] * 26
    assert [each["shares"] for each in found] == [found[0]["shares"]] * 3
    told = found[1]["told"]
    assert len(told) == 2
    assert all("21 samples: they counted as zeros in that step, and it takes 19 at most" in each for each in told)
