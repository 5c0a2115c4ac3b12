"""A dcgm-exporter's text, line by line, to series of the fields that we know.

Rule of this file: pure and bounded. A line that is none costs itself alone, and is counted. Labels and numbers are
read by the Prometheus client's parser; what a number means is reported in ``exporter``.
"""

import math
import re
from collections import Counter
from collections.abc import Container
from typing import NamedTuple

from prometheus_client.parser import text_string_to_metric_families

from paceline.events import LATEST_S

#: Bytes of one answer or file: an exporter of 8 GPUs with 60 fields writes some 150 kB.
MOST_BYTES = 64 * 2**20
#: Characters of a line, and of a label's value that is kept.
MOST_LINE, MOST_LABEL = 4096, 200
NO_TEXT = "lines that are not Prometheus text"
_NAME = re.compile(r"([A-Za-z_:][A-Za-z0-9_:]*)[ \t{]", re.ASCII)
#: What OpenMetrics writes behind a value: an exemplar, after a " # " outside of any label.
_EXEMPLAR = re.compile(r"""((?:[^"#]|"(?:\\.|[^"\\])*"|(?<! )#|(?<= )#(?! ))*) # """)


class Series(NamedTuple):
    """One line: a field's value of one GPU. ``time_s`` is Unix time, None where the text has none."""

    name: str
    labels: dict[str, str]
    value: float
    time_s: float | None


def read(text: str, names: Container[str], left_out: Counter[str]) -> list[Series]:
    """The lines of ``text`` that have one of ``names``, in their order; what is no such text is counted in
    ``left_out``.

    Times are milliseconds in Prometheus' text, and seconds in OpenMetrics', which ends with ``# EOF``.

    >>> read('a{gpu="0"} 5 1700000000000\\nb 1\\n!\\n', {"a"}, counted := Counter()), counted[NO_TEXT]
    ([Series(name='a', labels={'gpu': '0'}, value=5.0, time_s=1700000000.0)], 1)
    """
    open_metrics = text.rstrip().endswith("# EOF")
    found = []
    for line in text.split("\n"):
        line = line.strip()
        if not line or line.startswith("#"):
            continue
        named = _NAME.match(line)
        if named is not None and named[1] not in names:
            continue
        one = _series(line) if named is not None and len(line) <= MOST_LINE else None
        if one is None:
            left_out[NO_TEXT] += 1
            continue
        time_s = one.time_s * 1000.0 if one.time_s is not None and open_metrics else one.time_s
        if time_s is not None and not 0.0 < time_s <= LATEST_S:
            left_out["impossible times"] += 1
            continue
        found.append(one._replace(time_s=time_s))
    return found


def _series(line: str) -> Series | None:
    exemplar = _EXEMPLAR.match(line)
    try:
        families = list(text_string_to_metric_families(exemplar[1] if exemplar else line))
        if len(families) != 1 or len(families[0].samples) != 1:
            return None
        sample = families[0].samples[0]
        labels = {name: value[:MOST_LABEL] for name, value in sample.labels.items()}
        time_s = None if sample.timestamp is None else float(sample.timestamp)
        return Series(sample.name, labels, _number(sample.value), time_s)
    except (ValueError, IndexError, OverflowError):
        return None


def _number(value: float) -> float:
    """``value`` as a fraction; a whole number that is too large for one is no measurement."""
    try:
        return float(value)
    except OverflowError:
        return math.inf
