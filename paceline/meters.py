"""What a metric of Paceline is: its name, type, labels and meaning, declared before it is used.

Rule of this file: pure, and of the standard library alone. Each service declares its metrics in a table of these, and
``docs/metrics.md`` is written from the tables. Labels are bounded: whatever a job, node or device is called, no label
is longer than ``MOST_LETTERS``, and no two names become one.
"""

import hashlib
from typing import Literal, NamedTuple

#: No label is longer; what is longer is cut, and marked by a hash of the whole.
MOST_LETTERS = 128
_HASH_LETTERS = 12
#: By how a name ends (without ``_total``): the unit that its values are in. The longest ending counts.
UNITS = {
    "bytes_per_second": "bytes per second",
    "per_second": "per second",
    "seconds": "seconds",
    "bytes": "bytes",
    "ratio": "ratio (0 to 1)",
    "celsius": "degrees Celsius",
    "watts": "watts",
    "joules": "joules",
    "hertz": "hertz",
}


class Meter(NamedTuple):
    """A metric: ``name`` is without the ``_total`` that a counter's samples have."""

    name: str
    kind: Literal["counter", "gauge", "histogram"]
    help: str
    labels: tuple[str, ...] = ()

    @property
    def sample(self) -> str:
        """The name under which its values are asked for; of a histogram that of its family.

        >>> Meter("paceline_streams_commits", "counter", "Offset commits.").sample
        'paceline_streams_commits_total'
        """
        return f"{self.name}_total" if self.kind == "counter" else self.name

    @property
    def unit(self) -> str:
        """What its values are in; nothing of what is counted.

        >>> Meter("paceline_device_power_watts", "gauge", "Power.").unit
        'watts'
        """
        endings = [ending for ending in UNITS if self.name.endswith(f"_{ending}")]
        return UNITS[max(endings, key=len)] if endings else ""


def label(name: str) -> str:
    """``name`` as the value of a label: as it is, unless it is too long or is no text that can be sent.

    >>> label("resnet-50"), len(label("x" * 1000)), label("x" * 1000) == label("x" * 1001)
    ('resnet-50', 128, False)
    """
    sent = name.encode("utf-8", "backslashreplace").decode().replace("\0", "\\0")
    if len(sent) <= MOST_LETTERS:
        return sent
    mark = hashlib.sha256(sent.encode()).hexdigest()[:_HASH_LETTERS]
    return f"{sent[: MOST_LETTERS - _HASH_LETTERS - 1]}~{mark}"
