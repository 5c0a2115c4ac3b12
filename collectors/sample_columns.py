"""The columns of the two sample events, read off the events themselves.

Rule of this file: data. A column added to the contract appears here by itself, and is None until a query fills it.
"""

import msgspec

from paceline.events import DeviceSamples, HostSamples

_NO_COLUMNS = {"schema_version", "cluster", "producer", "sequence", "node", "t0_s", "time_s", "not_measured"}
_NO_COLUMNS |= {"uuids", "device", "processes", "network_errors", "account"}


def _columns(event: type[msgspec.Struct]) -> tuple[str, ...]:
    return tuple(name for name in event.__struct_fields__ if name not in _NO_COLUMNS)


#: One value a row, beside the device and the time.
DEVICE_COLUMNS = _columns(DeviceSamples)
HOST_COLUMNS = _columns(HostSamples)
