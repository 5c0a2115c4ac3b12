"""The members of the pool: models quick enough for the request path."""

from . import analog, naive, network, profile, sample, smoothing, trend
from .model import Model

#: Name -> model. The first can always forecast.
MEMBERS: dict[str, Model] = {
    "naive": naive.naive,
    "seasonal_naive": naive.seasonal_naive,
    "last_60": sample.last_60,
    "last_240": sample.last_240,
    "smoothing": smoothing.smoothing,
    "trend": trend.trend,
    "profile": profile.profile,
    "analog": analog.analog,
    "analog_change": analog.analog_change,
    "network": network.network,
}
