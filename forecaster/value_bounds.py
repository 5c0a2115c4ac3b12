"""Between which bounds the values of a series lie that has the name or the unit of one of Paceline's own.

Rule of this file: pure. What is posted under such a name is forecast, drawn and used as if it were measured.
"""

from paceline.events import BY_QUARTER_HOUR

from .quarters import FIELDS
from .subjects import DEVICE, HOST

#: What a key of ours has behind its cluster, and the fields of all of them.
SCOPES, OURS = {"cluster", "node", "job", "device"}, {*DEVICE, *HOST, *FIELDS, "step_s", "steps_per_s", "wait_ratio"}
#: The lowest temperature.
COLDEST_CELSIUS = -273.15

#: Least and most; None: without that bound.
Bounds = tuple[float | None, float | None]


def bounds(key: str, unit: str) -> Bounds:
    """The bounds of the series ``key`` whose unit is called ``unit``.

    >>> bounds("c/cluster/free_gpus_15min", ""), bounds("c/node/n/cpu_ratio", ""), bounds("mine/balance", "EUR")
    ((0.0, None), (0.0, 1.0), (None, None))
    >>> bounds("mine/idle", "GPUs"), bounds("mine/share", "ratio, 0 to 1")
    ((0.0, None), (0.0, 1.0))
    """
    scope, _, field = key.removesuffix(BY_QUARTER_HOUR).rpartition("/")
    ours = field in OURS and not SCOPES.isdisjoint(scope.split("/")[1:])
    if (ours and field.endswith("_ratio")) or unit.startswith("ratio, 0 to 1"):
        return 0.0, 1.0
    if ours and field.endswith("_celsius"):
        return COLDEST_CELSIUS, None
    return (0.0, None) if ours or unit == "GPUs" else (None, None)
