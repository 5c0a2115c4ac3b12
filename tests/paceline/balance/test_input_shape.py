"""Which batch a loss is of: the model's input says how many samples it has, where it begins with them."""

import importlib
from typing import Any

import pytest

from paceline.balance.errors import BalanceError
from paceline.balance.handout import Handed, Piece
from paceline.balance.parts import Part
from paceline.balance.plan import Plan

pytestmark = [pytest.mark.e2e, pytest.mark.xdist_group("pytorch")]


@pytest.fixture(scope="module")
def torch() -> Any:
    return importlib.import_module("torch")


@pytest.fixture
def shape() -> Any:
    return importlib.import_module("paceline.balance.input_shape").InputShape()


def piece(samples: int) -> Piece:
    plan = Plan(0, 0, (samples, samples))
    return Piece(Handed(0, 0, Part(0, 2 * samples, 0, samples), plan), samples, samples, True)


def test_samples_lead(torch: Any, shape: Any) -> None:
    """In the first tensor, wherever that is; a second call before the loss is none of it."""
    for args, kwargs in (
        ((torch.ones(8, 3),), {}),
        ((), {"input_ids": torch.ones(8, 3), "mask": torch.ones(1)}),
        (({"x": [torch.ones(8, 3)]},), {}),
        ((None, "text", torch.ones(8)), {}),
    ):
        shape.see(args, kwargs)
        shape.see((torch.ones(5),), {})
        shape.check(piece(8), guess=True)


def test_another_batch_is_told(torch: Any, shape: Any) -> None:
    shape.see((torch.ones(8, 3),), {})
    shape.check(piece(8), guess=True)
    shape.see((torch.ones(8, 3),), {})
    with pytest.raises(BalanceError, match="this rank has 6 samples, and the model's input had 8"):
        shape.check(piece(6), guess=True)


def test_a_slice_of_a_batch_wants_its_number(torch: Any, shape: Any) -> None:
    shape.see((torch.ones(4, 3),), {})
    with pytest.raises(BalanceError, match=r"samples=len\(x\)"):
        shape.check(piece(8), guess=True)
    shape.see((torch.ones(4, 3),), {})
    shape.check(piece(4), guess=False)


@pytest.mark.parametrize("dimensions", [(32, 8), (1, 4096), (4096,), (9, 3), ()])
def test_where_samples_do_not_lead_order_counts_alone(torch: Any, shape: Any, dimensions: tuple[int, ...]) -> None:
    """Sequences first, all tokens in one row, or no tensor of any size."""
    for samples in (8, 5, 7):
        shape.see((torch.ones(dimensions),), {})
        shape.check(piece(samples), guess=True)


def test_sequences_first_that_happen_to_be_as_many_as_samples(torch: Any, shape: Any) -> None:
    """Known once a plan changes the number of samples: the other dimension went along."""
    shape.see((torch.ones(8, 8),), {})
    shape.check(piece(8), guess=True)
    for samples in (6, 3):
        shape.see((torch.ones(8, samples),), {})
        shape.check(piece(samples), guess=True)


def test_a_model_without_tensors_is_not_asked(shape: Any) -> None:
    shape.see(("text",), {"n": 3})
    shape.check(piece(8), guess=True)
