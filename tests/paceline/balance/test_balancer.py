"""The balancer on one process: wrong arguments are told, and a world of one trains as it did."""

import importlib
import math
from types import SimpleNamespace
from typing import Any

import pytest

from paceline.balance.errors import BalanceError

pytestmark = [pytest.mark.e2e, pytest.mark.xdist_group("pytorch")]


@pytest.fixture(scope="module")
def given() -> Any:
    """PyTorch, and what a script imports."""
    torch, package = importlib.import_module("torch"), importlib.import_module("paceline.balance")
    return SimpleNamespace(torch=torch, balance=package.balance, BalancedSampler=package.BalancedSampler)


def made(given: Any, **more: Any) -> Any:
    """A model, its optimizer, a sampler and a balancer of one process."""
    given.torch.manual_seed(0)
    model = given.torch.nn.Linear(4, 1).double()
    optimizer = given.torch.optim.SGD(model.parameters(), lr=0.1)
    sampler = given.BalancedSampler(range(40), 8)
    return model, optimizer, sampler, given.balance(model, optimizer, sampler, **more)


@pytest.mark.parametrize(
    ("more", "says"),
    [
        ({"mode": "fast"}, "mode is 'fast': it takes adaptive, static, uniform"),
        ({"source": "bus"}, "source is 'bus': it takes inband, kafka"),
        ({"flex": 1.0, "conserve": False}, "flex is 1.0"),
        ({"flex": -0.1, "conserve": False}, "flex is -0.1"),
        ({"flex": math.nan, "conserve": False}, "flex is nan"),
        ({"flex": 0.01}, "give one of them"),
        ({"max_batch": 0}, "max_batch is 0"),
        ({"max_batch": 2.5}, "max_batch is 2.5"),
        ({"max_batch": True}, "max_batch is True"),
    ],
)
def test_wrong_arguments_are_told(given: Any, more: dict[str, Any], says: str) -> None:
    with pytest.raises(BalanceError, match=says):
        made(given, **more)


@pytest.mark.parametrize("mode", ["adaptive", "static", "uniform"])
def test_alone_it_trains_as_without(given: Any, mode: str) -> None:
    """To the last bit, in every mode."""
    model, optimizer, sampler, balancer = made(given, mode=mode)
    plain = given.torch.nn.Linear(4, 1).double()
    plain.load_state_dict(model.state_dict())
    other = given.torch.optim.SGD(plain.parameters(), lr=0.1)
    data = given.torch.randn(40, 4, dtype=given.torch.float64)
    for indices in sampler:
        balancer.backward(model(data[indices]).square().mean())
        optimizer.step()
        optimizer.zero_grad()
        plain(data[indices]).square().mean().backward()
        other.step()
        other.zero_grad()
    assert all(given.torch.equal(one, two) for one, two in zip(model.parameters(), plain.parameters(), strict=True))


def test_out_of_memory_alone_is_the_error_that_it_was(given: Any, monkeypatch: Any, tmp_path: Any) -> None:
    """With a sentence that says what the next start does."""
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path))
    _, _, sampler, balancer = made(given)
    next(iter(sampler))
    with pytest.raises(given.torch.OutOfMemoryError, match="ran out of memory with 8 samples"), balancer.guard():
        raise given.torch.OutOfMemoryError("no memory")
    assert list(tmp_path.rglob("*.json"))


def test_another_error_passes_the_guard(given: Any) -> None:
    _, _, _, balancer = made(given)
    with pytest.raises(KeyError), balancer.guard():
        raise KeyError("x")


def test_what_was_trained_on_counts_not_what_was_handed_out(given: Any) -> None:
    model, _, sampler, balancer = made(given)
    drawn = iter(sampler)
    for _ in range(3):
        next(drawn)
    balancer.backward(model(given.torch.ones(8, 4, dtype=given.torch.float64)).mean())
    assert sampler.state_dict()["samples"] == 8
    assert sampler.state_dict()["batch"] == 1


def test_tokens_of_a_step_that_was_left_out_do_not_count(given: Any) -> None:
    """GradScaler leaves steps out, and scripts throw gradients away: the next gradient is a mean all the same."""
    model, optimizer, sampler, balancer = made(given)
    data = given.torch.ones(40, 4, dtype=given.torch.float64)
    found = []
    for indices in sampler:
        for part in (indices[:5], indices[5:]):  # Two exchanges make one step.
            balancer.backward(model(data[part]).mean(), tokens=len(part), samples=len(part))
        found.append(float(model.bias.grad))
        optimizer.zero_grad()
    assert found == pytest.approx([1.0] * 5, rel=1e-12)
