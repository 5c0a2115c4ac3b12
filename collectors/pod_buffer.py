"""The pods that hold this node's GPUs, in what is said of the node: asked beside the sampling, said when they change.

Rule of this file: no sample and no message waits for a kubelet. ``look`` runs in a thread of its own and is the only
part that waits; all else hands over what was seen last. The kubelet tells pods by name. Where it does not, the cgroups
of the processes on the GPUs tell them by UID, once it has been silent for longer than a restart takes.
"""

import logging
import time
from collections.abc import Callable
from typing import Any

from .adding_buffer import AddingBuffer
from .buffers import DeviceBuffer
from .device_names import Holders
from .pod_devices import Names, Told, of_processes, told
from .pod_resources import PodResources, PodResourcesError

log = logging.getLogger("paceline.collect.pods")
#: Seconds between two questions; at least so many, when other processes are on the GPUs than before.
LOOK_S, SOON_S = 10.0, 2.0
#: Seconds that what a kubelet said stays true while it says nothing: as long as a restart of it takes.
KEEP_S = 60.0
_NOBODY = Told([], None)


class PodBuffer(AddingBuffer[Told]):
    """``devices``, and which pods hold them. ``expected``: somebody has said that there is a ``kubelet``."""

    def __init__(
        self,
        devices: DeviceBuffer,
        kubelet: PodResources | None,
        *,
        expected: bool = False,
        now: Callable[[], float] = time.monotonic,
    ) -> None:
        super().__init__(devices, _NOBODY)
        self._kubelet = kubelet
        self._expected = expected
        self._now = now
        self._seen: Holders | None = None
        self._looked_s = self._answered_s = float("-inf")
        self._away: str | None = None

    def look(self) -> None:
        """Ask who holds the devices, if it is time."""
        holders, now_s = self._devices.holders(), self._now()
        if not self._is_due(holders, now_s):
            return
        self._seen, self._looked_s = holders, now_s
        self._find(self._ask(holders, now_s) if holders.names else _NOBODY)

    def _is_due(self, holders: Holders, now_s: float) -> bool:
        if self._seen is None or self._seen.names != holders.names:
            return True
        changed = self._seen.processes != holders.processes
        return now_s - self._looked_s >= (SOON_S if changed else LOOK_S)

    def _ask(self, holders: Holders, now_s: float) -> Told:
        why = None
        if self._kubelet is not None:
            try:
                held = self._kubelet.ask()
            except PodResourcesError as error:
                why = self._say_away(error, holders)
                if now_s - self._answered_s < KEEP_S:
                    return self._found
            else:
                self._say_back(now_s)
                return told(held, Names(holders.names))
        pods = of_processes(holders.uids)
        return Told(pods, f"names of pods: {why}" if why and pods else why)

    def _say_away(self, error: PodResourcesError, holders: Holders) -> str | None:
        """The reason; None where nothing tells of Kubernetes, as on most nodes."""
        if error.absent and not (self._expected or holders.uids or self._answered_s > float("-inf")):
            return None
        if self._away is None:
            log.warning("the kubelet does not report pods: %s", error)
        self._away = str(error)
        return self._away

    def _say_back(self, now_s: float) -> None:
        self._answered_s = now_s
        if self._away is not None:
            log.warning("the kubelet tells pods again")
            self._away = None

    def _fields(self, found: Told) -> tuple[dict[str, Any], dict[str, str]]:
        return {"pods": found.pods}, {} if found.why_not is None else {"pods": found.why_not}

    def close(self) -> None:
        """Give everything back."""
        if self._kubelet is not None:
            self._kubelet.close()
        super().close()
