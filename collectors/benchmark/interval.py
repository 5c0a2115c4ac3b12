"""The median of samples and where it lies in 95 of 100 cases, by nothing but their order.

Rule of this file: pure. The formula is that of ``paceline.paired``: no distribution is assumed; samples are taken to be
independent measurements of one thing, in any order.
"""

from collections.abc import Sequence

from paceline import paired

#: Fewer samples hold no interval that is right in 95 of 100 cases.
LEAST_SAMPLES = paired.LEAST_PAIRS


def median_interval(samples: Sequence[float]) -> paired.Interval:
    """The median between the k-th smallest and the k-th largest, k as large as 95 of 100 cases allow.

    >>> median_interval([5.0, 1.0, 4.0, 2.0, 3.0, 6.0, 7.0, 8.0, 9.0])
    Interval(middle=5.0, low=2.0, high=8.0)

    Raises:
        ValueError: fewer than six samples.
    """
    if len(samples) < LEAST_SAMPLES:
        raise ValueError(f"{len(samples)} samples; an interval needs {LEAST_SAMPLES}")
    return paired.median_interval(samples)
