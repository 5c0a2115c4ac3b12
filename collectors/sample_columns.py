"""The columns of a host's samples, read off the event itself; those of a GPU's are in ``paceline.gpu.sample_rows``.

Rule of this file: data. A column added to the contract appears here by itself, and is None until a query fills it.
"""

from paceline.events import HostSamples
from paceline.wire import sample_columns

#: One value a row, beside the time.
HOST_COLUMNS = tuple(name for name in sample_columns(HostSamples) if name != "time_s")
