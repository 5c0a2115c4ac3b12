"""How a signal resembles itself later, and how much of that chance would give."""

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray


@dataclass(frozen=True)
class Autocorrelation:
    """Correlation at lags 0, 1, … (``ratio``), its variance under chance, and the power spectrum it came from.

    ``power[i]`` belongs to a period of ``padded / i`` cells.
    """

    ratio: NDArray[np.float64]
    variance: float
    power: NDArray[np.float64]
    padded: int


def autocorrelation(flat: NDArray[np.float64], measured: NDArray[np.bool_], longest: int) -> Autocorrelation:
    """The autocorrelation of ``flat`` (mean 0, holes 0) with every lag divided by its number of measured pairs.

    The variance of a lag's estimate for a signal with short memory and no cycle is Bartlett's: (1 + 2 sum r²) / n, the
    sum taken to the first lag (at most ``longest``) at which the memory has faded.

    Source: M. S. Bartlett, On the theoretical specification and sampling properties of autocorrelated time-series,
    1946.
    """
    length = len(flat)
    padded = 1 << (2 * length - 1).bit_length()
    spectrum = np.fft.rfft(flat, padded)
    power = np.abs(spectrum) ** 2
    products = np.fft.irfft(power, padded)[:length]
    pairs = np.fft.irfft(np.abs(np.fft.rfft(measured.astype(np.float64), padded)) ** 2, padded)[:length]
    ratio = products / np.maximum(np.round(pairs), 1.0)
    ratio = ratio / ratio[0] if ratio[0] > 0 else np.zeros(length)
    faded = np.flatnonzero(ratio[: longest + 1] <= 0.05)
    memory = int(faded[0]) if len(faded) else longest
    variance = (1 + 2 * float(np.sum(ratio[1:memory] ** 2))) / max(int(measured.sum()), 1)
    return Autocorrelation(ratio, variance, power, padded)
