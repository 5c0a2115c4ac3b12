"""The instances of GPUs under MIG: each a device of its own, with the GPU that it is a part of named.

Rule of this file: an instance tells what is its own, its memory and its processes. What only the whole GPU has (power,
temperature, clocks, errors) is told of that, in its own rows, and here not measured with that reason; what nobody has
(utilisation) neither. NVML refuses these questions of an instance, so they are not asked.
"""

import math
from collections.abc import Sequence
from typing import Any

from paceline.gpu.answers import Answers
from paceline.gpu.driver import Driver, Rated
from paceline.gpu.nvml import text
from paceline.gpu.queries import QUERIES, UnanswerableError
from paceline.gpu.readings import whole
from paceline.gpu.sample_rows import DEVICE_COLUMNS as COLUMNS
from paceline.gpu.sample_rows import Row

from .device import Device

_MEMORY = next(query for query in QUERIES if query.question == "fb_used_bytes")
#: No GPU is split into more; A100 to B200 have 7.
_MOST = 64


def profile(compute_slices: int, gpu_slices: int, memory_mib: int, whole_mib: int) -> str:
    """The size of an instance as NVIDIA writes it; a compute instance that is not all of its GPU instance stands first.

    The memory in its name is in eighths of the whole GPU's, as NVIDIA's go-nvlib counts it: the driver keeps some.

    >>> profile(1, 1, 9856, 81559), profile(2, 3, 40192, 81559)
    ('1g.10gb', '2c.3g.40gb')

    Raises:
        UnanswerableError: a GPU without memory, an instance without slices.
    """
    if whole_mib <= 0 or not 0 < compute_slices <= gpu_slices:
        raise UnanswerableError("the driver gives no size")
    eighths = round(8 * memory_mib / whole_mib)
    part = "" if compute_slices == gpu_slices else f"{compute_slices}c."
    return f"{part}{gpu_slices}g.{round(eighths * math.ceil(whole_mib / 1024) / 8)}gb"


def _profile(nvml: Any, handle: Any) -> str:
    told = nvml.nvmlDeviceGetAttributes_v2(handle)
    gpu = nvml.nvmlDeviceGetDeviceHandleFromMigDeviceHandle(handle)
    whole_mib = nvml.nvmlDeviceGetMemoryInfo(gpu).total // 1024**2
    return profile(told.computeInstanceSliceCount, told.gpuInstanceSliceCount, told.memorySizeMB, whole_mib)


#: What an instance is rated at: the fields of DeviceDescribed that are its own.
RATED: Rated = {
    "name": lambda nvml, handle: text(nvml.nvmlDeviceGetName(handle)),
    "memory_total_bytes": lambda nvml, handle: whole(nvml.nvmlDeviceGetMemoryInfo(handle).total),
    "profile": _profile,
}


class MigInstance:
    """An instance and all that is remembered of it between rows."""

    def __init__(self, driver: Driver, index: int, handle: Any, uuid: str, parent: str) -> None:
        self.index, self.handle, self.uuid, self.parent = index, handle, uuid, parent
        self._answers = Answers(driver, handle)

    @property
    def lost(self) -> str | None:
        """Why the instance is gone, or None."""
        return self._answers.lost

    def sample(self, now_s: float) -> Row:
        """One row at ``now_s``, seconds of a monotonic clock."""
        row: Row = dict.fromkeys(COLUMNS)
        self._answers.lost = None
        values = self._answers.ask(_MEMORY, now_s)
        if values is not None:
            row |= zip(_MEMORY.columns, values, strict=True)
        return row

    def reasons(self) -> dict[str, str]:
        """Why columns are not measured, by column."""
        own = self.lost or self._answers.reason(_MEMORY.question)
        reasons = dict.fromkeys(COLUMNS, f"measured for the whole GPU, {self.parent}")
        for column in _MEMORY.columns:
            del reasons[column]
        return reasons | self._answers.impossible if own is None else reasons | dict.fromkeys(_MEMORY.columns, own)

    def close(self) -> None:
        """NVML holds nothing for it."""


def instances(driver: Driver, gpus: Sequence[Device], first: int) -> list[MigInstance]:
    """The instances of ``gpus``, which learn whether MIG is on; numbers count on from ``first``."""
    found: list[MigInstance] = []
    for gpu in gpus:
        gpu.mig = _mig_is_on(driver, gpu.handle)
        for handle, uuid in _parts(driver, gpu.handle) if gpu.mig else ():
            found.append(MigInstance(driver, first + len(found), handle, uuid, gpu.uuid))
    return found


def _mig_is_on(driver: Driver, handle: Any) -> bool:
    ask = driver.rated.get("mig")
    if ask is None:
        return False
    try:
        return bool(ask(driver.library, handle))
    except driver.errors():
        return False


def _parts(driver: Driver, handle: Any) -> list[tuple[Any, str]]:
    """(handle, UUID) of the instances of a GPU; places without one are left out."""
    nvml, parts = driver.library, []
    try:
        most = min(nvml.nvmlDeviceGetMaxMigDeviceCount(handle), _MOST)
    except driver.errors():
        return []
    for place in range(most):
        try:
            part = nvml.nvmlDeviceGetMigDeviceHandleByIndex(handle, place)
            parts.append((part, driver.uuid(part)))
        except driver.errors():
            continue
    return parts
