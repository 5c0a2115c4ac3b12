"""What Paceline asks of a GPU vendor's library, whichever it is; and which of them are on this machine.

Rule of this file: above it nobody knows whose GPUs they are. NVIDIA's side is in ``nvml``, AMD's in ``amd``; a
simulated library serves as well as the real one.
"""

from collections.abc import Callable, Mapping, Sequence
from typing import Any, NamedTuple, Protocol

from paceline.gpu.queries import Query
from paceline.gpu.readings import Value

#: What is told once of a device or a driver: what fills it, given the library (and the device).
Rated = Mapping[str, Callable[[Any, Any], "Value | str | bool"]]
Versions = Mapping[str, Callable[[Any], str | None]]


class AbsentError(Exception):
    """A library that cannot be used here: why, in a few words."""


class Running(NamedTuple):
    """A process on a device; ``name`` is "" where only /proc tells it."""

    pid: int
    used_bytes: int | None
    name: str = ""


class Found(NamedTuple):
    """A device that a rank named: its handle, and that of the GPU it is a part of, or None where it is all of it."""

    handle: Any
    whole: Any = None


class Driver(Protocol):
    """One vendor's library. Calls may raise what ``errors`` names, and may take as long as the driver likes."""

    #: For people: "NVML".
    name: str
    #: What the calls of ``queries``, ``rated`` and ``versions`` are given first.
    library: Any
    queries: tuple[Query, ...]
    rated: Rated
    versions: Versions
    #: Columns that this vendor has no number for, and why.
    untold: Mapping[str, str]
    #: How paths of this vendor's device files begin.
    files: tuple[str, ...]

    def open(self) -> None:
        """Connect."""

    def close(self) -> None:
        """Give everything back."""

    def count(self) -> int:
        """How many GPUs there are."""

    def handle(self, index: int) -> Any:
        """GPU ``index``."""

    def uuid(self, handle: Any) -> str:
        """Its name, as ranks and messages have it."""

    def find(self, name: str) -> Found | None:
        """The device that a rank calls ``name``; None where that is not sure."""

    def remembering(self) -> tuple[Query, ...]:
        """Questions that need what was answered before: new ones for every device."""

    def running(self, handle: Any) -> list[Running]:
        """The processes on a device."""

    def process_name(self, pid: int) -> str:
        """What the driver calls a process, or ""."""

    def errors(self) -> tuple[type[Exception], ...]:
        """What a call may raise instead of an answer."""

    def reason(self, error: Exception) -> str:
        """Why there is no answer, in a few words."""

    def is_lost(self, error: Exception) -> bool:
        """Whether ``error`` says that the whole device is gone, not only this call."""

    def is_passing(self, error: Exception) -> bool:
        """Whether the cause may pass by itself within seconds."""


#: Gives a driver that is not open yet, or raises AbsentError.
Load = Callable[[], Driver]


def opened(loads: Sequence[Load]) -> tuple[list[Driver], list[str]]:
    """The drivers that open, in the order of ``loads``, and why the others do not."""
    drivers, why = [], []
    for load in loads:
        try:
            driver = load()
        except AbsentError as error:
            why.append(str(error))
            continue
        try:
            driver.open()
        except driver.errors() as error:
            why.append(driver.reason(error))
            continue
        drivers.append(driver)
    return drivers, why
