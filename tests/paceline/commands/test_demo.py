"""How the demo ends when a signal ends it."""

import signal
from collections.abc import Iterator
from typing import Any

import pytest

from paceline.commands import demo


@pytest.fixture(autouse=True)
def handlers() -> Iterator[None]:
    before = {number: signal.getsignal(number) for number in (signal.SIGINT, signal.SIGTERM)}
    yield
    for number, handler in before.items():
        signal.signal(number, handler)


@pytest.mark.parametrize(("number", "status"), [(signal.SIGINT, 130), (signal.SIGTERM, 143)])
def test_the_status_is_the_signals_as_a_shell_counts_it(
    monkeypatch: pytest.MonkeyPatch, number: signal.Signals, status: int
) -> None:
    """Whoever sent SIGTERM sees that it was it."""

    def interrupted(_: Any) -> int:
        signal.raise_signal(number)
        return 0

    monkeypatch.setattr(demo, "_demo", interrupted)
    assert demo.main([]) == status
