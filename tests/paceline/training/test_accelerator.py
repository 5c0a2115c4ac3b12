"""Which devices are timed by events: CUDA's and ROCm's, and others that PyTorch's accelerator interface can time."""

from types import SimpleNamespace
from typing import Any

import pytest

from paceline.training import accelerator
from paceline.training.accelerator import accelerator_of


class Other:
    """A PyTorch whose accelerator is an ``xpu``; ``able`` says what its events can do."""

    def __init__(self, able: str) -> None:
        self.able, self.threads = able, []
        self.accelerator = SimpleNamespace(
            current_accelerator=lambda: SimpleNamespace(type="xpu"),
            current_stream=lambda device: SimpleNamespace(stream_id=7),
            set_device_index=self.threads.append,
        )

    def Event(self, device: Any, enable_timing: bool) -> Any:  # noqa: N802 - torch's name
        if self.able == "none":
            raise NotImplementedError("xpu has no events")
        event = SimpleNamespace(record=lambda stream: None)
        if self.able == "time":
            event.elapsed_time = lambda other: 0.0
        return event


def device(kind: str, index: "int | None" = 1) -> Any:
    return SimpleNamespace(type=kind, index=index)


def test_another_accelerator_is_timed_by_its_events() -> None:
    """Its streams are asked for by device, and the thread that asks says which device it means."""
    torch = Other("time")
    found = accelerator_of(torch, device("xpu"))
    assert found is not None
    assert found.current_stream().stream_id == 7
    assert not found.capturing()
    found.adopt_thread()
    assert torch.threads == [1]


@pytest.mark.parametrize("able", ["none", "order"])
def test_a_device_whose_events_tell_no_time_keeps_the_hosts_clock(able: str) -> None:
    """Nothing fails, and nothing is claimed."""
    assert accelerator_of(Other(able), device("xpu")) is None


@pytest.mark.parametrize("kind", ["cpu", "mps", "meta"])
def test_what_is_no_accelerator_of_this_pytorch_keeps_the_hosts_clock(kind: str) -> None:
    """A CPU, and a device type that is not the accelerator here."""
    assert accelerator_of(Other("time"), device(kind)) is None
    assert accelerator_of(SimpleNamespace(), device(kind)) is None
    assert accelerator_of(Other("time"), None) is None


def test_a_device_without_its_number_is_the_current_one() -> None:
    """As the training thread has it, for the thread that asks later may stand elsewhere."""
    torch = SimpleNamespace(
        cuda=SimpleNamespace(current_device=lambda: 2, current_stream=lambda device: device.index),
        device=device,
    )
    found = accelerator_of(torch, device("cuda", None))
    assert found is not None
    assert found.device.index == found.current_stream() == 2


@pytest.mark.parametrize("runtime", ["cuda", "hip"])
def test_the_thread_that_asks_leaves_captures_on_others_alone(monkeypatch: pytest.MonkeyPatch, runtime: str) -> None:
    """By the call that CUDA and HIP have for it, after naming its device; also for captures that nobody tells us of."""
    calls: list[object] = []
    exchange = {f"{runtime}ThreadExchangeStreamCaptureMode": lambda mode: calls.append(mode._obj.value)}
    monkeypatch.setattr(accelerator.ctypes, "CDLL", lambda name: SimpleNamespace(**exchange))
    torch = SimpleNamespace(cuda=SimpleNamespace(set_device=lambda named: calls.append(named.index)))
    found = accelerator_of(torch, device("cuda", 5))
    assert found is not None
    found.adopt_thread()
    assert calls == [5, 1]


def test_a_runtime_without_that_call_is_no_harm(monkeypatch: pytest.MonkeyPatch) -> None:
    """Captures of PyTorch's own are known without it."""
    monkeypatch.setattr(accelerator.ctypes, "CDLL", lambda name: SimpleNamespace())
    torch = SimpleNamespace(cuda=SimpleNamespace(set_device=lambda named: None))
    found = accelerator_of(torch, device("cuda", 0))
    assert found is not None
    found.adopt_thread()
