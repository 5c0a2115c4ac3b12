"""Reads what this machine has: processors and memory nodes from /sys, GPUs and what lies between them from NVML.

Rule of this file: a door. What cannot be read is left out, with a reason; nothing is decided here. Paths and the
library are arguments, so that another machine can be shown.
"""

import os
import socket
from collections.abc import Mapping
from itertools import combinations
from pathlib import Path
from typing import Any

from paceline import rated as rated_file
from paceline.gpu import nvml
from paceline.gpu.driver import Driver, Load, opened
from paceline.identity import node_of

from .spec import numbers_of
from .topology import DISTANCES, Gpu, Topology

SYS = Path("/sys")
#: NVML's words for the common ancestor of two GPUs, by our distance.
_LEVELS = {
    "NVML_TOPOLOGY_INTERNAL": "internal",
    "NVML_TOPOLOGY_SINGLE": "single",
    "NVML_TOPOLOGY_MULTIPLE": "multiple",
    "NVML_TOPOLOGY_HOSTBRIDGE": "hostbridge",
    "NVML_TOPOLOGY_NODE": "node",
    "NVML_TOPOLOGY_SYSTEM": "system",
}
MOST_GPUS, MOST_LINKS = 64, 36
#: Rated speeds that a split may follow, the first that all GPUs have.
RATED_NAMES = ("gemm_bfloat16", "gemm_float16", "gemm_tf32", "gemm_float32")


def topology(
    sys: Path = SYS,
    allowed: tuple[int, ...] | None = None,
    load: Load | None = None,
    environ: Mapping[str, str] | None = None,
) -> Topology:
    """This machine; ``allowed`` are the CPUs that we may use, ``load`` gives NVML's driver.

    Where ``environ`` has ``CUDA_VISIBLE_DEVICES``, the other GPUs are somebody else's.
    """
    numa = numa_nodes(sys)
    cpus = tuple(sorted(os.sched_getaffinity(0))) if allowed is None else allowed
    why: list[str] = []
    gpus: tuple[Gpu, ...] = ()
    distance: dict[tuple[int, int], int] = {}
    drivers, reasons = opened([load or nvml.load])
    why.extend(reasons)
    for driver in drivers:
        try:
            gpus, distance = _gpus(driver, sys, numa, why)
        except driver.errors() as error:
            why.append(driver.reason(error))
        finally:
            driver.close()
    ours = _granted(gpus, (os.environ if environ is None else environ).get("CUDA_VISIBLE_DEVICES"))
    if len(ours) < len(gpus):
        why.append(f"CUDA_VISIBLE_DEVICES leaves {len(ours)} of {len(gpus)} GPUs")
    return Topology(ours, distance, cpus, numa, _siblings(sys), tuple(why))


def _granted(gpus: tuple[Gpu, ...], visible: str | None) -> tuple[Gpu, ...]:
    """Those that ``CUDA_VISIBLE_DEVICES`` names, by number or by the beginning of their UUID; all where it is unset."""
    if visible is None:
        return gpus
    names = [name.strip() for name in visible.split(",") if name.strip()]
    named = [name for name in names if name.startswith("GPU-")]
    return tuple(gpu for gpu in gpus if str(gpu.index) in names or any(gpu.uuid.startswith(name) for name in named))


def numa_nodes(sys: Path = SYS) -> dict[int, tuple[int, ...]]:
    """The CPUs of each memory node."""
    found = {}
    for path in sys.glob("devices/system/node/node*"):
        cpus = _set(path / "cpulist")
        if path.name[4:].isdigit() and cpus:
            found[int(path.name[4:])] = cpus
    return dict(sorted(found.items()))


def numa_cpus(node: int, sys: Path = SYS) -> tuple[int, ...] | None:
    """The CPUs of one memory node that we may use; None where it is not told."""
    return tuple(sorted({*numa_nodes(sys).get(node, ())} & os.sched_getaffinity(0))) or None


def _siblings(sys: Path) -> tuple[tuple[int, ...], ...]:
    found = {_set(path) for path in sys.glob("devices/system/cpu/cpu[0-9]*/topology/thread_siblings_list")}
    return tuple(sorted(found - {()}))


def _set(path: Path) -> tuple[int, ...]:
    """A list of CPUs as the kernel writes it; nothing where it cannot be read."""
    try:
        text = path.read_text(encoding="ascii").strip()
        return (numbers_of(text) or ()) if text else ()
    except (OSError, ValueError):
        return ()


def _gpus(
    driver: Driver, sys: Path, numa: dict[int, tuple[int, ...]], why: list[str]
) -> tuple[tuple[Gpu, ...], dict[tuple[int, int], int]]:
    """All GPUs, and how far each two are apart."""
    errors, library = driver.errors(), driver.library
    handles: dict[int, Any] = {}
    gpus = []
    for index in range(min(driver.count(), MOST_GPUS)):
        try:
            handles[index] = driver.handle(index)
            gpus.append(_gpu(driver, index, handles[index], sys, numa))
        except errors as error:
            handles.pop(index, None)
            why.append(f"GPU {index}: {driver.reason(error)}")
    buses = {index: linked(library, handle, errors) for index, handle in handles.items()}
    addresses = {index: address(library, handle, errors) for index, handle in handles.items()}
    pairs = combinations(handles, 2)
    apart = {pair: _distance(driver, handles, pair, addresses, buses) for pair in pairs}
    return tuple(gpus), {pair: found for pair, found in apart.items() if found is not None}


def _gpu(driver: Driver, index: int, handle: Any, sys: Path, numa: dict[int, tuple[int, ...]]) -> Gpu:
    rated = {}
    for name in ("name", "pci_bus_id", "mig"):
        try:
            rated[name] = driver.rated[name](driver.library, handle)
        except driver.errors():
            rated[name] = ""
    node = _numa_of(sys, str(rated["pci_bus_id"]))
    return Gpu(
        index,
        driver.uuid(handle),
        str(rated["name"]),
        node,
        numa.get(node, ()) if node is not None else (),
        bool(rated["mig"]),
    )


def _numa_of(sys: Path, bus: str) -> int | None:
    """The memory node of a PCI device; NVML writes the domain with eight digits, the kernel with four."""
    domain, _, rest = bus.lower().partition(":")
    try:
        node = int((sys / "bus/pci/devices" / f"{domain[-4:]}:{rest}" / "numa_node").read_text(encoding="ascii"))
    except (OSError, ValueError):
        return None
    return node if node >= 0 else None


def linked(library: Any, handle: Any, errors: tuple[type[Exception], ...]) -> set[str]:
    """The PCI addresses that a GPU's active NVLinks lead to; NVSwitches, for a GPU that hangs from these."""
    found = set()
    for link in range(MOST_LINKS):
        try:
            if library.nvmlDeviceGetNvLinkState(handle, link):
                found.add(str(library.nvmlDeviceGetNvLinkRemotePciInfo(handle, link).busId).lower())
        except errors:  # No such link, one that is down, or one that does not tell where it leads.
            continue
    return found


def address(library: Any, handle: Any, errors: tuple[type[Exception], ...]) -> str:
    """The PCI address of a GPU, or ""."""
    try:
        return str(library.nvmlDeviceGetPciInfo(handle).busId).lower()
    except errors:
        return ""


def _distance(
    driver: Driver,
    handles: dict[int, Any],
    pair: tuple[int, int],
    addresses: dict[int, str],
    buses: dict[int, set[str]],
) -> int | None:
    """NVLink, direct or by a switch that both hang from, else the common ancestor on PCIe."""
    library, (one, other) = driver.library, pair
    switches = (buses[one] & buses[other]) - {*addresses.values()}
    if switches or addresses[one] in buses[other] or addresses[other] in buses[one]:
        return DISTANCES.index("nvlink")
    try:
        level = library.nvmlDeviceGetTopologyCommonAncestor(handles[one], handles[other])
    except driver.errors():
        return None
    named = {getattr(library, name): word for name, word in _LEVELS.items() if hasattr(library, name)}
    return DISTANCES.index(named[level]) if level in named else None


def rated(here: Topology) -> dict[int, float] | None:
    """What ``paceline benchmark`` measured each GPU of this machine at, where it did all of them by the same speed."""
    held = rated_file.read(rated_file.path_of(os.environ, node_of(os.environ, socket.gethostname())))
    if held is None:
        return None
    for name in RATED_NAMES:
        speeds = {gpu.index: held.of(gpu.uuid, name) for gpu in here.gpus}
        if speeds and None not in speeds.values():
            return {index: speed for index, speed in speeds.items() if speed is not None}
    return None
