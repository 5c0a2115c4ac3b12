"""Fetching data, by a stand-in for PyTorch's loader."""

from collections.abc import Callable
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest

from paceline.training.hooks import loader
from paceline.training.probe import Probe


def fetching(monkeypatch: pytest.MonkeyPatch, sampler: object) -> tuple[Probe, Callable[[], Any]]:
    """A probe, and what fetches a batch by ``sampler``."""
    monkeypatch.setattr(loader, "skip_frame", lambda _: None)

    class Fetching:
        _index_sampler = sampler

        def __next__(self) -> str:
            return "batch"

    torch = SimpleNamespace(
        utils=SimpleNamespace(data=SimpleNamespace(dataloader=SimpleNamespace(_BaseDataLoaderIter=Fetching))),
        compiler=SimpleNamespace(is_dynamo_compiling=lambda: False),
        is_grad_enabled=lambda: True,
    )
    probe = Probe()
    loader.install(probe, torch)
    return probe, Fetching().__next__


class Raises:
    """A sampler that has no batch size yet."""

    @property
    def batch_size(self) -> int:
        raise RuntimeError("not set up")


@pytest.mark.parametrize(
    ("given", "expected"),
    [(8, 8), (np.int64(8), 8), *((other, None) for other in (8.0, "8", [4, 4], True, 0, -1, 2**60, None))],
)
def test_a_batch_size_is_a_whole_number_or_not_known(
    monkeypatch: pytest.MonkeyPatch, given: object, expected: int | None
) -> None:
    """The sampler may be the script's own, and call so what it likes."""
    probe, fetch = fetching(monkeypatch, SimpleNamespace(batch_size=given))
    assert fetch() == "batch"
    assert probe.batch_size == expected
    assert type(probe.batch_size) in (int, type(None))


@pytest.mark.parametrize("sampler", [Raises(), None])
def test_a_sampler_that_cannot_be_asked_fails_no_fetch(monkeypatch: pytest.MonkeyPatch, sampler: object) -> None:
    """Its error is not the script's."""
    probe, fetch = fetching(monkeypatch, sampler)
    assert fetch() == "batch"
    assert (probe.batch_size, probe.stopped) == (None, False)


def test_fetches_without_steps_keep_few_marks(monkeypatch: pytest.MonkeyPatch) -> None:
    """As an inference over a whole data set."""
    probe, fetch = fetching(monkeypatch, None)
    for _ in range(probe.most):
        fetch()
    assert len(probe.ring) <= probe.most + 2
    assert probe.lost == 2 * probe.most - len(probe.ring)
