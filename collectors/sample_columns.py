"""The columns of the two sample events, read off the events themselves.

Rule of this file: data. A column added to the contract appears here by itself, and is None until a query fills it.
"""

from paceline.events import DeviceSamples, HostSamples
from paceline.wire import sample_columns

#: One value a row, beside the device and the time.
DEVICE_COLUMNS = tuple(name for name in sample_columns(DeviceSamples) if name not in ("device", "time_s"))
HOST_COLUMNS = tuple(name for name in sample_columns(HostSamples) if name != "time_s")
