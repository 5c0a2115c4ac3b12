"""XIDs, the driver's error reports, as events: each is published in exactly one row.

Rule of this file: it never waits. A row's 0 says that it listened and nothing came; None that it could not listen.
"""

from collections import deque
from typing import Any

#: XIDs kept until their row comes; a broken GPU may report thousands, and the first ones tell the cause.
MOST = 64


class XidListener:
    """The XIDs of one device, by an event set of its own: a lost device could not be told by its events."""

    def __init__(self) -> None:
        self._events: Any = None
        self._waiting: deque[int] = deque()

    def ask(self, nvml: Any, device: Any) -> tuple[int]:
        """The oldest XID not yet told, or 0.

        Raises:
            NVMLError: it cannot listen.
        """
        if self._events is None:
            events = nvml.nvmlEventSetCreate()
            try:
                nvml.nvmlDeviceRegisterEvents(device, nvml.nvmlEventTypeXidCriticalError, events)
            except nvml.NVMLError:
                nvml.nvmlEventSetFree(events)
                raise
            self._events = events
        try:
            self._drain(nvml)
        except nvml.NVMLError:
            if not self._waiting:
                raise
        return (self._waiting.popleft() if self._waiting else 0,)

    def _drain(self, nvml: Any) -> None:
        while len(self._waiting) < MOST:
            try:
                event = nvml.nvmlEventSetWait(self._events, 0)
            except nvml.NVMLError as error:
                if error.value == nvml.NVML_ERROR_TIMEOUT:
                    return
                raise
            if event.eventType == nvml.nvmlEventTypeXidCriticalError:
                self._waiting.append(int(event.eventData))

    def close(self, nvml: Any) -> None:
        """Stop listening."""
        if self._events is not None:
            nvml.nvmlEventSetFree(self._events)
            self._events = None
