"""What a dcgm-exporter says of a node's GPUs at one time, in the words of our samples.

Rule of this file: pure, and the one place where DCGM's series become rows. What NVML would say of the same facts is
said alike: units, ratios, sums of two counters, memory without the driver's reserve; a blank or a metric that is not
exported is *not measured*, with the reason, and never 0.

A GPU under MIG is one device here, as everywhere: what is told of its instances is added up where that gives the
whole (memory), taken where all of them repeat the GPU's (temperature, power, counters), and else not measured.

A GPU that pods share by time slicing has each series once for each of them (``vgpu``). Mostly these are copies of the
GPU's number. Where a newer exporter tells what each pod uses, memory and utilisation are the sum over the pods.
"""

import re
from collections import Counter
from collections.abc import Container, Iterable, Iterator, Mapping
from typing import Any, NamedTuple

import msgspec

from paceline.events import DeviceDescribed, DeviceProcess, DeviceSamples, Whole
from paceline.gpu import dcgm
from paceline.gpu.dcgm import measured
from paceline.gpu.exporter_text import Series, read
from paceline.gpu.limits import RATIO, blank, limit, possible
from paceline.gpu.readings import Value
from paceline.gpu.sample_rows import DEVICE_COLUMNS, Row

#: GPUs of one text: of a node, or of many where several exporters' texts were joined.
MOST_GPUS = 4096
_INDEX_DIGITS = 4
NOT_EXPORTED, BLANK, IMPOSSIBLE = "not exported", "DCGM gives no value", "DCGM gives a value that cannot be"
#: What stands for a series without a value: DCGM's blank, or a number that cannot be.
_BLANK, _IMPOSSIBLE = -1.0, -2.0
OF_INSTANCES = "only reported for MIG instances"
#: What a Prometheus puts before labels of an exporter that are its own, too; and labels that name a node.
_EXPORTED, _NODE = "exported_", ("hostname", "Hostname", "node", "instance")
#: Labels of a pod, and what --use-old-namespace calls them; the exporter's own has this in its name.
_POD, _EXPORTER = ("pod", "namespace", "container"), "dcgm-exporter"
_OLD_POD = ("pod_name", "pod_namespace", "container_name")
#: What no two GPUs have. (``GPU-0`` may be on every node.)
_UUID = re.compile(r"(?:GPU|MIG)-(?![0-]*$)[0-9a-f]{8}(?:-[0-9a-f]{4}){3}-[0-9a-f]{12}", re.IGNORECASE)
UNATTRIBUTED = "no pod and no hpc_job in the labels"
#: Columns of two counters that NVML's row adds up, too.
_SUMS = {
    "retired_pages": (dcgm.RETIRED_SBE, dcgm.RETIRED_DBE),
    "remapped_rows": (dcgm.REMAPPED_UNCORRECTABLE, dcgm.REMAPPED_CORRECTABLE),
    "nvlink_crc_errors": (dcgm.NVLINK_CRC_FLIT, dcgm.NVLINK_CRC_DATA),
    "nvlink_errors": (dcgm.NVLINK_REPLAY, dcgm.NVLINK_RECOVERY),
}
#: What a DeviceDescribed is made of, beside its labels.
_RATED = {
    "pcie_generation_max": dcgm.PCIE_MAX_GENERATION,
    "pcie_width_max": dcgm.PCIE_MAX_WIDTH,
    "sm_clock_max_mhz": dcgm.MAX_SM_CLOCK,
}
#: Columns that add up over the instances of a GPU, and endings of those that no sum or maximum makes whole.
_OF_AN_INSTANCE = ("fb_used_bytes", "fb_free_bytes", "fb_total_bytes")
#: What an exporter may tell of each pod that shares a GPU, in place of the GPU's.
_OF_A_POD = ("fb_used_bytes", "utilization_ratio")
_SHARES = ("_ratio", "_per_s", dcgm.GRAPHICS_ENGINE_ACTIVE, dcgm.SM_OCCUPANCY, dcgm.FB_USED_SHARE)
_WHOLE = {field.name for field in msgspec.structs.fields(DeviceSamples) if field.type == list[Whole | None]}


class _Source(NamedTuple):
    """What fills ``column``: under one of several names, the smaller ``order`` first; ``factor`` to its unit."""

    column: str
    factor: float
    order: tuple[bool, int, int]


def _sources() -> dict[str, _Source]:
    columns = {*DEVICE_COLUMNS, "fb_free_bytes"}
    kept = {*dcgm.ONLY_DCGM, *(name for names in _SUMS.values() for name in names), *_RATED.values()}
    sources = {}
    for field in dcgm.FIELDS:
        ours = field.column in columns
        if not ours and field.name not in kept:
            continue
        column = field.column if ours else field.name
        # What has no column keeps DCGM's unit: an alias with another factor is taken to that one.
        own = ((field.name, field.factor), (dcgm.old_name(field), field.factor))
        for name, factor in (*own, *((alias.name, alias.factor) for alias in field.aliases)):
            scale = factor if ours else factor / field.factor
            sources[name] = _Source(column, scale, dcgm.rank_of_name(field, name))
    return sources


#: Every name that is read -> what it fills.
SOURCES = _sources()
#: The columns that an exporter can fill, of samples and of rules.
COLUMNS = frozenset({*(source.column for source in SOURCES.values()), *_SUMS, "fb_total_bytes"} - set(_RATED.values()))


class ExportedGpu(NamedTuple):
    """One GPU: its name and number, its row, which columns it does not measure and why, and who uses it.

    ``owners`` are (job, name), None where the labels attribute no GPU to anyone.
    """

    uuid: str
    number: int | None
    row: Row
    why: dict[str, str]
    owners: tuple[tuple[str, str], ...] | None
    described: DeviceDescribed


class Scrape(NamedTuple):
    """The GPUs of one node at one time, by the driver's index. ``node`` is "" and ``time_s`` None where not told."""

    node: str
    time_s: float | None
    driver: str
    gpus: list[ExportedGpu]


#: Order of the name, MIG instance and slice in time -> value.
_Cell = dict[tuple[tuple[bool, int, int], str, str], float]


class _Told:
    """The series of one GPU at one time."""

    def __init__(self) -> None:
        self.labels: dict[str, str] = {}
        self.owners: dict[tuple[str, str], None] = {}
        self.attributed = False
        self.cells: dict[str, _Cell] = {}


def label(labels: Mapping[str, str], name: str) -> str:
    """What the exporter wrote as ``name``, or "".

    A Prometheus without ``honor_labels`` calls its own target so, and what the exporter wrote ``exported_…``; one that
    takes from such a Prometheus may add the word once more. The innermost is the exporter's.

    >>> label({"pod": "dcgm-exporter-x7k2p", "exported_pod": "train-0"}, "pod"), label({"pod": "train-0"}, "pod")
    ('train-0', 'train-0')
    """
    while f"{_EXPORTED}{name}" in labels:
        name = f"{_EXPORTED}{name}"
    return labels.get(name, "")


def node_of_labels(labels: Mapping[str, str]) -> str:
    """The node that ``labels`` name, or "": ``Hostname`` became ``hostname`` in May 2026; a Prometheus adds others."""
    return next((told for name in _NODE if (told := label(labels, name))), "")


def device_of_labels(labels: Mapping[str, str]) -> str:
    """The GPU that ``labels`` name, or "": by its UUID (``uuid`` with --use-old-namespace), else by its number."""
    number = label(labels, "gpu")
    return label(labels, "UUID") or label(labels, "uuid") or (f"gpu {number}" if number else "")


def place_of_labels(labels: Mapping[str, str], nodes: dict[str, str]) -> tuple[str, str]:
    """The node and the GPU that ``labels`` name, "" where they do not. ``nodes`` keeps the node of each UUID: one GPU
    may have two exporters, which do not call the node alike.

    >>> uuid, nodes = "GPU-4cd9c5b2-6f2e-4f0a-9a3b-0d6f6f4d2c11", {}
    >>> [place_of_labels({"UUID": uuid, "Hostname": host}, nodes)[0] for host in ("n1", "dcgm-exporter-x7k2p")]
    ['n1', 'n1']
    """
    node, device = node_of_labels(labels), device_of_labels(labels)
    if node and has_uuid(device):
        node = nodes.setdefault(device, node)
    return node, device


def has_uuid(device: str) -> bool:
    """Whether ``device`` is a name that no two GPUs have."""
    return _UUID.fullmatch(device) is not None


def of_an_exporter(labels: Mapping[str, str]) -> bool:
    """Whether the node that ``labels`` name is the exporter's own pod."""
    return _EXPORTER in node_of_labels(labels)


def scrapes(text: str, left_out: Counter[str]) -> list[Scrape]:
    """What ``text`` says, a node and time each, by time. What cannot be used is counted in ``left_out``."""
    told: dict[tuple[str, float | None], dict[str, _Told]] = {}
    count = 0
    found = read(text, SOURCES, left_out)
    renamed = any(behind(series.labels) for series in found)
    nodes: dict[float | None, dict[str, str]] = {}
    for series in sorted(found, key=lambda one: of_an_exporter(one.labels)):
        place_of_labels(series.labels, nodes.setdefault(series.time_s, {}))
    for series in found:
        uuid = device_of_labels(series.labels)
        if not uuid:
            left_out["series that name no GPU"] += 1
            continue
        node, _ = place_of_labels(series.labels, nodes[series.time_s])
        gpus = told.setdefault((node, series.time_s), {})
        if uuid not in gpus:
            count += 1
            if count > MOST_GPUS:
                left_out[f"series of GPUs beyond {MOST_GPUS:,}"] += 1
                continue
            gpus[uuid] = _Told()
        _take(gpus[uuid], series, left_out, renamed=renamed)
    all_told = [_scrape(node, time_s, gpus) for (node, time_s), gpus in told.items() if gpus]
    return sorted(all_told, key=lambda one: (one.time_s or 0.0, one.node))


def _take(gpu: _Told, series: Series, left_out: Counter[str], *, renamed: bool) -> None:
    source, labels = SOURCES[series.name], series.labels
    gpu.labels = {**labels, **gpu.labels}
    gpu.attributed |= renamed or "pod" in labels or bool(label(labels, "hpc_job"))
    owner = owner_of_labels(labels, renamed=renamed)
    if owner is not None:
        gpu.owners.setdefault(owner)
    cell = gpu.cells.setdefault(source.column, {})
    key = (source.order, label(labels, "GPU_I_ID"), label(labels, "vgpu"))
    value = _judged(series, source, left_out)
    # Where slices have no labels of their own a GPU is told once for each pod, with the same numbers.
    if cell.setdefault(key, value) != value:
        left_out["duplicate series with different numbers: the first is used"] += 1


def _judged(series: Series, source: _Source, left_out: Counter[str]) -> float:
    """The value in our unit; below 0 where it is none."""
    if measured(series.value) is None:
        return _BLANK
    value = series.value * source.factor
    if not blank(series.value) and possible(source.column, value):
        return value
    low, high, unit = limit(source.column)
    left_out[f"values of {series.name} that cannot be (from {low:g} to {high:g} {unit})"] += 1
    return _IMPOSSIBLE


def behind(labels: Mapping[str, str]) -> bool:
    """Whether a plain ``pod`` is not what the exporter wrote: that a Prometheus has renamed, or it has an old name."""
    return any(f"{_EXPORTED}{name}" in labels for name in _POD) or bool(_trained(labels, _OLD_POD)[0])


def owner_of_labels(labels: Mapping[str, str], *, renamed: bool = False) -> tuple[str, str] | None:
    """(job, name): Slurm's job by ``hpc_job``, else the pod, which is as much as Kubernetes' labels tell.

    Where pods are ``renamed`` (``behind``: some series of the text are), a ``pod`` that is not is the exporter's own.
    """
    pod, namespace, container = _trained(labels, _OLD_POD)
    if not pod:
        own = labels if not (renamed or behind(labels)) else {k: v for k, v in labels.items() if k not in _POD}
        pod, namespace, container = _trained(own, _POD)
    job = label(labels, "hpc_job")
    if not pod and not job:
        return None
    return job or (f"{namespace}.{pod}" if namespace else pod), container or pod or job


def _trained(labels: Mapping[str, str], names: tuple[str, str, str]) -> tuple[str, str, str]:
    """Pod, namespace and container under ``names``; none where they are an exporter's own."""
    pod, namespace, container = (label(labels, name) for name in names)
    return ("", namespace, "") if _EXPORTER in container or _EXPORTER in pod else (pod, namespace, container)


def _scrape(node: str, time_s: float | None, told: dict[str, _Told]) -> Scrape:
    gpus = [_gpu(uuid, one) for uuid, one in told.items()]
    gpus.sort(key=lambda gpu: (gpu.number is None, gpu.number or 0, gpu.uuid))
    drivers = [label(one.labels, "DCGM_FI_DRIVER_VERSION") for one in told.values()]
    return Scrape(node, time_s, max(drivers, default=""), gpus)


def _gpu(uuid: str, told: _Told) -> ExportedGpu:
    each = any(_differ(told.cells.get(column, {})) for column in _OF_A_POD)
    cells = {column: _value(column, cell, each=each and column in _OF_A_POD) for column, cell in told.cells.items()}
    numbers = {column: number for column, number in cells.items() if isinstance(number, float)}
    if "fb_used_bytes" in numbers and "fb_free_bytes" in numbers:
        numbers["fb_total_bytes"] = numbers["fb_used_bytes"] + numbers["fb_free_bytes"]
    for column, names in _SUMS.items():
        if all(name in numbers for name in names):
            numbers[column] = sum(numbers[name] for name in names)
        elif all(name in cells for name in names):
            cells[column] = BLANK
    if numbers.get("memory_temperature_celsius") == 0.0:  # A sensor that is not there.
        numbers["memory_temperature_celsius"], cells["memory_temperature_celsius"] = _BLANK, BLANK
    if cells.get("xid") == BLANK and numbers:  # There has been none. A GPU whose every field is blank was not read.
        numbers["xid"] = 0.0
    row: Row = {column: _fit(column, numbers.get(column)) for column in (*DEVICE_COLUMNS, *dcgm.ONLY_DCGM)}
    why = {}
    for column in DEVICE_COLUMNS:
        if row[column] is None:
            reason = cells.get(column, NOT_EXPORTED)
            why[column] = reason if isinstance(reason, str) else BLANK
    owners = tuple(told.owners) if told.attributed else None
    return ExportedGpu(uuid, _index(told.labels), row, why, owners, _described(uuid, told.labels, numbers))


def _differ(cell: _Cell) -> bool:
    """Whether slices of one GPU, or of one MIG instance, have numbers of their own."""
    slices: dict[tuple[tuple[bool, int, int], str], set[float]] = {}
    for (order, instance, vgpu), value in cell.items():
        if vgpu and value >= 0.0:
            slices.setdefault((order, instance), set()).add(value)
    return any(len(values) > 1 for values in slices.values())


def _value(column: str, cell: _Cell, *, each: bool) -> float | str:
    """The number of a column, by the best of its names that has one; else why there is none. ``each``: what slices
    have is their own."""
    why = BLANK if _BLANK in cell.values() else IMPOSSIBLE
    for order in sorted({order for order, _, _ in cell}):
        told: dict[str, dict[str, float]] = {}
        for (by, instance, vgpu), value in cell.items():
            if by == order and value >= 0.0:
                told.setdefault(instance, {})[vgpu] = value
        if "" in told or not told:
            if told:
                return _of_slices(column, told[""], each=each)
        elif column in _OF_AN_INSTANCE:
            return sum(_of_slices(column, slices, each=each) for slices in told.values())
        elif column.endswith(_SHARES):
            why = OF_INSTANCES
        else:
            return max(max(slices.values()) for slices in told.values())
    return why


def _of_slices(column: str, slices: dict[str, float], *, each: bool) -> float:
    if "" in slices:
        return slices[""]
    if not each:
        return max(slices.values())
    total = sum(slices.values())
    return min(total, 1.0) if limit(column) is RATIO else total


def _fit(column: str, value: float | None) -> Value:
    """``value`` as the events have it; ratios a hair over 1 are rounding, far over none."""
    if value is None or not possible(column, value):
        return None
    if column in _WHOLE:
        return int(value)
    return round(min(value, 1.0) if limit(column) is RATIO else value, 6)


def _index(labels: dict[str, str]) -> int | None:
    raw = label(labels, "gpu")
    return int(raw) if raw.isascii() and raw.isdigit() and len(raw) <= _INDEX_DIGITS else None


def _described(uuid: str, labels: dict[str, str], numbers: dict[str, float]) -> DeviceDescribed:
    known = {field: name for field, name in _RATED.items() if name in numbers}
    rated: dict[str, Any] = {field: int(numbers[name]) for field, name in known.items()}
    total = numbers.get("fb_total_bytes")
    return DeviceDescribed(
        index=_index(labels) or 0,
        uuid=uuid,
        name=label(labels, "modelName") or "unknown GPU",
        pci_bus_id=label(labels, "pci_bus_id") or None,
        memory_total_bytes=None if total is None else int(total),
        mig=bool(label(labels, "GPU_I_ID")) or None,
        **rated,
    )


def uuids(scrape: Scrape) -> list[str]:
    """The GPUs that rows speak of, in the order of the events."""
    return [gpu.uuid for gpu in scrape.gpus]


def processes(scrape: Scrape) -> list[DeviceProcess]:
    """Who uses the GPUs, by pod or job; the process ids that no label tells are 0."""
    return [
        DeviceProcess(device=place, pid=0, name=name, job=job)
        for place, gpu in enumerate(scrape.gpus)
        for job, name in gpu.owners or ()
    ]


def not_measured(scrape: Scrape) -> dict[str, str]:
    """Why, by column; ``column[N]`` where it holds for GPU N alone, ``device[N]`` for one that is not exported."""
    why = {f"device[{index}]": NOT_EXPORTED for index in _gaps(gpu.number for gpu in scrape.gpus)}
    for column in {column for gpu in scrape.gpus for column in gpu.why}:
        said = [gpu.why.get(column) for gpu in scrape.gpus]
        if len(set(said)) == 1 and said[0] is not None:
            why[column] = said[0]
            continue
        for place, (gpu, one) in enumerate(zip(scrape.gpus, said, strict=True)):
            if one is not None:
                why[f"{column}[{place if gpu.number is None else gpu.number}]"] = one
    if all(gpu.owners is None for gpu in scrape.gpus):
        why["processes"] = UNATTRIBUTED
    return dict(sorted(why.items()))


def _gaps(indices: Iterable[int | None]) -> Iterator[int]:
    """The numbers below the highest that none has: 64 at most, for no node has more GPUs than that."""
    there = {index for index in indices if index is not None}
    yield from (index for index in range(min(max(there, default=0), 64)) if index not in there)


class LastXids:
    """XIDs by the gauge that holds the last one: a new number is one that has just come.

    What stands there at the first sight of a GPU came at a time that nobody knows, and the same XID twice in a row
    cannot be seen.

    >>> xids = LastXids()
    >>> [xids.update({"GPU-a": code})["GPU-a"] for code in (31, 31, 79, 79)]
    [None, 0, 79, 0]
    """

    def __init__(self) -> None:
        self._last: dict[str, int] = {}

    def update(self, codes: dict[str, int], unread: Container[str] = ()) -> dict[str, int | None]:
        """The XIDs that came since the last call, by GPU: 0 where none did, None where that is not known.

        What stood at the ``unread`` GPUs before still counts: their gauges hold this time what is no XID, or DCGM has
        not read them at all.
        """
        new = {
            uuid: (None if uuid not in self._last else 0 if code == self._last[uuid] else code)
            for uuid, code in codes.items()
        }
        self._last = {uuid: code for uuid, code in self._last.items() if uuid in unread} | codes
        return new

    def rows(self, scrape: Scrape) -> list[tuple[str, Row]]:
        """The rows of ``scrape``, (GPU, values): each XID in exactly one of them."""
        told = [gpu for gpu in scrape.gpus if "xid" not in gpu.why]
        unread = {gpu.uuid for gpu in scrape.gpus if gpu.why.get("xid") in (IMPOSSIBLE, BLANK)}
        new = self.update({gpu.uuid: int(gpu.row["xid"] or 0) for gpu in told}, unread)
        return [(gpu.uuid, {**gpu.row, "xid": new.get(gpu.uuid)}) for gpu in scrape.gpus]
