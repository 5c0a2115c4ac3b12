"""Which series comes first where there is no room or no time for all: the whole before its parts.

Rule of this file: pure.
"""

#: By what a series is of; values that somebody sent under a key of their own are as important as a cluster's.
_RANKS = {"cluster": 0, "job": 1, "node": 2}
#: Of a device what says most of its use, where there is more than one such number.
_USE = {"sm_active_ratio": 3, "utilization_ratio": 4}
LAST = 5


def rank(key: str) -> int:
    """From 0, the most important, to ``LAST``.

    >>> [rank(key) for key in ("c/cluster/free_gpus", "mine", "c/job/j/step_s", "c/node/n/cpu_ratio")]
    [0, 0, 1, 2]
    >>> [rank(f"c/device/n/g/{field}") for field in ("sm_active_ratio", "utilization_ratio", "power_w")]
    [3, 4, 5]
    """
    parts = key.split("/", 2)
    what = parts[1] if len(parts) == 3 else ""
    if what == "device":
        return _USE.get(key.rpartition("/")[2], LAST)
    return _RANKS.get(what, 0)
