"""Exchange: ranks wait for one another as long as the script lets its own collectives wait, and no other time."""

import importlib
from collections.abc import Callable
from datetime import timedelta
from types import SimpleNamespace
from typing import Any

import pytest

pytestmark = [pytest.mark.e2e, pytest.mark.xdist_group("pytorch")]


class Group:
    """A process group whose backends wait as long as that, by device; None: one that does not say."""

    def __init__(self, **timeouts: timedelta | None) -> None:
        self._device_types = list(timeouts)
        self._timeouts = timeouts

    def _get_backend(self, device: str) -> Any:
        timeout = self._timeouts[device]
        if timeout is None:
            raise RuntimeError("no backend for this device")
        options = type("Options", (), {"_timeout": timeout})
        return type("Backend", (), {"options": options})


@pytest.fixture
def exchange() -> Any:
    return importlib.import_module("paceline.balance.exchange")


@pytest.mark.parametrize(
    ("timeouts", "hours"),
    [
        ({"cpu": timedelta(hours=2)}, 2),
        ({"cuda": timedelta(hours=3), "cpu": None}, 3),
        ({"cuda": timedelta(hours=1), "cpu": timedelta(hours=2)}, 2),
        ({"cuda": None}, 24),
        ({}, 24),
    ],
    ids=str,
)
def test_the_timeout_is_that_of_the_scripts_group(exchange: Any, timeouts: dict[str, Any], hours: int) -> None:
    """Of several backends the longest; of one that does not say, longer than any job waits."""
    assert exchange.timeout_of(Group(**timeouts)) == timedelta(hours=hours)


def test_what_is_no_group_of_pytorch_we_know_does_not_raise(exchange: Any) -> None:
    for strange in (None, object(), type("Group", (), {"_device_types": ["cpu"]})()):
        assert exchange.timeout_of(strange) == exchange.UNKNOWN_TIMEOUT


def test_the_exchange_is_made_with_it(exchange: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    """Ranks of a job that allows itself two hours do not end after ten minutes."""
    made: list[dict[str, Any]] = []
    monkeypatch.setattr(exchange.dist, "group", SimpleNamespace(WORLD=Group(cuda=timedelta(hours=2))))
    monkeypatch.setattr(exchange.dist, "new_group", lambda **asked: made.append(asked))
    exchange.Exchange(2)
    assert made == [{"backend": "gloo", "timeout": timedelta(hours=2)}]


def test_a_real_pause_beyond_pytorchs_own_timeout_costs_nothing(
    ranks: Callable[..., Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    """The script's group allows two hours; a group made without a timeout would have ended after two seconds."""
    monkeypatch.setenv("TEST_TIMEOUT_S", "7200")
    found = ranks("pauses.py", 2, "asked", "paused").found
    assert found["asked"] == [[7200.0, 7200.0, 1800.0]] * 2
    assert found["paused"] == [[[0.0], [1.0]]] * 2


def test_a_rank_that_hangs_ends_the_others_after_the_scripts_timeout(
    ranks: Callable[..., Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    """It hangs until they have ended: with a timeout of the exchange's own that is later, they would wait for it."""
    monkeypatch.setenv("TEST_TIMEOUT_S", "20")
    found = ranks("pauses.py", 2, "asked", "hangs", check=False).found
    assert found["asked"] == [[20.0, 20.0, 1800.0]] * 2
    kind, sentence = found["hangs"][1]
    assert kind in ("RuntimeError", "DistBackendError")
    assert "imed out" in sentence or "timeout" in sentence.lower()
