"""Models that take longer than a request should, or need a package that may not be installed: asked for by name.

Rule of this file: their packages are imported when they are first asked.
"""

from . import foundation, fracast, prophet, statespace
from .model import Model

#: Name -> model.
SLOW: dict[str, Model] = {
    "statespace": statespace.statespace,
    "prophet": prophet.prophet,
    "fracast": fracast.fracast,
    "chronos": foundation.chronos,
}
