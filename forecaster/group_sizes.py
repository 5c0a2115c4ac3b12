"""How many GPUs a cluster had when a value of it was measured: sums over 64 GPUs say little of the 8 that are left.

Rule of this file: pure. Sizes are a series beside the sums; nothing is forgotten, for nodes that went may come back.
"""

import numpy as np

from paceline.events import BY_QUARTER_HOUR, FREE_GPUS

from .series import Array

#: The series of a cluster's size, and those that grow with it.
GPUS = "gpus"
SUMS = (FREE_GPUS, "gpu_power_w")
#: Sizes that are no further apart than this share of the present one are the same.
CLOSE = 0.25


def size_key(key: str) -> str | None:
    """The series of the sizes that belong to ``key``; None where its values are no sums over a cluster's GPUs.

    >>> size_key("c/cluster/free_gpus_15min"), size_key("c/cluster/gpu_busy_ratio"), size_key("c/node/n/free_gpus")
    ('c/cluster/gpus_15min', None, None)
    """
    base, of_cluster, field = key.rpartition("/cluster/")
    name = field.removesuffix(BY_QUARTER_HOUR)
    return f"{base}{of_cluster}{GPUS}{field.removeprefix(name)}" if of_cluster and name in SUMS else None


def is_size(key: str) -> bool:
    """Whether it is a series of sizes.

    >>> [is_size(key) for key in ("c/cluster/gpus", "c/cluster/gpus_15min", "c/cluster/free_gpus", "gpus")]
    [True, True, False, False]
    """
    return key.removesuffix(BY_QUARTER_HOUR).endswith(f"/cluster/{GPUS}")


def of_present_size(values: Array, sizes: Array) -> tuple[Array, int]:
    """``values`` in shares of the size that they were measured at, times the newest one; of how many that is another.

    A value whose size is not known, or close to the newest one, stays as it is.

    >>> of_present_size(np.array([32.0, 8.0, 4.0]), np.array([64.0, 9.0, 8.0]))
    (array([4., 8., 4.]), 1)
    """
    measured = sizes[np.isfinite(sizes)]
    if not measured.size:
        return values, 0
    now = measured[-1]
    other = np.isfinite(values) & (np.abs(sizes - now) > CLOSE * now) & (sizes > 0.0)
    scaled = values.copy()
    scaled[other] *= now / sizes[other]
    return scaled, int(other.sum())
