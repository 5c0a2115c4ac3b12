"""One accelerator as PyTorch offers it: its events and its current stream, wherever the calling thread stands.

Rule of this file: it asks PyTorch and remembers nothing of training. A script may never have called ``set_device``, and
a thread that has not stands on device 0: an event recorded there makes a context of hundreds of megabytes on a GPU
that belongs to another rank. So every stream is asked for by its device, and a thread that asks after events says first
which device it means.
"""

import ctypes
from typing import Any

#: ``cudaStreamCaptureModeThreadLocal``: what this thread does is no business of captures on others.
_THREAD_LOCAL = 1
#: The same call in CUDA's runtime and in HIP's, whichever PyTorch has loaded.
_EXCHANGE_MODE = ("cudaThreadExchangeStreamCaptureMode", "hipThreadExchangeStreamCaptureMode")


class Accelerator:
    """Streams and events of ``device``: one of CUDA's or ROCm's, or another that ``torch.accelerator`` knows."""

    def __init__(self, torch: Any, device: Any) -> None:
        self._of = torch.cuda if device.type == "cuda" else torch.accelerator
        self._torch, self.device = torch, device
        self._cuda = device.type == "cuda"

    def new_event(self) -> Any:
        """An event that tells time."""
        if self._cuda:
            return self._torch.cuda.Event(enable_timing=True)
        return self._torch.Event(device=self.device, enable_timing=True)

    def current_stream(self) -> Any:
        """The calling thread's current stream of this device."""
        return self._of.current_stream(self.device)

    def capturing(self) -> bool:
        """Whether the calling thread's current stream is being captured; only CUDA and ROCm have graphs to ask for."""
        return bool(self._cuda and self._torch.cuda.is_current_stream_capturing())

    def adopt_thread(self) -> None:
        """The calling thread means this device, and captures on other threads are none of its business."""
        if self._cuda:
            self._torch.cuda.set_device(self.device)
            _leave_captures_alone()
        else:
            self._torch.accelerator.set_device_index(self.device.index or 0)

    def tells_time(self) -> bool:
        """Whether two events can be recorded and compared at all; not every accelerator's can."""
        try:
            first, second = self.new_event(), self.new_event()
            first.record(self.current_stream())
            second.record(self.current_stream())
        except Exception:
            return False
        return hasattr(first, "elapsed_time")


def accelerator_of(torch: Any, device: Any) -> "Accelerator | None":
    """The accelerator that ``device`` names, None where it is none or its events tell no time."""
    if device is None or device.type == "cpu":
        return None
    if device.type == "cuda":
        named = device if device.index is not None else torch.device("cuda", torch.cuda.current_device())
        return Accelerator(torch, named)
    offered = getattr(torch, "accelerator", None)
    current = offered.current_accelerator() if offered is not None else None
    if current is None or current.type != device.type:
        return None
    found = Accelerator(torch, device)
    return found if found.tells_time() else None


def _leave_captures_alone() -> None:
    """Put this thread's capture mode to thread local, by the runtime that PyTorch has loaded into this process."""
    for name in _EXCHANGE_MODE:
        exchange = getattr(ctypes.CDLL(None), name, None)
        if exchange is not None:
            exchange(ctypes.byref(ctypes.c_int(_THREAD_LOCAL)))
            return
