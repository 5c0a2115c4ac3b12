"""From rows of GPUs to the event that carries them, whatever measured them: NVML here, or an exporter elsewhere.

Rule of this file: pure. Rows carry Unix times; an event says them as offsets from its first row.
"""

from collections.abc import Sequence
from typing import Any

from paceline.events import DeviceProcess, DeviceSamples
from paceline.gpu.dcgm import ONLY_DCGM
from paceline.gpu.readings import Value
from paceline.wire import sample_columns

#: One value a row, beside the device and the time. A column added to the contract appears here by itself.
DEVICE_COLUMNS = tuple(name for name in sample_columns(DeviceSamples) if name not in ("device", "time_s"))
Row = dict[str, Value]


def offsets_s(rows: Sequence[tuple[float, str, Any]], start_s: float) -> list[float]:
    """The times of ``rows``, (time, device, values), from ``start_s`` on."""
    return [round(time_s - start_s, 6) for time_s, _, _ in rows]


def device_samples(
    rows: list[tuple[float, str, Row]],
    looked_s: float,
    processes: list[DeviceProcess],
    uuids: list[str],
    not_measured: dict[str, str],
    **producer: Any,
) -> DeviceSamples:
    """The event of ``rows``; without any, of what the last look, at ``looked_s``, did not find.

    ``processes`` name devices by their place in ``uuids``.
    """
    start_s = rows[0][0] if rows else looked_s
    # A device that has just gone still has rows.
    names = [*uuids, *sorted({uuid for _, uuid, _ in rows} - set(uuids))]
    place = {uuid: index for index, uuid in enumerate(names)}
    columns: dict[str, Any] = {name: [row[name] for _, _, row in rows] for name in DEVICE_COLUMNS}
    others = {name: [row.get(name) for _, _, row in rows] for name in ONLY_DCGM}
    return DeviceSamples(
        **producer,
        **columns,
        t0_s=start_s,
        uuids=names,
        device=[place[uuid] for _, uuid, _ in rows],
        time_s=offsets_s(rows, start_s),
        processes=processes,
        not_measured=not_measured,
        dcgm={name: column for name, column in others.items() if any(value is not None for value in column)},
    )
