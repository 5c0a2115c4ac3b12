"""What each layer takes: forward and backward of each, by hooks that are there only while asked for."""

import math
from typing import Any

import pytest

torch = pytest.importorskip("torch")
from paceline.balance import layer_costs, pipeline_example  # noqa: E402
from paceline.balance.errors import BalanceError  # noqa: E402
from paceline.balance.layer_costs import LayerCosts, error_of_median, reference_s  # noqa: E402
from paceline.balance.pipeline_example import Layer  # noqa: E402

pytestmark = [pytest.mark.e2e, pytest.mark.xdist_group("pytorch")]
CPU = torch.device("cpu")


class Clock:
    """In place of ``time``: what sleeps takes exactly so long, and what computes takes nothing."""

    def __init__(self) -> None:
        self.now_s = 0.0

    def perf_counter(self) -> float:
        return self.now_s

    def sleep(self, seconds: float) -> None:
        self.now_s += seconds


@pytest.fixture(autouse=True)
def clock(monkeypatch: pytest.MonkeyPatch) -> Clock:
    made = Clock()
    for module in (layer_costs, pipeline_example):
        monkeypatch.setattr(module, "time", made)
    return made


def passed(layers: list[Any], passes: int, needs_gradient: bool = False, most: int = 8) -> LayerCosts:
    """The costs of ``layers`` after so many micro-batches there and back."""
    costs = LayerCosts(layers, CPU, most)
    with costs.sampling():
        for _ in range(passes):
            x = torch.randn(4, 32, requires_grad=needs_gradient)
            for layer in layers:
                x = layer(x)
            x.sum().backward()
    return costs


@pytest.mark.parametrize("needs_gradient", [False, True])
def test_each_layer_gets_its_own_time(needs_gradient: bool) -> None:
    """30, 3 and 90 ms there and back, on the first stage and on others."""
    took, errors = passed([Layer(30, 0), Layer(3, 1), Layer(90, 2)], 4, needs_gradient).seconds()
    assert took == pytest.approx([0.03, 0.003, 0.09])
    assert errors == pytest.approx([0.0] * 3)


def test_so_many_are_timed_and_then_no_hook_is_left() -> None:
    """What is passed after the last one that is timed spoils none of them."""
    layers = [Layer(0, 0), Layer(0, 1)]
    costs = passed(layers, 5, most=2)
    assert [one.whole for one in costs.passes] == [True, True]
    began = costs.passes[-1].last
    layers[1](layers[0](torch.randn(4, 32))).sum().backward()
    assert costs.passes[-1].last == began
    assert not any(layer._forward_hooks or layer._forward_pre_hooks for layer in layers)


def test_microbatches_on_their_way_together_are_kept_apart(clock: Clock) -> None:
    """As 1F1B has them: two there, then two back."""
    layer = Layer(6, 0)
    costs = LayerCosts([layer], CPU)
    with costs.sampling():
        losses = [layer(torch.randn(4, 32)).sum() for _ in range(2)]
        clock.sleep(0.5)
        for loss in losses:
            loss.backward()
    assert costs.seconds()[0] == pytest.approx([0.006])


def test_frozen_layers_have_no_backward() -> None:
    frozen = Layer(30, 0).requires_grad_(False)
    took, _ = passed([frozen, Layer(30, 1)], 3).seconds()
    assert took == pytest.approx([0.01, 0.03])


def test_what_was_never_passed_is_no_number() -> None:
    took, errors = LayerCosts([Layer(0, 0)], CPU).seconds()
    assert all(math.isnan(one) for one in took + errors)


def test_a_layer_must_give_one_tensor() -> None:
    with pytest.raises(BalanceError, match=r"layer 0 \(LSTM\) gives no single tensor"):
        passed([torch.nn.LSTM(32, 32)], 1)


def test_a_reference_is_the_median(clock: Clock) -> None:
    took, error = reference_s(lambda: clock.sleep(0.002), CPU, times=5)
    assert (took, error) == (pytest.approx(0.002), pytest.approx(0.0))
    assert math.isnan(error_of_median([1.0]))
