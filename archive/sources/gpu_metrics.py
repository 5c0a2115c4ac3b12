"""What is asked of a Prometheus about GPUs: Paceline's own series first, for they are in our words, then DCGM's.

Rule of this file: data. A bit mask has no mean, and the last XID is no measurement: neither is asked for.
"""

from paceline.events import ARCHIVE_WINDOW_S
from paceline.gpu.dcgm import exported
from paceline.history.tables import DEVICE_WINDOW, DEVICE_WORDS
from paceline.prometheus import Metric
from paceline.schema import unit_of

#: The windows that are filled in, as long as those that old windows are merged into.
WINDOW_S = ARCHIVE_WINDOW_S
_NOT_ASKED = ("throttle_reasons", "throttled_ratio", "xid", "pcie_generation", "pcie_width")
#: A GPU that has a value of one of these at a time was there.
_TELLING = ("utilization_ratio", "temperature_celsius", "power_w", "fb_used_bytes")
#: Memory in use and free together are all of it, where no other metric says.
FREE = "fb_free_bytes"
COLUMNS = tuple(name for name in DEVICE_WORDS if name not in _NOT_ASKED and f"mean_{name}" in DEVICE_WINDOW.columns)
#: Ending of a column -> that of the metric that the collectors export of it, and the factor back.
_BASE = {
    "_bytes_per_s": ("_bytes_per_second", 1.0),
    "_mhz": ("_hertz", 1e-6),
    "_w": ("_watts", 1.0),
    "_j": ("_joules", 1.0),
}
_COUNTED = ("energy_j", "pcie_replays", "ecc_corrected", "ecc_uncorrected", "retired_pages", "remapped_rows")
_COUNTED_LINKS = ("nvlink_crc_errors", "nvlink_errors")


def own(column: str) -> tuple[str, float]:
    """The metric that ``paceline collect`` exports of ``column``, and the factor to the column's unit.

    >>> own("sm_clock_mhz"), own("energy_j")
    (('paceline_device_sm_clock_hertz', 1e-06), ('paceline_device_energy_joules_total', 1.0))
    """
    ending = next((ending for ending in _BASE if column.endswith(ending)), "")
    base, factor = _BASE.get(ending, ("", 1.0))
    total = "_total" if column in (*_COUNTED, *_COUNTED_LINKS) else ""
    return f"paceline_device_{column.removesuffix(ending)}{base}{total}", factor


def _metrics(columns: tuple[str, ...]) -> tuple[Metric, ...]:
    named = [(column, *own(column)) for column in columns if column != FREE]
    named += [(column, name, factor) for column in columns for name, factor in exported(column)]
    return tuple(Metric(name, column, unit_of(column), factor, interval_s=WINDOW_S) for column, name, factor in named)


#: Asked first: without a value of these nothing is to be filled in. Of several of one column the first counts.
TELLING = _metrics(_TELLING)
OTHERS = _metrics((*(name for name in COLUMNS if name not in _TELLING), FREE))
