"""The devices that a benchmark runs on: the processors as one, and each GPU that PyTorch sees.

Rule of this file: PyTorch is an argument here, imported by whoever asks for devices. A GPU's name is the one that
events have for it.
"""

from dataclasses import dataclass
from typing import Any

from paceline.gpu.uuids import canonical
from paceline.rated import CPU

from .timing import EventTimer, Timer, host_timer

WITHOUT_TORCH = "needs PyTorch: install it here, or measure in the Python that trains"


class UnmeasuredError(RuntimeError):
    """What cannot be measured here, and why: no fault."""


class DeviceError(ValueError):
    """A device that was asked for and is not there: the cause and the mend."""


@dataclass(frozen=True)
class Target:
    """One device: ``name`` is its UUID, or ``cpu``; ``model`` what people call it."""

    torch: Any
    device: Any
    name: str
    model: str
    timer: Timer
    index: int | None = None

    @property
    def is_gpu(self) -> bool:
        """Whether it is a GPU: its own clock, its own memory."""
        return self.index is not None

    def release(self) -> None:
        """Give memory back that PyTorch keeps for later."""
        if self.is_gpu:
            self.torch.cuda.empty_cache()


def targets(torch: Any, asked: str | None, cpu_model: str) -> list[Target]:
    """The devices that ``asked`` names (``cpu``, ``cuda``, ``cuda:N``); None: every GPU, else the CPU.

    Raises:
        DeviceError: there is no such device.
    """
    count = torch.cuda.device_count() if torch.cuda.is_available() else 0
    if asked == "cpu" or (asked is None and not count):
        return [Target(torch, torch.device("cpu"), CPU, cpu_model, host_timer)]
    if not count:
        raise DeviceError(
            f"--device {asked}: PyTorch {torch.__version__} sees no GPU here; nvidia-smi tells the driver's"
        )
    if asked in (None, "cuda"):
        return [_gpu(torch, index) for index in range(count)]
    index = int(str(asked).partition(":")[2])
    if index >= count:
        raise DeviceError(f"--device {asked}: PyTorch sees {count} GPUs, cuda:0 to cuda:{count - 1}")
    return [_gpu(torch, index)]


def _gpu(torch: Any, index: int) -> Target:
    device = torch.device("cuda", index)
    told = torch.cuda.get_device_properties(device)
    uuid = getattr(told, "uuid", None)
    name = (canonical(f"GPU-{uuid}") if uuid else None) or f"cuda:{index}"
    return Target(torch, device, name, str(told.name), EventTimer(torch, device), index)
