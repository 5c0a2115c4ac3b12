"""Which season a series has: days and weeks by the clock, else the strongest repetition in the values."""

import numpy as np

from ..series import Array

#: Seasons that people and their work have, in seconds.
CLOCK_S = (86_400.0, 604_800.0)
#: A repetition counts where the correlation with one season before is this high, and higher than at half of it.
CORRELATION, RISE = 0.35, 0.15
LONGEST = 20_160


def of_clock(interval_s: float, samples: int) -> int:
    """The samples in a day, where there are two days of history; 0 otherwise.

    >>> of_clock(300.0, 600), of_clock(60.0, 1440)
    (288, 0)
    """
    day = round(CLOCK_S[0] / interval_s)
    return day if 2 <= day <= LONGEST and samples >= 2 * day else 0


def of_values(filled: Array) -> int:
    """The samples after which the values repeat themselves best, at most a third of the history; 0 for none."""
    samples = len(filled)
    if samples < 24:
        return 0
    centred = filled - filled.mean()
    size = 1 << (2 * samples - 1).bit_length()
    transformed = np.fft.rfft(centred, size)
    products = np.fft.irfft(transformed * np.conj(transformed), size)[: samples // 3 + 1]
    if products[0] <= 1e-12 * max(1.0, float(np.abs(filled).max())) ** 2:
        return 0
    correlation = products / products[0] * samples / (samples - np.arange(len(products)))
    inner = correlation[1:-1]
    peaks = 1 + np.flatnonzero((inner > correlation[:-2]) & (inner >= correlation[2:]) & (inner > CORRELATION))
    peaks = peaks[peaks >= 4]
    rise = correlation[peaks] - np.array([correlation[1 : peak + 1].min() for peak in peaks])
    peaks = peaks[rise > RISE]
    if not peaks.size:
        return 0
    best = correlation[peaks].max()
    return int(peaks[correlation[peaks] >= 0.9 * best][0])
