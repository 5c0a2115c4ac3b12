"""Bounded staleness: ranks' own steps and averages are those of local SGD by hand; what cannot be so is refused."""

from collections.abc import Callable
from typing import Any

import pytest
from torch import nn

from paceline.balance import BalancedSampler, balance
from paceline.balance.errors import BalanceError
from paceline.balance.staleness import Staleness

#: PyTorch is imported, which takes seconds of a processor.
pytestmark = [pytest.mark.long, pytest.mark.xdist_group("pytorch")]

CASES = (
    "sgd",
    "adamw",
    "uneven",
    "short",
    "accumulated",
    "pieces",
    "warmed_up",
    "batch_norm",
    "left_out",
    "view",
    "single",
    "warmed_up_short",
    "static",
    "compiled",
    "resumed",
)


@pytest.fixture(scope="module")
def three(ranks: Callable[..., Any]) -> Any:
    return ranks("local_steps.py", 3, *CASES, "kept", "synchronous", "agreed", "refused")


@pytest.mark.e2e
@pytest.mark.parametrize("case", CASES)
def test_weights_are_those_of_local_sgd(three: Any, case: str) -> None:
    """With momentum, AdamW, uneven shares, accumulation, and a step that one rank leaves out as GradScaler does.

    Resumed: from a checkpoint of every rank's own, after ``synchronize`` where an average is due anyway.
    """
    assert max(three.found[case]) <= (1e-5 if case == "single" else 1e-12)


@pytest.mark.e2e
def test_what_does_not_train_is_not_averaged(three: Any) -> None:
    """Frozen weights, buffers, and weights that DDP was told to leave to each rank; a rank without samples, too."""
    assert three.found["kept"] == [[True] * 5] * 3


@pytest.mark.e2e
def test_nothing_stale_is_synchronous_training(three: Any) -> None:
    assert three.found["synchronous"] == [0.0] * 3


@pytest.mark.e2e
def test_weights_agree_once_they_are_synchronized(three: Any) -> None:
    for apart, once, twice in three.found["agreed"]:
        assert apart > 1e-6
        assert (once, twice) == (0.0, 0.0)


@pytest.mark.e2e
def test_what_cannot_step_alone_is_refused(three: Any) -> None:
    """Each with what to change; arguments that are not the same on all ranks, too."""
    for told in three.found["refused"]:
        parts = ("find_unused_parameters", "communication hook", "DistributedDataParallel", "staleness and warm_up")
        assert [part in one for part, one in zip(parts, told, strict=True)] == [True] * 4, told


@pytest.mark.e2e
def test_that_results_change_is_told_once(three: Any) -> None:
    assert "changes what is learned" in three.said(0)
    assert "changes what is learned" not in three.said(1)


@pytest.mark.parametrize(
    ("arguments", "says"),
    [
        ({"mode": "bounded_staleness", "staleness": -1}, "staleness is -1: it takes a whole number"),
        ({"mode": "bounded_staleness", "staleness": 1001}, "0 to 1000"),
        ({"mode": "bounded_staleness", "staleness": True}, "staleness is True"),
        ({"mode": "bounded_staleness", "staleness": 1.5}, "staleness is 1.5"),
        ({"mode": "bounded_staleness", "warm_up": -1}, "warm_up is -1"),
        ({"mode": "bounded_staleness", "conserve": False, "flex": 0.1}, "shares stay as they are"),
        ({"mode": "bounded_staleness", "source": "kafka"}, "shares stay as they are"),
        ({"mode": "adaptive", "staleness": 1}, "are for mode='bounded_staleness'"),
        ({"mode": "static", "warm_up": 1}, "are for mode='bounded_staleness'"),
    ],
)
def test_arguments_that_make_no_sense_are_refused(arguments: dict[str, Any], says: str) -> None:
    import torch

    model = nn.Linear(2, 2)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    with pytest.raises(BalanceError) as caught:
        balance(model, optimizer, BalancedSampler(range(8), 4), **arguments)
    assert says in str(caught.value)


def test_weights_are_never_staler_than_the_bound() -> None:
    """Whatever the bound: own steps since the last average, at most."""
    for bound in (1, 2, 7):
        staleness, own = Staleness(bound, warm_up=3), 0
        for step in range(50):
            own = own + 1 if staleness.local else 0
            assert staleness.local == (step >= 3)
            assert own <= bound + 1
            if staleness.step():
                own = 0
